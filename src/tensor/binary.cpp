// Elementwise operations of two or three operands.
#include "tensor/promote.h"
#include "tensor/tensor.h"

namespace lathe {
namespace {

Tensor joined(Op op, const Tensor& a, const Tensor& b) { return Tensor(promoted_alu(op, a.uop(), b.uop())); }

DType join_of(const Tensor& a, const Tensor& b) { return join(a.dtype(), b.dtype()); }

// -x; a literal is negated in place so that graphs stay small.
UOp negated(const UOp& x) {
  if (is_weak_literal(x) && !is_bool(x.dtype()))
    return x.value().is_float() ? constant(Scalar(-x.value().as_double()))
                                : constant(Scalar(-x.value().as_int()));
  return -x;
}

void require_int(const char* what, const Tensor& a, const Tensor& b) {
  if (is_int(a.dtype()) && is_int(b.dtype())) return;
  user_runtime_error("{} operands must be int, got [dtypes.{}, dtypes.{}]", what, a.dtype(), b.dtype());
}

void require_no_float(const char* what, const Tensor& a, const Tensor& b) {
  if (!is_float(join_of(a, b))) return;
  user_runtime_error("{} operands must be int or bool, got [dtypes.{}, dtypes.{}]", what, a.dtype(),
                     b.dtype());
}

}  // namespace

Tensor Tensor::add(const Tensor& x) const { return joined(Op::Add, *this, x); }

namespace {
Tensor joined_all(const char* name, Op op, const std::vector<Tensor>& tensors) {
  if (tensors.empty()) value_error("{} needs at least one tensor", name);
  Tensor out = tensors[0];
  for (size_t i = 1; i < tensors.size(); i++) out = joined(op, out, tensors[i]);
  return out;
}
}  // namespace
Tensor Tensor::usum(const std::vector<Tensor>& tensors) { return joined_all("usum", Op::Add, tensors); }
Tensor Tensor::uprod(const std::vector<Tensor>& tensors) { return joined_all("uprod", Op::Mul, tensors); }

Tensor Tensor::sub(const Tensor& x) const {
  const DType d = join_of(*this, x);
  if (is_bool(d)) user_runtime_error("subtraction of bool tensors is not supported, use ^ or logical_not()");
  return Tensor(alu(Op::Add, {promote(uop(), d), negated(promote(x.uop(), d))}));
}

Tensor Tensor::mul(const Tensor& x) const { return joined(Op::Mul, *this, x); }

Tensor Tensor::div(const Tensor& x) const {
  const DType d = least_upper_float(join_of(*this, x));
  return Tensor(alu(Op::Mul, {promote(uop(), d), alu(Op::Reciprocal, {promote(x.uop(), d)})}));
}

Tensor Tensor::div_floor(const Tensor& x) const {
  const DType d = join_of(*this, x);
  if (is_float(d)) return div(x).floor();
  if (is_bool(d)) user_runtime_error("integer division of bool tensors is not supported");
  return joined(Op::FloorDiv, *this, x);
}

Tensor Tensor::div_trunc(const Tensor& x) const {
  const DType d = join_of(*this, x);
  if (is_float(d)) return div(x).trunc();
  // A floor quotient is one too low where the signs differ and the division is not exact.
  const Tensor floor = div_floor(x);
  if (is_unsigned(d)) return floor;
  const Tensor inexact = floor.mul(x).ne(*this), negative = lt(0).ne(x.lt(0));
  return inexact.bitwise_and(negative).where(floor.add(1), floor);
}

Tensor Tensor::mod(const Tensor& x) const {
  const DType d = join_of(*this, x);
  if (is_float(d)) return sub(div_floor(x).mul(x));
  if (is_bool(d)) user_runtime_error("remainder of bool tensors is not supported");
  return joined(Op::FloorMod, *this, x);
}

Tensor Tensor::fmod(const Tensor& x) const { return sub(div_trunc(x).mul(x)); }

Tensor Tensor::pow(const Tensor& exponent) const {
  const DType d = join_of(*this, exponent);
  const UOp& e = exponent.uop();
  if (!is_float(d) && e.is_const() && e.value().less(Scalar(0))) user_runtime_error("base needs to be float");
  return Tensor(alu(Op::Pow, {promote(uop(), d), promote(e, d)}));
}

Tensor Tensor::maximum(const Tensor& x) const { return joined(Op::Max, *this, x); }

Tensor Tensor::inverse() const {
  if (is_float(dtype())) return neg();
  return is_bool(dtype()) ? logical_not() : bitwise_not();
}

Tensor Tensor::minimum(const Tensor& x) const {
  const DType d = join_of(*this, x);
  if (is_float(d)) {
    const UOp most = alu(Op::Max, {negated(promote(uop(), d)), negated(promote(x.uop(), d))});
    return Tensor(-most);
  }
  if (is_bool(d)) return bitwise_and(x);
  // The complement within the type turns the order around: max is all ones for unsigned types and min + max =
  // -1 for others.
  const UOp ones = constant(Scalar(is_unsigned(d) ? max_value(d).as_int() : int128{-1}));
  const auto complement = [&](const UOp& v) {
    return is_weak_literal(v) ? constant(Scalar(v.value().as_int() ^ ones.value().as_int()))
                              : alu(Op::Xor, {v, ones});
  };
  return Tensor(complement(alu(Op::Max, {complement(promote(uop(), d)), complement(promote(x.uop(), d))})));
}

Tensor Tensor::bitwise_and(const Tensor& x) const {
  require_no_float("bitwise_and", *this, x);
  return joined(Op::And, *this, x);
}
Tensor Tensor::bitwise_or(const Tensor& x) const {
  require_no_float("bitwise_or", *this, x);
  return joined(Op::Or, *this, x);
}
Tensor Tensor::bitwise_xor(const Tensor& x) const {
  require_no_float("bitwise_xor", *this, x);
  return joined(Op::Xor, *this, x);
}

Tensor Tensor::bitwise_not() const {
  if (is_bool(dtype())) return logical_not();
  if (is_float(dtype()))
    user_runtime_error("bitwise_not operand must be int or bool, got dtypes.{}", dtype());
  return bitwise_xor(is_unsigned(dtype()) ? Tensor(max_value(dtype())) : Tensor(-1));
}

Tensor Tensor::lshift(const Tensor& x) const {
  require_int("shift", *this, x);
  return Tensor(alu(Op::Shl, {uop(), x.uop()}));
}
Tensor Tensor::rshift(const Tensor& x) const {
  require_int("shift", *this, x);
  return Tensor(alu(Op::Shr, {uop(), x.uop()}));
}

Tensor Tensor::ne(const Tensor& x) const { return joined(Op::CmpNe, *this, x); }
Tensor Tensor::eq(const Tensor& x) const { return ne(x).logical_not(); }
Tensor Tensor::lt(const Tensor& x) const { return joined(Op::CmpLt, *this, x); }
Tensor Tensor::gt(const Tensor& x) const { return x.lt(*this); }
Tensor Tensor::le(const Tensor& x) const {
  // not(x < this) would be true where an operand is NaN.
  if (is_float(join_of(*this, x))) return lt(x).bitwise_or(eq(x));
  return x.lt(*this).logical_not();
}
Tensor Tensor::ge(const Tensor& x) const { return x.le(*this); }

Tensor Tensor::where(const Tensor& x, const Tensor& y) const {
  if (!is_bool(dtype())) user_runtime_error("where cond must be bool, got dtypes.{}", dtype());
  const DType d = join_of(x, y);
  return Tensor(alu(Op::Where, {uop(), promote(x.uop(), d), promote(y.uop(), d)}));
}

Tensor Tensor::copysign(const Tensor& x) const {
  const DType d = least_upper_float(join_of(*this, x));
  const Tensor sign = x.cast(d);
  // 1/-0 is -inf: the reciprocal shows the sign of a zero.
  const Tensor negative = sign.lt(0).bitwise_or(sign.eq(0).bitwise_and(sign.reciprocal().lt(0)));
  const Tensor magnitude = cast(d).abs();
  return negative.where(magnitude.neg(), magnitude);
}

Tensor Tensor::logaddexp(const Tensor& x) const {
  const DType d = least_upper_float(join_of(*this, x)), wide = is_weak(d) ? d : join(d, DType::Float32);
  const Tensor a(promote(uop(), wide)), b(promote(x.uop(), wide));
  // max + log(1 + e^-|a - b|); equal operands do not differ, infinities neither.
  const Tensor gap = a.eq(b).where(0, a.sub(b)).abs();
  return a.maximum(b).add(gap.neg().exp().log1p()).cast(d);
}

Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const {
  if (dtype() == DType::UInt8 && !is_weak_literal(weight.uop())) {
    // 7-bit fixed point, rounded.
    const Tensor w = weight.mul(128).add(0.5).cast(DType::Int16);
    const Tensor delta = end.cast(DType::Int16).sub(cast(DType::Int16)).mul(w).add(64);
    return cast(DType::Int16).add(delta.rshift(Tensor(7))).cast(DType::UInt8);
  }
  return add(end.sub(*this).mul(weight));
}

Tensor Tensor::isclose(const Tensor& x, double rtol, double atol, bool equal_nan) const {
  const Tensor finite_close =
      isfinite().bitwise_and(x.isfinite()).bitwise_and(sub(x).abs().le(x.abs().mul(rtol).add(atol)));
  const Tensor infinite_close = isinf().bitwise_or(x.isinf()).bitwise_and(eq(x));
  const Tensor close = finite_close.bitwise_or(infinite_close);
  return equal_nan ? close.bitwise_or(isnan().bitwise_and(x.isnan())) : close;
}

Tensor Tensor::allclose(const Tensor& x, double rtol, double atol, bool equal_nan) const {
  return isclose(x, rtol, atol, equal_nan).all();
}

}  // namespace lathe
