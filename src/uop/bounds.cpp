// Inclusive value ranges. Interval arithmetic on integers and booleans; floats only where a rule below says
// so, else the whole type. A result that could leave its type's range gives the whole range: arithmetic wraps
// there.
#include "uop/derive.h"
#include "uop/linear_terms.h"
#include "uop/uop.h"

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

Bounds full(DType d) { return {min_value(d), max_value(d)}; }

bool exact(const UOp& u) { return is_int(u.dtype()) || is_bool(u.dtype()); }

using Interval = IntInterval;
bool contains(DType d, Interval i) { return i.lo >= min_value(d).as_int() && i.hi <= max_value(d).as_int(); }
constexpr int128 kHuge = static_cast<int128>(1)
                         << 124;  // beyond any index; sums and small multiples cannot overflow

Interval interval(const UOp& u) { return {u.bounds().lo.as_int(), u.bounds().hi.as_int()}; }
// Of an operand, at the type `d` that the operands of an op meet in: there a weak literal beyond it wraps.
Interval interval(const UOp& u, DType d) {
  const Interval i = interval(u);
  if (is_bool(d) || contains(d, i)) return i;
  if (i.lo != i.hi) return {min_value(d).as_int(), max_value(d).as_int()};
  const int128 wrapped = cast_scalar(u.bounds().lo, d).as_int();
  return {wrapped, wrapped};
}

// The interval as bounds of `d`, or the whole type when it does not fit.
Bounds fit(DType d, int128 lo, int128 hi) {
  if (is_bool(d)) return {Scalar(lo != 0), Scalar(hi != 0)};
  return contains(d, {lo, hi}) ? Bounds{Scalar(lo), Scalar(hi)} : full(d);
}
Bounds operand(const UOp& u, DType d) {
  const Bounds& b = u.bounds();
  if (is_float(d)) return {cast_scalar(b.lo, d), cast_scalar(b.hi, d)};
  if (is_bool(d)) return b;
  const Interval i = interval(u, d);
  return {Scalar(i.lo), Scalar(i.hi)};
}

Bounds of_product(DType d, Interval a, Interval b) {
  int128 corner[4];
  if (__builtin_mul_overflow(a.lo, b.lo, &corner[0]) || __builtin_mul_overflow(a.lo, b.hi, &corner[1]) ||
      __builtin_mul_overflow(a.hi, b.lo, &corner[2]) || __builtin_mul_overflow(a.hi, b.hi, &corner[3]))
    return full(d);
  const auto [lo, hi] = std::minmax_element(corner, corner + 4);
  return fit(d, *lo, *hi);
}

// Quotients are monotonic in each operand while the divisor keeps one sign, so the corners bound them.
Bounds of_quotient(Op op, DType d, Interval a, Interval b) {
  if (a.lo > a.hi) return fit(d, 0, 0);
  if (b.lo <= 0 && b.hi >= 0) return full(d);
  const auto divide = [op](int128 n, int128 m) { return op == Op::CDiv ? n / m : floor_div(n, m); };
  const auto [lo, hi] =
      std::minmax({divide(a.lo, b.lo), divide(a.lo, b.hi), divide(a.hi, b.lo), divide(a.hi, b.hi)});
  return fit(d, lo, hi);
}

Bounds of_remainder(Op op, DType d, Interval a, Interval b) {
  if (a.lo > a.hi) return fit(d, 0, 0);
  if (b.lo <= 0 && b.hi >= 0) return full(d);
  const int128 largest = std::max(b.lo < 0 ? -b.lo : b.lo, b.hi < 0 ? -b.hi : b.hi) - 1;
  if (op == Op::CMod) {
    const int128 lo = a.lo < 0 ? std::max(-largest, a.lo) : 0, hi = a.hi > 0 ? std::min(largest, a.hi) : 0;
    return fit(d, lo, hi);
  }
  if (b.lo == b.hi &&
      floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo)) {  // one period: the remainder moves with x
    const int128 base = floor_div(a.lo, b.lo) * b.lo;
    return fit(d, a.lo - base, a.hi - base);
  }
  if (b.lo > 0) return fit(d, 0, a.lo >= 0 ? std::min(largest, a.hi) : largest);
  return fit(d, a.hi <= 0 ? std::max(-largest, a.lo) : -largest, 0);
}

