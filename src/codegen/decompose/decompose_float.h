// Transcendental functions in terms of arithmetic.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

namespace lathe {

// After this pass no Exp2, Log2, Sin, Pow, Sqrt, Trunc and Reciprocal is left that the target lacks. Knob
// TRANSCENDENTAL: 2 replaces Exp2, Log2, Sin and Pow on every target, 0 leaves them. float32 and float64 are
// computed as they are (see transcendental.h), narrower types in float32. Pow of float32 is computed in
// float64 where the target has it and is exact to one rounding; pow of float64 loses about as many bits as
// its exponent has. A sin whose angle may be huge gets a loop that runs once where some lane is, else not at
// all. exp2(x * log2(e) * ±2^k) and sin(pi/2 - x) are computed as exp and cos of x, without rounding the
// argument. Figures: docs/accuracy.md.
// Shown by test/unit/decompose_float.cpp and decompose_sin.cpp.
UOp decompose_float(const UOp& sink, const Target& target);

// An upper bound of |u| for finite values of what it is computed from, infinite where none shows.
double largest_magnitude(const UOp& u);

}  // namespace lathe
