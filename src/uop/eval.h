// The reference ALU: what every op of the table means on single values. The constant folder and the
// interpreter share it.
#pragma once
#include "uop/dtype.h"
#include "uop/op.h"
#include "uop/scalar.h"

#include <optional>
#include <span>

namespace lathe {

class UOp;

// Value of `op` with result type `dtype`. Sources are first put on the grid of `dtype`, except those that
// have a type of their own: shift counts, the condition of Where, and both sides of a comparison, which
// compares exact numeric values (a caller with a weak side commits it first).
// - Floats are IEEE and round once to `dtype`; exp2, log2, sin and pow are those of double before rounding.
// weakfloat
//   computes in double.
// - Integers wrap to `dtype`. weakint is exact: no value when the result leaves ±2^126.
// - Invalid in any source that counts gives Invalid; Where counts its condition and the chosen branch.
// - Shifts multiply or divide (rounding down) by 2^n for every n >= 0, so a count at or above the width
// shifts all bits out. No value for ops that do not fold, integer division by zero, negative shift counts,
// zero to a negative integer power, and integer-only ops of float type.
std::optional<Scalar> eval(Op op, DType dtype, std::span<const Scalar> srcs);

// Value of an ALU op or a Cast from those of its sources. Both sides of a comparison are committed to the
// type they meet in first, as they are when the program runs.
std::optional<Scalar> eval(const UOp& u, std::span<const Scalar> srcs);

// Whether constants fold through `op` at all.
bool has_eval(Op op);

}  // namespace lathe