Bounds of_shift(Op op, DType d, Interval a, const UOp& count) {
  const Interval c = interval(count);
  if (c.lo != c.hi || c.lo < 0 || c.lo > 62 || a.lo < -kHuge >> 62 || a.hi > kHuge >> 62) return full(d);
  if (op == Op::Shr) return fit(d, a.lo >> static_cast<int>(c.lo), a.hi >> static_cast<int>(c.lo));
  const int128 factor = static_cast<int128>(1) << static_cast<int>(c.lo);
  return of_product(d, a, {factor, factor});
}

Bounds of_bits(Op op, DType d, Interval a, Interval b) {
  if (is_bool(d)) {
    if (op == Op::And) return {Scalar(a.lo && b.lo), Scalar(a.hi && b.hi)};
    if (op == Op::Or) return {Scalar(a.lo || b.lo), Scalar(a.hi || b.hi)};
    if (a.lo == a.hi && b.lo == b.hi) return {Scalar(a.lo != b.lo), Scalar(a.lo != b.lo)};
    return full(d);
  }
  if (op == Op::And && b.lo == b.hi && b.lo >= 0) return fit(d, 0, a.lo >= 0 ? std::min(a.hi, b.lo) : b.lo);
  if (op == Op::And && a.lo >= 0 && b.lo >= 0) return fit(d, 0, std::min(a.hi, b.hi));
  if (op == Op::Xor && b.lo == -1 && b.hi == -1) return fit(d, ~a.hi, ~a.lo);
  return full(d);
}

Bounds of_compare(const UOp& u) {
  const Bounds yes{Scalar(true), Scalar(true)}, no{Scalar(false), Scalar(false)};
  // NaN is outside every float interval, so a float comparison is only decided between constants (by
  // folding).
  if (!exact(u.src(0)) || !exact(u.src(1)) || u.src(0).is_invalid() || u.src(1).is_invalid())
    return full(DType::Bool);
  const DType common = join(u.src(0).dtype(), u.src(1).dtype());
  const Bounds a = operand(u.src(0), common), b = operand(u.src(1), common);
  if (u.op() == Op::CmpLt) {
    if (a.hi.less(b.lo)) return yes;
    if (!a.lo.less(b.hi)) return no;
    return full(DType::Bool);
  }
  const bool apart = a.hi.less(b.lo) || b.hi.less(a.lo);
  const bool equal = a.lo.equals(a.hi) && b.lo.equals(b.hi) && a.lo.equals(b.lo);
  if (apart) return u.op() == Op::CmpNe ? yes : no;
  if (equal) return u.op() == Op::CmpNe ? no : yes;
  return full(DType::Bool);
}

Bounds hull(const UOp& u, size_t first) {
  bool any = false;
  Bounds out = full(u.dtype());
  for (size_t i = first; i < u.n_srcs(); i++) {
    if (u.src(i).is_invalid()) continue;
    const Bounds b = operand(u.src(i), u.dtype());
    if (!any || b.lo.less(out.lo)) out.lo = b.lo;
    if (!any || out.hi.less(b.hi)) out.hi = b.hi;
    any = true;
  }
  return out;
}

