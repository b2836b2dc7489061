// Pieces of LLVM IR that do not depend on the program: types, literals and helper functions.
#pragma once
#include "uop/dtype.h"
#include "uop/scalar.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace lathe::llvm_text {

// "float", "<8 x float>"; lanes 0 is a scalar.
std::string with_lanes(std::string_view scalar, int64_t lanes);
std::string_view scalar_type(DType d);  // in registers
std::string_view memory_type(DType d);
std::string type(DType d, int64_t lanes);
// What arithmetic on `d` is done in: bfloat16 computes as float.
DType compute_dtype(DType d);

// Exact: floats as the hexadecimal of a double, half as its bits.
std::string literal(DType d, const Scalar& v);
// The literal as operand of a vector operation: "splat (float 0x…)".
std::string splat_literal(DType d, const Scalar& v);

// Suffix of overloaded intrinsics: "f32", "v8f32".
std::string suffix(std::string_view scalar_type, int64_t lanes);

// Declarations and helper functions that a module turned out to need, in a fixed order.
class Module {
 public:
  // Name of the intrinsic; `arguments` is the list of parameter types.
  std::string intrinsic(const std::string& name, const std::string& result, const std::string& arguments);
  // float lanes to the i16 of bfloat16, round to nearest even, NaN stays NaN.
  std::string bfloat_from_float(int64_t lanes);
  std::string float_from_bfloat(int64_t lanes);
  // double to float, rounding to odd: rounding the result once more to a narrower type gives what one
  // rounding would.
  std::string float_from_double_odd(int64_t lanes);
  // Truncates; values from 2^63 on are right, negative ones wrap.
  std::string uint64_from(DType from, int64_t lanes);

  std::string text() const;

 private:
  std::string helper(const std::string& name, const std::string& definition);
  std::set<std::string> declarations_;
  std::map<std::string, std::string> helpers_;
};

}  // namespace lathe::llvm_text
