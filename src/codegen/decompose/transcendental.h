// exp2, log2 and sin as branch-free expressions in +, *, comparisons and bit operations.
//
// `x` is float32 or float64, of any shape. Errors are in units in the last place of the result, over all
// arguments unless said, and hold with and without fused multiply-add. Subnormal arguments and results,
// infinities and NaN are exact. Coefficients are minimax fits of the relative error (Remez exchange).
#pragma once
#include "uop/uop.h"

#include <optional>

namespace lathe {

enum class Precision : uint8_t {
  Full,
  Single,  // float64 in, relative error below 2^-37: enough for a result that is rounded to float32
};

// float32: 1.04 (with fma 0.9). float64: 1.2. Of x + tail, where `tail` is less than the last place of x.
UOp exp2_expression(const UOp& x, Precision precision = Precision::Full, const UOp& tail = {});

// e^(x * scale) for scale = ±2^k, as accurate as exp2 of an exact product; rounding that product first would
// cost a place for every unit of its size. `exp_scale` is the scale for which exp2(x * factor) is that, with
// a factor of dtype `d`.
UOp exp_expression(const UOp& x, double scale);
std::optional<double> exp_scale(const Scalar& factor, DType d);

// float32: 1.2. float64: 2.
UOp log2_expression(const UOp& x, Precision precision = Precision::Full);

// base^exponent for base >= 0, both of the same type: 1.5. NaN where base is 1 or exponent 0 and the other is
// NaN or infinite.
UOp power_expression(const UOp& base, const UOp& exponent);

// The parts of sin: for angles that are not huge, infinities and NaN; for huge angles, whose reduction is
// most of the work; and which of the two applies. float32: 1.5 (with fma 1.25). float64: 2, and 3 where |x| >
// 10^8. `has_double`: float64 may be computed with; without it float32 is 3 ulp for huge angles. The result
// is sin(x + quarters * pi/2), with that sum not rounded.
UOp sin_of_ordinary(const UOp& x, int quarters = 0);
UOp sin_of_huge(const UOp& x, bool has_double, int quarters = 0);
UOp is_huge_angle(const UOp& x);
inline constexpr double kSinReduction32 = 4096;
inline constexpr double kSinReduction64 = 1e8;

}  // namespace lathe
