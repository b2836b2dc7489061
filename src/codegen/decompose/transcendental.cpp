#include "codegen/decompose/transcendental.h"

#include "codegen/decompose/coefficients_table.h"
#include "codegen/decompose/typed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace lathe {
namespace {

using namespace typed;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct FloatBits {
  DType bits;         // the integer type of the same width
  int mantissa;       // stored bits
  int bias;           // of the exponent
  double round;       // adding it to |x| < 2^(mantissa-1) leaves the nearest integer in the low bits
  int64_t sqrt_half;  // bits of sqrt(1/2)
  double least;       // smallest normal number
};
constexpr FloatBits kBits32{DType::Int32, 23, 127, 0x1.8p23, 0x3f3504f3, 0x1p-126};
constexpr FloatBits kBits64{DType::Int64, 52, 1023, 0x1.8p52, 0x3fe6a09e667f3bcd, 0x1p-1022};
const FloatBits& bits_of(DType d) {
  CHECK(d == DType::Float32 || d == DType::Float64, "a transcendental function of {}", d);
  return d == DType::Float32 ? kBits32 : kBits64;
}

std::span<const double> exp2_coefficients(DType d, Precision precision) {
  if (d == DType::Float32) return kExp2Single;
  return precision == Precision::Single ? std::span<const double>(kExp2Medium) : kExp2Double;
}

// x within what gives a finite or nonzero power 2^(x * rate): beyond, results are infinite and zero.
UOp clamped(const UOp& x, const FloatBits& f, double rate) {
  const double a = (f.bias + 2) / rate, b = (-f.bias - f.mantissa - 10) / rate;
  return at_least(at_most(x, std::max(a, b)), std::min(a, b));
}

// 2^n * power = 2^(n/2) * 2^(n - n/2) * power, so that neither factor leaves the normal range while their
// product may overflow or become subnormal. The low bits of t are n + 2*bias, and half of that is a biased
// exponent.
UOp times_power_of_two(const UOp& power, const UOp& t, const FloatBits& f) {
  const UOp n = bitcast(t, f.bits), half = shr(n, 1);
  const auto scale = [&](const UOp& exponent) { return bitcast(shl(exponent, f.mantissa), power.dtype()); };
  return power * scale(half) * scale(sub(n, half));
}

}  // namespace

// x = n + fraction with n the nearest integer.
UOp exp2_expression(const UOp& x, Precision precision, const UOp& tail) {
  const FloatBits& f = bits_of(x.dtype());
  const UOp y = clamped(x, f, 1);
  const double round = f.round + 2 * f.bias;
  const UOp t = add(y, round), rest = sub(y, sub(t, round)), fraction = tail ? rest + tail : rest;
  const UOp power = add(polynomial(fraction, exp2_coefficients(x.dtype(), precision)) * fraction, 1.0);
  return times_power_of_two(power, t, f);
}

// x * scale = n*ln(2) + rest * scale. The product of n and the first part of ln(2) is exact, and so is the
// difference.
UOp exp_expression(const UOp& x, double scale) {
  constexpr double kLn2 = std::numbers::ln2;
  constexpr double kParts32[] = {0x1.62e4p-1, 0x1.7f7d1cf79abcap-20};
  constexpr double kParts64[] = {0x1.62e42fefap-1, 0x1.cf79abc9e3b39p-40};
  const FloatBits& f = bits_of(x.dtype());
  const auto& parts = x.dtype() == DType::Float32 ? kParts32 : kParts64;
  const UOp y = clamped(x, f, scale / kLn2);
  const double round = f.round + 2 * f.bias;
  const UOp t = add(mul(y, scale / kLn2), round), n = sub(t, round);
  const UOp rest = y + mul(n, -parts[0] / scale) + mul(n, -parts[1] / scale);
  std::vector<double> c;
  double factor = 1;
  for (const double v : exp2_coefficients(x.dtype(), Precision::Full))
    c.push_back(v * (factor *= scale / kLn2));
  return times_power_of_two(add(polynomial(rest, c) * rest, 1.0), t, f);
}

std::optional<double> exp_scale(const Scalar& factor, DType d) {
  const double power = std::exp2(std::round(std::log2(std::fabs(factor.as_double()) * std::numbers::ln2)));
  const double scale = std::copysign(power, factor.as_double());
  const bool is_scale = std::isnormal(scale) && cast_scalar(Scalar(scale / std::numbers::ln2), d) == factor;
  return is_scale ? std::optional(scale) : std::nullopt;
}

namespace {

// x = 2^e * (1 + t) with 1 + t in [sqrt(1/2), sqrt(2)): log2(x) = e + log2(1 + t), and no digits cancel
// between the two.
struct Logarithm {
  UOp e, t;
};
Logarithm split_logarithm(const UOp& x) {
  const FloatBits& f = bits_of(x.dtype());
  const UOp tiny = less(x, f.least);
  const UOp scaled = where(tiny, mul(x, std::ldexp(1.0, f.mantissa + 2)), x);
  const UOp bits = bitcast(scaled, f.bits);
  const UOp exponent = shr(sub(bits, Scalar(f.sqrt_half)), f.mantissa);
  const UOp t = sub(bitcast(sub(bits, shl(exponent, f.mantissa)), x.dtype()), 1.0);
  return {cast(exponent, x.dtype()) + select(tiny, Scalar(-(f.mantissa + 2.0)), num(x, 0.0)), t};
}

}  // namespace

