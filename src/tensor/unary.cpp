// Elementwise functions: arithmetic, exponentials, trigonometry, rounding, tests.
#include "tensor/gradient.h"
#include "tensor/promote.h"
#include "tensor/tensor.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <span>

namespace lathe {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kLn2 = std::numbers::ln2;
constexpr double kLog10Of2 = 0.30102999566398119521;

Tensor primitive(Op op, const Tensor& x) { return Tensor(alu(op, {x.uop()})); }

// The float form of x: integers and bools become the default float.
Tensor as_float(const Tensor& x) { return x.cast(least_upper_float(x.dtype())); }

// c[0] x^n + c[1] x^(n-1) + … + c[n]
Tensor polynomial(const Tensor& x, std::span<const double> c) {
  Tensor sum = x.mul(c[0]).add(c[1]);
  for (size_t i = 2; i < c.size(); i++) sum = sum.mul(x).add(c[i]);
  return sum;
}

// The part of an odd function next to zero: x + x * c(x^2) where `near` is true. What lies far away is kept
// out, so that its powers put no infinity into the gradient.
Tensor odd_near_zero(const Tensor& x, const Tensor& near, std::span<const double> c) {
  const Tensor y = near.where(x, 0);
  return polynomial(y.square(), c).mul(y).add(y);
}

// The coefficients for the type of x.
std::span<const double> fit(const Tensor& x, std::span<const double> single, std::span<const double> full) {
  return x.dtype() == DType::Float32 ? single : full;
}

// An odd function by its values f(|x|), computed in at least float32.
template <class F>
Tensor odd(const Tensor& any, F f) {
  return in_float32(any, [&](const Tensor& x) {
    const Tensor negative = x.lt(0), y = f(negative.where(x.neg(), x));
    return negative.where(y.neg(), y);
  });
}

}  // namespace

Tensor Tensor::cast(DType d) const {
  if (is_weak(d) && is_weak_literal(uop())) return Tensor(weak_literal(uop().value(), d));
  return Tensor(lathe::cast(uop(), d));
}

Tensor Tensor::bitcast(DType d) const {
  if (is_weak(dtype()) || is_weak(d))
    user_runtime_error("bitcast requires concrete dtypes, got {} -> {}", dtype_text(dtype()), dtype_text(d));
  if (item_size(dtype()) != item_size(d)) {
    const bool fits = ndim() > 0 && shape().back().is_const() &&
                      shape().back().value() * item_size(dtype()) % item_size(d) == 0;
    if (!fits) user_runtime_error("unsupported size in bitcast");
  }
  return Tensor(lathe::bitcast(uop(), d));
}

Tensor Tensor::neg() const { return is_bool(dtype()) ? logical_not() : mul(-1); }
Tensor Tensor::logical_not() const { return cast(DType::Bool).ne(true); }

Tensor Tensor::exp2() const { return primitive(Op::Exp2, as_float(*this)); }
Tensor Tensor::log2() const { return primitive(Op::Log2, as_float(*this)); }
Tensor Tensor::sin() const { return primitive(Op::Sin, as_float(*this)); }
Tensor Tensor::sqrt() const { return primitive(Op::Sqrt, as_float(*this)); }
Tensor Tensor::reciprocal() const { return primitive(Op::Reciprocal, as_float(*this)); }
Tensor Tensor::rsqrt() const { return sqrt().reciprocal(); }
Tensor Tensor::exp() const {
  return in_float32(*this, [](const Tensor& x) { return x.mul(1 / kLn2).exp2(); });
}
Tensor Tensor::log() const {
  return in_float32(*this, [](const Tensor& x) { return x.log2().mul(kLn2); });
}
Tensor Tensor::log1p() const {
  return in_float32(*this, [](const Tensor& x) {
    // What 1 + x rounds off, divided by it.
    const Tensor small = x.abs().lt(1).where(x, 0), sum = small.add(1);
    const Tensor rounded_off = small.sub(sum.sub(1)).div(sum).detach();
    return x.add(1).log().add(rounded_off);
  });
}
Tensor Tensor::log10() const {
  return in_float32(*this, [](const Tensor& x) { return x.log2().mul(kLog10Of2); });
}
Tensor Tensor::cos() const {
  return in_float32(*this, [](const Tensor& x) { return Tensor(kPi / 2).sub(x).sin(); });
}
Tensor Tensor::tan() const { return sin().div(cos()); }