// Bounds round onto the target's grid. Floats to integers truncate and saturate; integers that would wrap
// give the range.
Bounds of_cast(const UOp& u) {
  const DType d = u.dtype();
  const UOp& x = u.src(0);
  const Bounds& b = x.bounds();
  if (is_float(d)) return {cast_scalar(b.lo, d), cast_scalar(b.hi, d)};
  if (is_bool(d))
    return exact(x) && (Scalar(0).less(b.lo) || b.hi.less(Scalar(0))) ? Bounds{true, true} : full(d);
  if (is_float(x.dtype()) && (!std::isfinite(b.lo.as_double()) || !std::isfinite(b.hi.as_double())))
    return full(d);
  return fit(d, b.lo.as_int(), b.hi.as_int());
}

Bounds of_alu(const UOp& u) {
  const DType d = u.dtype();
  if (has_flag(u.op(), kComparison)) return of_compare(u);
  if (u.op() == Op::Where) return hull(u, 1);
  if (u.op() == Op::Max) {
    const Bounds a = operand(u.src(0), d), b = operand(u.src(1), d);
    return {a.lo.less(b.lo) ? b.lo : a.lo, a.hi.less(b.hi) ? b.hi : a.hi};
  }
  if (is_float(d) || u.n_srcs() != 2 || !exact(u.src(0)) || !exact(u.src(1))) return full(d);
  const Interval a = interval(u.src(0), d), b = interval(u.src(1), d);
  const bool huge = a.lo < -kHuge || a.hi > kHuge || b.lo < -kHuge || b.hi > kHuge;
  const bool negates_huge = huge && b.lo < 0;  // -2^127 // -1 has no value
  switch (u.op()) {
    case Op::Add: return huge ? full(d) : fit(d, a.lo + b.lo, a.hi + b.hi);
    case Op::Sub: return huge ? full(d) : fit(d, a.lo - b.hi, a.hi - b.lo);
    case Op::Mul: return of_product(d, a, b);
    case Op::CDiv:
    case Op::FloorDiv: return negates_huge ? full(d) : of_quotient(u.op(), d, a, b);
    case Op::CMod:
    case Op::FloorMod: return negates_huge ? full(d) : of_remainder(u.op(), d, a, b);
    case Op::Shl:
    case Op::Shr: return of_shift(u.op(), d, a, u.src(1));
    case Op::And:
    case Op::Or:
    case Op::Xor: return of_bits(u.op(), d, a, b);
    default: return full(d);
  }
}

Bounds compute(const UOp& u) {
  if (u.dtype() == DType::Void) return {Scalar(0), Scalar(0)};  // an effect that a value waits for
  switch (u.op()) {
    case Op::Const: return u.is_invalid() ? full(DType::Bool) : Bounds{u.value(), u.value()};
    case Op::Range:
    case Op::Special: return {Scalar(0), Scalar(u.src(0).bounds().hi.as_int() - 1)};
    case Op::Param:
    case Op::Buffer:
      if (const auto& b = u.param().bounds)
        return {cast_scalar(b->first, u.dtype()), cast_scalar(b->second, u.dtype())};
      return full(u.dtype());
    case Op::After:
    case Op::Index: return u.src(0).bounds();
    case Op::Stack: return u.n_srcs() ? hull(u, 0) : full(u.dtype());
    case Op::Cast: return of_cast(u);
    default: return is_alu(u.op()) ? of_alu(u) : full(u.dtype());
  }
}

// Sources whose bounds `compute` reads.
bool needs_sources(const Node* n) {
  constexpr OpSet kBounded = {Op::Range, Op::Special, Op::After, Op::Index,
                              Op::Stack, Op::Cast,    Op::Where, Op::Max};
  return kBounded.contains(n->op) || (is_alu(n->op) && !is_float(n->dtype));
}

}  // namespace

const Bounds& UOp::bounds() const {
  derive_upwards(
      node_, [](const Node* n) { return n->bounds.load(std::memory_order_acquire) != nullptr; },
      needs_sources,
      [](const Node* n) {
        auto* made = new Bounds(compute(UOp(n)));
        const Bounds* expected = nullptr;
        if (!n->bounds.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) delete made;
      });
  return *node_->bounds.load();
}

}  // namespace lathe