UOp log2_expression(const UOp& x, Precision precision) {
  const auto [e, t] = split_logarithm(x);
  UOp tail;  // log2(1 + t) - t
  if (x.dtype() == DType::Float32) {
    tail = polynomial(t, kLog2Single) * t;
  } else {
    // ln(1+t) = t - (t^2/2 - s * (t^2/2 + R(s^2))), as in fdlibm's e_log.c; log2 is that times 1 + 0.4427.
    const UOp s = t * alu(Op::Reciprocal, {add(t, 2.0)});
    const UOp square = s * s, half = mul(t * t, 0.5);
    const UOp series =
        precision == Precision::Single ? polynomial(square, kLnMedium) : polynomial(square, kLnDouble);
    const UOp below = sub(half, s * (half + series * square));
    tail = sub(mul(sub(t, below), 0.44269504088896340736), below);
  }
  const UOp result = e + (t + tail);
  const UOp not_positive = select(differs(x, 0.0), Scalar(std::nan("")), num(x, -kInfinity));
  return where(more(x, 0.0), where(less(x, kInfinity), result, x), not_positive);
}

namespace {

// x without the lower half of its digits: the product of two such numbers is exact.
UOp upper_half(const UOp& x) {
  const FloatBits& f = bits_of(x.dtype());
  return bitcast(bits_and(bitcast(x, f.bits), -(int64_t{1} << (f.mantissa + 2) / 2)), x.dtype());
}

// A sum with one and a half times the digits of a number; `head` has the upper half of them.
struct Extended {
  UOp head, tail;
};

// log2(x) for 0 < x < inf, as in fdlibm's e_pow.c: ln(1+t) = 2/3 s * (3 + s^2 + r) with s = t / (2+t).
Extended extended_log2(const UOp& x) {
  const auto [e, t] = split_logarithm(x);
  constexpr double kFactor32[] = {0x1.ec600p-1, 0x1.09dc3a03fd74ap-13},
                   kFactor64[] = {0x1.ec709d8000000p-1, 0x1.0e80ff5d27f05p-27};  // 2/3 / ln(2)
  const auto& factor = x.dtype() == DType::Float32 ? kFactor32 : kFactor64;
  const UOp divisor = add(t, 2.0), inverse = alu(Op::Reciprocal, {divisor}), s = t * inverse;
  const UOp s_head = upper_half(s), divisor_head = upper_half(divisor);
  const UOp divisor_tail = sub(t, add(divisor_head, -2.0));
  const UOp s_tail = inverse * sub(sub(t, s_head * divisor_head), s_head * divisor_tail);
  const UOp square = s * s, exact_square = s_head * s_head;
  const UOp r = square * square * polynomial(square, kLnExtended) + s_tail * (s_head + s);
  const UOp sum = upper_half(add(exact_square, 3.0) + r),
            sum_tail = sub(r, sub(add(sum, -3.0), exact_square));
  const UOp product = s_head * sum, product_tail = s_tail * sum + sum_tail * s;
  const UOp ln = upper_half(product + product_tail), ln_tail = sub(product_tail, sub(ln, product));
  const UOp log = mul(ln, factor[0]), log_tail = mul(ln, factor[1]) + mul(ln_tail, factor[0] + factor[1]);
  const UOp head = upper_half(log + log_tail + e);
  return {head, sub(log_tail, sub(sub(head, e), log))};
}

}  // namespace

UOp power_expression(const UOp& base, const UOp& exponent) {
  const auto [log, log_tail] = extended_log2(base);
  // Beyond these every power is 0, 1 or infinite.
  const double largest = base.dtype() == DType::Float32 ? 0x1p33 : 0x1p65;
  const UOp e = at_least(at_most(exponent, largest), -largest), e_head = upper_half(e);
  const UOp log_of_end = where(differs(base, 0.0), base, num(base, -kInfinity));  // of inf, NaN and 0
  const UOp is_ordinary = more(base, 0.0) & less(base, kInfinity);
  const UOp power = where(is_ordinary, e_head * log, e * log_of_end);
  const double range = 2 * bits_of(base.dtype()).bias + 2;
  const UOp is_in_range = is_ordinary & more(power, -range) & less(power, range);
  const UOp rest = sub(e, e_head) * log + e * log_tail, sum = power + rest;
  const UOp rounded_off = where(is_in_range, sub(rest, sub(sum, power)), num(base, 0.0));
  return exp2_expression(where(is_in_range, sum, power), Precision::Full, rounded_off);
}

}  // namespace lathe