// Chebyshev fits of (asin(x)/x - 1) / x^2 on [-1/2, 1/2]. Above, asin(x) = pi/2 - 2 asin(sqrt((1-x)/2)).
Tensor Tensor::asin() const {
  static constexpr double kSingle[] = {
      0.0336908472, 0.01714923836, 0.03110066274, 0.04459940153, 0.07500094543, 0.1666666634, 0};
  static constexpr double kDouble[] = {0.02875785136742156471, -0.01485188707124720322,
                                       0.01740087944269402244, 0.0054575067186403583,
                                       0.01032281435018577929, 0.0114791774151849059,
                                       0.0139712129735529333,  0.01735239272086997294,
                                       0.02237217294214988787, 0.03038194413853124729,
                                       0.04464285714635542978, 0.07499999999998432933,
                                       0.1666666666666666783,  0};
  return odd(*this, [](const Tensor& x) {
    const Tensor large = x.gt(0.5), y = large.where(Tensor(0.5).sub(x.mul(0.5)).sqrt(), x);
    const Tensor angle = polynomial(y.square(), fit(x, kSingle, kDouble)).mul(y).add(y);
    return large.where(Tensor(kPi / 2).sub(angle.mul(2)), angle);
  });
}
Tensor Tensor::acos() const {
  return in_float32(*this, [](const Tensor& x) {
    const Tensor large = x.gt(0.5), angle = large.where(Tensor(0.5).sub(x.mul(0.5)).sqrt(), x).asin();
    return large.where(angle.mul(2), Tensor(kPi / 2).sub(angle));
  });
}
Tensor Tensor::atan() const {
  return odd(*this, [](const Tensor& x) {
    const Tensor large = x.gt(1), y = large.where(large.where(x, 1).reciprocal(), x);
    const Tensor angle = y.div(y.square().add(1).sqrt()).asin();
    return large.where(Tensor(kPi / 2).sub(angle), angle);
  });
}

namespace {
// e^x / 2, which is finite where e^x is not yet.
Tensor half_exp(const Tensor& x) {
  const Tensor root = x.mul(0.5).exp();
  return root.mul(0.5).mul(root);
}
}  // namespace

// Chebyshev fits of (sinh(x)/x - 1) / x^2 on [-1, 1].
Tensor Tensor::sinh() const {
  static constexpr double kSingle[] = {2.806280258e-6, 0.0001983810197, 0.008333339676, 0.1666666665, 0};
  static constexpr double kDouble[] = {
      7.746178593018827489e-13, 1.605767962380163775e-10, 2.505211769590782357e-8, 2.7557319191381817e-6,
      0.0001984126984132419792, 0.008333333333333299355,  0.166666666666666667,    0};
  return in_float32(*this, [](const Tensor& x) {
    const Tensor near = x.abs().lt(1), far = half_exp(x).sub(half_exp(x.neg()));
    return near.where(odd_near_zero(x, near, fit(x, kSingle, kDouble)), far);
  });
}
Tensor Tensor::cosh() const {
  return in_float32(*this, [](const Tensor& x) { return half_exp(x).add(half_exp(x.neg())); });
}

namespace {
// f(x), or log(2x) where squares would overflow and nothing but them counts.
template <class F>
Tensor log_of_twice_above(const Tensor& x, F f) {
  const Tensor large = x.gt(1e8);
  return large.where(large.where(x, 1).log().add(kLn2), f(large.where(1, x)));
}
}  // namespace
Tensor Tensor::asinh() const {
  return odd(*this, [](const Tensor& size) {
    return log_of_twice_above(
        size, [](const Tensor& x) { return x.add(x.square().div(x.square().add(1).sqrt().add(1))).log1p(); });
  });
}
Tensor Tensor::acosh() const {
  return in_float32(*this, [](const Tensor& x) {
    return log_of_twice_above(
        x, [](const Tensor& y) { return y.sub(1).add(y.sub(1).sqrt().mul(y.add(1).sqrt())).log1p(); });
  });
}
Tensor Tensor::atanh() const {
  return odd(*this, [](const Tensor& x) { return x.mul(2).div(Tensor(1).sub(x)).log1p().mul(0.5); });
}

// e^-|x| cannot overflow, so that neither value nor gradient meets an infinity.
Tensor Tensor::sigmoid() const {
  return in_float32(as_weak_float(*this), [](const Tensor& x) {
    const Tensor negative = x.lt(0);
    const Tensor e = negative.where(x, x.neg()).exp(), r = e.add(1).reciprocal();
    return negative.where(e.mul(r), r);
  });
}

