// Typed expressions for late lowering: literals get the dtype of a neighbour, so that no weak type comes
// back.
#pragma once
#include "uop/uop.h"

#include <optional>
#include <span>

namespace lathe::typed {

inline UOp num(const UOp& like, const Scalar& v) { return constant(like.dtype(), v); }
inline UOp add(const UOp& a, const Scalar& v) { return alu(Op::Add, {a, num(a, v)}); }
inline UOp sub(const UOp& a, const UOp& b) { return alu(Op::Sub, {a, b}); }
inline UOp sub(const UOp& a, const Scalar& v) { return sub(a, num(a, v)); }
inline UOp mul(const UOp& a, const Scalar& v) { return alu(Op::Mul, {a, num(a, v)}); }
inline UOp bits_and(const UOp& a, const Scalar& v) { return alu(Op::And, {a, num(a, v)}); }
inline UOp bits_or(const UOp& a, const Scalar& v) { return alu(Op::Or, {a, num(a, v)}); }
inline UOp shl(const UOp& a, int n) { return n ? alu(Op::Shl, {a, num(a, n)}) : a; }
inline UOp shr(const UOp& a, int n) { return n ? alu(Op::Shr, {a, num(a, n)}) : a; }
inline UOp less(const UOp& a, const Scalar& v) { return lt(a, num(a, v)); }
inline UOp more(const UOp& a, const Scalar& v) { return lt(num(a, v), a); }
inline UOp differs(const UOp& a, const Scalar& v) { return ne(a, num(a, v)); }
inline UOp select(const UOp& c, const UOp& a, const Scalar& b) { return where(c, a, num(a, b)); }
inline UOp select(const UOp& c, const Scalar& a, const UOp& b) { return where(c, num(b, a), b); }

// The smaller and the larger one; a NaN in `a` stays.
inline UOp at_most(const UOp& a, const Scalar& v) { return where(lt(num(a, v), a), num(a, v), a); }
inline UOp at_least(const UOp& a, const Scalar& v) { return alu(Op::Max, {a, num(a, v)}); }

// k where `u` is the constant 2^k.
inline std::optional<int> log2_of(const UOp& u) {
  const int128 v = u.is_const() ? u.value().as_int() : 0;
  if (v <= 0 || (v & (v - 1))) return std::nullopt;
  int k = 0;
  while (v >> k != 1) k++;
  return k;
}

// c[0] + c[1]*x + … by Horner's scheme.
inline UOp polynomial(const UOp& x, std::span<const double> c) {
  UOp p = num(x, c.back());
  for (size_t i = c.size() - 1; i-- > 0;) p = add(p * x, c[i]);
  return p;
}

}  // namespace lathe::typed
