// Pieces of LLVM IR that do not depend on the program: types and literals.
#pragma once
#include "uop/dtype.h"
#include "uop/scalar.h"

#include <cstdint>
#include <string>

namespace lathe::llvm_text {

// "float", "<8 x float>"; lanes 0 is a scalar.
std::string with_lanes(std::string_view scalar, int64_t lanes);
std::string_view scalar_type(DType d);  // in registers
std::string_view memory_type(DType d);
std::string type(DType d, int64_t lanes);

// Exact: floats as the hexadecimal of a double, half as its bits.
std::string literal(DType d, const Scalar& v);
// The literal as operand of an operation on `lanes`: "splat (float 0x…)".
std::string literal(DType d, const Scalar& v, int64_t lanes);

// Suffix of overloaded intrinsics: "f32", "v8f32".
std::string suffix(std::string_view scalar_type, int64_t lanes);

}  // namespace lathe::llvm_text