// Minimax fits: tanh(x)/x - 1 on [0, 0.55] to 1e-9 and 5e-19 of tanh.
Tensor Tensor::tanh() const {
  static constexpr double kSingle[] = {-0.00628243548, 0.02107772961, -0.05385385032,
                                       0.133326016,    -0.3333331804, 0};
  static constexpr double kDouble[] = {
      -0.00001952073943554514928, 0.00008335958533017314418, -0.0002334123772039294328,
      0.0005884569047989526484,   -0.001455545947227934148,  0.003592092526482448775,
      -0.008863232652147711646,   0.02186948838906099981,    -0.05396825396387698845,
      0.1333333333332682996,      -0.3333333333333329972,    0};
  return in_float32(as_weak_float(*this), [](const Tensor& x) {
    const Tensor negative = x.lt(0), minus_size = negative.where(x, x.neg()), near = minus_size.gt(-0.55);
    const Tensor e = minus_size.mul(2).exp(), size = Tensor(1).sub(e.mul(2).div(e.add(1)));
    return near.where(odd_near_zero(x, near, fit(x, kSingle, kDouble)), negative.where(size.neg(), size));
  });
}

namespace {
// f(x), whose derivative is `slope` of x: as cheap as it is known to be, not that of the steps that f takes.
template <class F, class Slope>
Tensor with_slope(const Tensor& x, F f, Slope slope) {
  if (is_weak(x.dtype())) return f(x);
  const Tensor stand_in(param(0, x.shape(), x.dtype(), x.device()));
  CallArg arg{.name = "with_slope"};
  set_gradient(arg, [slope](const UOp& call, const std::vector<UOp>& grads) {
    return std::vector<UOp>{Tensor(grads[0]).mul(slope(Tensor(call.src(1)))).uop()};
  });
  const UOp value = f(stand_in).uop();
  return Tensor(call_result(call(sink({&value, 1}), {&x.uop(), 1}, arg), 0));
}
}  // namespace

// Minimax fits in float32: erf(x)/x - 1 on [0, 0.92], and -log(erfc(x))/x from there to 4, where erf is 1 but
// for 2e-8.
Tensor Tensor::erf() const {
  static constexpr double kNear[] = {-0.0006012968677, 0.004997918226, -0.02677017593,
                                     0.1128192565,     -0.3761250553,  0.1283791516};
  static constexpr double kFar[] = {1.152336655e-5, -0.0003256630198, 0.003653804153, -0.02378542796,
                                    0.1062632354,   0.6351358607,     1.128652175,    0};
  const auto value = [](const Tensor& x) {
    const Tensor negative = x.lt(0), size = negative.where(x.neg(), x), near = size.lt(0.92);
    const Tensor far = Tensor(1).sub(polynomial(size.gt(4).where(4, size), kFar).neg().exp());
    return near.where(odd_near_zero(x, near, kNear), negative.where(far.neg(), far));
  };
  return in_float32(*this, [&](const Tensor& x) {
    return with_slope(x, value,
                      [](const Tensor& y) { return y.square().neg().exp().mul(2 / std::sqrt(kPi)); });
  });
}

Tensor Tensor::trunc() const { return is_float(dtype()) ? primitive(Op::Trunc, *this) : *this; }
Tensor Tensor::floor() const {
  if (!is_float(dtype())) return *this;
  const Tensor t = trunc();
  return lt(t).where(t.sub(1), t);
}
Tensor Tensor::ceil() const {
  if (!is_float(dtype())) return *this;
  const Tensor t = trunc();
  return gt(t).where(t.add(1), t);
}
Tensor Tensor::round() const {
  if (!is_float(dtype())) return *this;
  // Halves go down where the truncated part is even and the number positive, or odd and negative.
  const Tensor half = trunc().div(2.0);
  const Tensor down = gt(0).eq(half.trunc().eq(half));
  return down.where(sub(0.5).ceil(), add(0.5).floor());
}

Tensor Tensor::sign() const { return ne(0).where(lt(0).where(const_like(-1), const_like(1)), const_like(0)); }
Tensor Tensor::abs() const { return is_bool(dtype()) || is_unsigned(dtype()) ? *this : mul(sign()); }
Tensor Tensor::square() const { return mul(*this); }

Tensor Tensor::clamp(const std::optional<Tensor>& min, const std::optional<Tensor>& max) const {
  if (!min && !max) user_runtime_error("at least one of 'min_' or 'max_' must not be None");
  Tensor x = *this;
  if (min) x = x.lt(*min).where(*min, x);
  if (max) x = x.gt(*max).where(*max, x);
  return x;
}

Tensor Tensor::isnan() const { return ne(*this); }
Tensor Tensor::isinf(bool positive, bool negative) const {
  if (!is_float(dtype())) return constant_of(shape(), false);
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor up = eq(inf), down = eq(-inf);
  if (positive && negative) return up.bitwise_or(down);
  return positive ? up : negative ? down : constant_of(shape(), false);
}
Tensor Tensor::isfinite() const { return isinf().bitwise_or(isnan()).logical_not(); }

}  // namespace lathe
