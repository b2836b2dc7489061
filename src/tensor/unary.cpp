// Elementwise functions: arithmetic, exponentials, trigonometry, rounding, tests.
#include "tensor/promote.h"
#include "tensor/tensor.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace lathe {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kLn2 = std::numbers::ln2;
constexpr double kLog10Of2 = 0.30102999566398119521;

Tensor primitive(Op op, const Tensor& x) { return Tensor(alu(op, {x.uop()})); }

// The float form of x: integers and bools become the default float.
Tensor as_float(const Tensor& x) { return x.cast(least_upper_float(x.dtype())); }

// f computed in at least float32, the result in the float type of x.
template <class F>
Tensor in_float32(const Tensor& x, F f) {
  const DType d = least_upper_float(x.dtype());
  if (is_weak(d)) return f(x.cast(d));
  return f(x.cast(join(d, DType::Float32))).cast(d);
}

// c[0] x^n + c[1] x^(n-1) + … + c[n]
template <size_t N>
Tensor polynomial(const Tensor& x, const double (&c)[N]) {
  Tensor sum = x.mul(c[0]).add(c[1]);
  for (size_t i = 2; i < N; i++) sum = sum.mul(x).add(c[i]);
  return sum;
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
Tensor Tensor::log() const { return log2().mul(kLn2); }
Tensor Tensor::log10() const { return log2().mul(kLog10Of2); }
Tensor Tensor::cos() const {
  return in_float32(*this, [](const Tensor& x) { return Tensor(kPi / 2).sub(x).sin(); });
}
Tensor Tensor::tan() const { return sin().div(cos()); }

// Abramowitz and Stegun 4.4.46, absolute error below 2e-8.
Tensor Tensor::asin() const {
  static constexpr double kCoefficients[] = {-0.0012624911, 0.0066700901, -0.0170881256, 0.0308918810,
                                             -0.0501743046, 0.0889789874, -0.2145988016, 1.5707963050};
  const Tensor x = as_float(*this).abs();
  const Tensor positive = Tensor(kPi / 2).sub(Tensor(1.0).sub(x).sqrt().mul(polynomial(x, kCoefficients)));
  return as_float(*this).sign().mul(positive);
}
Tensor Tensor::acos() const { return Tensor(kPi / 2).sub(asin()); }
Tensor Tensor::atan() const { return div(square().add(1).sqrt()).asin(); }
Tensor Tensor::sinh() const { return exp().sub(neg().exp()).div(2); }
Tensor Tensor::cosh() const { return exp().add(neg().exp()).div(2); }
Tensor Tensor::asinh() const { return add(square().add(1).sqrt()).log(); }
Tensor Tensor::acosh() const { return add(square().sub(1).sqrt()).log(); }
Tensor Tensor::atanh() const { return Tensor(1).add(*this).div(Tensor(1).sub(*this)).log().div(2); }

// Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
Tensor Tensor::erf() const {
  static constexpr double kCoefficients[] = {1.061405429, -1.453152027, 1.421413741, -0.284496736,
                                             0.254829592};
  const Tensor x = as_float(*this);
  const Tensor t = x.abs().mul(0.3275911).add(1.0).reciprocal();
  return x.sign().mul(Tensor(1.0).sub(t.mul(polynomial(t, kCoefficients)).mul(x.square().neg().exp())));
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
