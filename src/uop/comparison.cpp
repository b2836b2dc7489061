#include "uop/comparison.h"

#include "uop/linear_terms.h"

#include <algorithm>

namespace lathe {
namespace {

int128 ceil_div(int128 a, int128 b) { return -floor_div(-a, b); }
// Constants of comparisons stay below this, so that the products below fit.
constexpr int128 kLimit = static_cast<int128>(1) << 100;
bool small(int128 v) { return magnitude(v) < kLimit; }

bool is_index_type(DType d) { return d == DType::WeakInt || d == DType::Bool; }

// The one term of a sum that has no constant.
const Term* single_term(const LinearSum& s) {
  return s.terms.size() == 1 && s.constant == 0 ? &s.terms[0] : nullptr;
}
UOp signed_base(const Term& t) { return t.factor < 0 ? -t.base : t.base; }
// x//d with a small constant divisor: (x, d).
std::optional<std::pair<UOp, int128>> floor_division(const UOp& u) {
  if (u.op() != Op::FloorDiv || u.dtype() != DType::WeakInt || !u.src(1).is_const()) return std::nullopt;
  const int128 d = u.src(1).value().as_int();
  if (d == 0 || magnitude(d) >= static_cast<int128>(1) << 24) return std::nullopt;
  return std::pair{u.src(0), d};
}

// X < c for a sum X of exact integers.
UOp lt_constant(const UOp& x, int128 c) {
  std::optional<LinearSum> s = LinearSum::of(x);
  if (!s) return {};
  if (s->constant != 0) {
    const int128 limit = c - s->constant;
    s->constant = 0;
    return small(limit) ? lt(s->to_uop(), number(limit)) : UOp();
  }
  if (const Term* t = single_term(*s)) {
    // |f|*y < c  <=>  y < ceil(c/|f|)
    if (const int128 f = magnitude(t->factor); f > 1) return lt(signed_base(*t), number(ceil_div(c, f)));
    // floor(y/d) < c  <=>  y/d < c, as c is an integer
    if (const auto q = t->factor == 1 ? floor_division(t->base) : std::nullopt) {
      const UOp limit = number(c * q->second);
      return q->second > 0 ? lt(q->first, limit) : lt(limit, q->first);
    }
  }
  // g*R + p < g*C  <=>  R < C for 0 <= p < g
  LinearSum ones, rest;
  for (const Term& t : s->terms) (t.factor == 1 ? ones : rest).terms.push_back(t);
  const int128 g = gcd(rest.terms_gcd(), c);
  const std::optional<IntInterval> low = interval_of(ones);
  if (rest.terms.empty() || g <= 1 || !low || low->lo < 0 || low->hi >= g) return {};
  return lt(rest.divide_terms(g).to_uop(), number(c / g));
}

// c < X.
UOp constant_lt(int128 c, const UOp& x) {
  const std::optional<LinearSum> s = LinearSum::of(x);
  const Term* t = s ? single_term(*s) : nullptr;
  if (!t) return {};
  // c < |f|*y  <=>  floor(c/|f|) < y
  if (const int128 f = magnitude(t->factor); f > 1) return lt(number(floor_div(c, f)), signed_base(*t));
  // c < floor(y/d)  <=>  (c+1)*d <= y, for d > 0
  if (const auto q = t->factor == 1 ? floor_division(t->base) : std::nullopt; q && q->second > 0)
    return lt(number((c + 1) * q->second - 1), q->first);
  return {};
}

// Terms that both sides share leave; two sides of one negated term each swap.
UOp lt_sums(const UOp& a, const UOp& b) {
  std::optional<LinearSum> x = LinearSum::of(a), y = LinearSum::of(b);
  if (!x || !y) return {};
  bool changed = false;
  for (size_t i = 0; i < x->terms.size();) {
    const auto same = std::find_if(y->terms.begin(), y->terms.end(), [&](const Term& t) {
      return t.base == x->terms[i].base && t.factor == x->terms[i].factor;
    });
    if (same == y->terms.end()) {
      i++;
      continue;
    }
    changed = true;
    y->terms.erase(same);
    x->terms.erase(x->terms.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (changed) return lt(x->to_uop(), y->to_uop());
  const Term *p = single_term(*x), *q = single_term(*y);
  if (p && q && p->factor < 0 && q->factor < 0)
    return lt(alu(Op::Mul, {q->base, number(-q->factor)}), alu(Op::Mul, {p->base, number(-p->factor)}));
  return {};
}

// Typed integers wrap, so a constant may cross a comparison only where the sum provably does not wrap.
UOp lt_typed(const UOp& a, const UOp& b) {
  if (a.op() != Op::Add || !a.src(1).is_const() || !b.is_const()) return {};
  const DType d = a.dtype();
  const int128 k = cast_scalar(a.src(1).value(), d).as_int(), lo = min_value(d).as_int(),
               hi = max_value(d).as_int();
  const Bounds& x = a.src(0).bounds();
  if (x.lo.as_int() + k < lo || x.hi.as_int() + k > hi) return {};
  const int128 limit = cast_scalar(b.value(), d).as_int() - k;
  return limit < lo || limit > hi ? UOp() : lt(a.src(0), constant(d, Scalar(limit)));
}

}  // namespace

UOp fold_lt(const UOp& u) {
  const UOp &a = u.src(0), &b = u.src(1);
  if (is_index_type(a.dtype()) && is_index_type(b.dtype())) {
    if (a.is_const() && b.is_const()) return {};
    if (b.is_const()) return small(b.value().as_int()) ? lt_constant(a, b.value().as_int()) : UOp();
    if (a.is_const()) return small(a.value().as_int()) ? constant_lt(a.value().as_int(), b) : UOp();
    return lt_sums(a, b);
  }
  return is_int(a.dtype()) && a.dtype() != DType::WeakInt ? lt_typed(a, b) : UOp();
}

UOp fold_ne(const UOp& u) {
  const UOp &a = u.src(0), &b = u.src(1);
  if (a.dtype() != DType::WeakInt || !is_index_type(b.dtype()) || !b.is_const() || a.is_const()) return {};
  std::optional<LinearSum> s = LinearSum::of(a);
  if (!s || s->terms.empty() || !small(b.value().as_int()) || !small(s->constant)) return {};
  const int128 c = b.value().as_int() - s->constant;
  const int128 g = s->terms_gcd();
  if (c % g != 0) return constant(Scalar(true));
  if (g == 1 && s->constant == 0 && !(s->terms.size() == 1 && s->terms[0].factor == -1)) return {};
  s->constant = 0;
  const int128 sign = s->terms.size() == 1 && s->terms[0].factor < 0 ? -1 : 1;
  return ne(s->divide_terms(g * sign).to_uop(), number(c / g * sign));
}

UOp fold_simplex(const UOp& u) {
  constexpr OpSet kIrreducible = {Op::Const, Op::Special, Op::Range, Op::Param};
  std::optional<LinearSum> s = LinearSum::of(u.src(0).src(0));
  if (!s || s->constant != 0) return {};
  bool changed = false;
  for (Term& t : s->terms) {
    if (t.factor < 0 || !kIrreducible.contains(t.base.op()) || t.base.bounds().lo.less(Scalar(0))) return {};
    changed = changed || t.factor != 1;
    t.factor = 1;
  }
  return changed ? logical_not(lt(s->to_uop(), number(1))) : UOp();
}

UOp negated(const UOp& u) {
  const bool is_not = u.op() == Op::CmpNe && is_bool(u.src(0).dtype()) && u.src(1).is_const(Scalar(true)) &&
                      u.src(1).value().is_bool();
  return is_not ? u.src(0) : UOp();
}

UOp and_gates(const UOp& a, const UOp& b) {
  if (!a) return b;
  if (!b || a == b) return a;
  return a & b;
}

UOp opposite(const UOp& u) {
  const UOp inner = negated(u);
  return inner ? inner : logical_not(u);
}

std::optional<BoundClause> bound_clause(const UOp& clause) {
  const UOp inner = negated(clause);
  const UOp& cmp = inner ? inner : clause;
  const bool holds = !inner;
  if (cmp.op() != Op::CmpLt || !is_int(cmp.src(0).dtype()) || !is_int(cmp.src(1).dtype()))
    return std::nullopt;
  const UOp &a = cmp.src(0), &b = cmp.src(1);
  if (a.is_const() == b.is_const()) return std::nullopt;
  const int128 c = (a.is_const() ? a : b).value().as_int();
  if (!small(c)) return std::nullopt;
  if (b.is_const()) return holds ? BoundClause{a, true, c - 1} : BoundClause{a, false, c};
  return holds ? BoundClause{b, false, c + 1} : BoundClause{b, true, c};
}

UOp fold_clauses(const UOp& u) {
  constexpr size_t kMaxClauses = 32;  // the search below is quadratic
  const bool is_and = u.op() == Op::And;
  const SmallVec<UOp, 8> all = split_operands(u, u.op());
  if (all.size() > kMaxClauses) return {};
  const UOp absorbing = constant(Scalar(!is_and));
  SmallVec<UOp, 8> kept;
  for (const UOp& clause : all) {
    if (std::find(kept.begin(), kept.end(), clause) != kept.end()) continue;
    const UOp inner = negated(clause);
    const std::optional<BoundClause> bound = bound_clause(clause);
    bool redundant = false;
    for (size_t i = 0; i < kept.size() && !redundant; i++) {
      if (inner == kept[i] || negated(kept[i]) == clause) return absorbing;
      const std::optional<BoundClause> other = bound ? bound_clause(kept[i]) : std::nullopt;
      if (!other || !(other->x == bound->x)) continue;
      if (other->is_upper == bound->is_upper) {
        // A conjunction keeps the tighter of two bounds, a disjunction the looser.
        const bool tighter = bound->is_upper ? bound->limit < other->limit : bound->limit > other->limit;
        const bool equal = bound->limit == other->limit;
        if (equal ? compare_structure(clause, kept[i]) < 0 : tighter == is_and) kept[i] = clause;
        redundant = true;
      } else {
        const int128 top = bound->is_upper ? bound->limit : other->limit;
        const int128 bottom = bound->is_upper ? other->limit : bound->limit;
        if (is_and ? top < bottom : bottom <= top + 1) return absorbing;
      }
    }
    if (!redundant) kept.push_back(clause);
  }
  // One order for equal sets of clauses, so that equal gates are one node.
  std::sort(kept.begin(), kept.end(), [](const UOp& a, const UOp& b) { return compare_structure(a, b) < 0; });
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  const UOp chain = join_operands(kept, u.op(), absorbing);
  return chain == u ? UOp() : chain;
}

}  // namespace lathe
