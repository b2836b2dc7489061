#pragma once

#include "base/result.h"
#include "uop/expression.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

using Names = std::vector<std::pair<std::string, UOp>>;

// Reads the notation of uop/expression.h. Errors, not exceptions, also for what no graph can hold (shapes
// that do not broadcast, integer ops on floats). Nesting deeper than 200 is an error.
//
// Operators as in C, `//` and `%` the floor pair, `cdiv` and `cmod` the truncating pair (infix or as calls),
// `!x` is x != true, `x-5` is x + -5, `c ? t : f` is `t if c else f`. Functions: max min pow cdiv cmod
// threefry rcp exp2 log2 sin sqrt trunc where(c,t,f) lanes(a,b,…) bitcast(x,dtype), and every dtype name as a
// cast (also weak i8…u64 f16 bf16 f32 f64). T F Inv are true, false, Invalid.
Result<UOp> parse_expression(std::string_view text, const Names& names);

// The dtype names of the notation: those of parse_dtype and the short ones above.
std::optional<DType> parse_short_dtype(std::string_view word);

// Declarations separated by blanks:
//   a[0,8]          weakint variable with inclusive bounds
//   a[0,64]%4:i32   a multiple of 4, of a dtype
//   x:float         any value of the dtype
//   r0=range(a+2)   a Loop range; the digits at the end of the name are its id
//   d=param(16):f32 buffer argument of 16 elements, slots counted from 0: `d[r0]` reads it
Result<Names> parse_names(std::string_view text);

}  // namespace lathe
