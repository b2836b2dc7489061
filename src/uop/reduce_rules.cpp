// Sums over Ranges in closed form. Integers are exact (or wrap, which sums respect). For floats a factor that
// leaves a sum changes rounding only, and a selection times a value is taken to be 0 where the selection is
// 0, whatever the value.
#include "uop/comparison.h"
#include "uop/fold.h"
#include "uop/linear_terms.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

using namespace pat;

UOp zero_of(DType d) { return constant(d, Scalar(0)); }
bool is_zero(const UOp& u) { return u.is_const(Scalar(0)); }

bool depends_on(const UOp& u, const UOp& range) {
  const RangeSet& open = u.ranges();
  return std::find(open.begin(), open.end(), range.node()) != open.end();
}

bool depends_on_some(const UOp& u, std::span<const UOp> ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const UOp& r) { return depends_on(u, r); });
}

// The reduction of `value` over the ranges of `reduce`, but the one that is source number `but`.
UOp reduce_over_rest(const UOp& reduce, const UOp& value, size_t but = 0) {
  SmallVec<UOp, 8> srcs{value};
  for (size_t i = 1; i < reduce.n_srcs(); i++)
    if (i != but) srcs.push_back(reduce.src(i));
  if (srcs.size() == 1) return value;
  return UOp::make(Op::Reduce, DType::Void, srcs, reduce.arg());
}

// ---- selections

// A value that is `yes` where all clauses hold and `no` elsewhere.
struct Selection {
  SmallVec<UOp, 8> clauses;
  UOp yes, no;
};

// A Where, a number made of a bool, a Cast of these.
std::optional<Selection> selection_of(const UOp& u) {
  SmallVec<DType, 4> casts;
  UOp at = u;
  while (at.op() == Op::Cast && !is_bool(at.src(0).dtype())) {
    casts.push_back(at.dtype());
    at = at.src(0);
  }
  Selection s;
  if (at.op() == Op::Cast) {
    s = {split_operands(at.src(0), Op::And), constant(at.dtype(), Scalar(1)), zero_of(at.dtype())};
  } else if (at.op() == Op::Where && !at.src(1).is_invalid() && !at.src(2).is_invalid()) {
    // The opposite of a conjunction is none; it stays as it is, with 0 where it holds.
    if (is_zero(at.src(1)) && !is_zero(at.src(2)) && at.src(0).op() != Op::And) {
      for (const UOp& c : split_operands(at.src(0), Op::Or)) s.clauses.push_back(opposite(c));
      s.yes = at.src(2);
      s.no = at.src(1);
    } else {
      s = {split_operands(at.src(0), Op::And), at.src(1), at.src(2)};
    }
    s.yes = cast(s.yes, at.dtype());
    s.no = cast(s.no, at.dtype());
  } else {
    return std::nullopt;
  }
  for (size_t i = casts.size(); i-- > 0;) {
    s.yes = cast(s.yes, casts[i]);
    s.no = cast(s.no, casts[i]);
  }
  return s;
}

// A product in which factors are selections of something or 0 is a selection of the product or 0.
std::optional<Selection> selected_product(const UOp& value) {
  if (value.op() != Op::Mul) return selection_of(value);
  Selection out;
  SmallVec<UOp, 8> factors;
  for (const UOp& f : split_operands(value, Op::Mul)) {
    const std::optional<Selection> s = selection_of(f);
    if (s && is_zero(simplify(s->no))) {
      out.clauses.append(s->clauses.begin(), s->clauses.end());
      factors.push_back(s->yes);
    } else {
      factors.push_back(f);
    }
  }
  if (out.clauses.empty()) return std::nullopt;
  out.yes = cast(join_operands(factors, Op::Mul, {}), value.dtype());
  out.no = zero_of(value.dtype());
  return out;
}

// ---- clauses in one Range

// `u` as factor*range + rest, an exact integer, where rest and factor do not depend on the range.
struct Affine {
  int128 factor;
  LinearSum rest;
};
std::optional<Affine> affine_in(const UOp& u, const UOp& range) {
  const std::optional<LinearSum> s = LinearSum::of(u);
  if (!s) return std::nullopt;
  Affine a{0, {}};
  a.rest.constant = s->constant;
  for (const Term& t : s->terms) {
    if (t.base == range)
      a.factor = t.factor;
    else if (depends_on(t.base, range))
      return std::nullopt;
    else
      a.rest.terms.push_back(t);
  }
  return a;
}

// The exact integer that a side of a comparison of type `common` stands for, as a weakint; null where it may
// wrap.
UOp exact_side(const UOp& side, DType common) {
  UOp u = side;
  if (is_float(u.dtype())) return {};
  while (u.op() == Op::Cast && is_int(u.src(0).dtype())) {
    if (!fits(u.src(0).bounds(), u.dtype())) break;
    u = u.src(0);
  }
  if (common != DType::WeakInt && !fits(u.bounds(), common)) return {};
  return cast(u, DType::WeakInt);
}

// Both sides of a comparison as one difference a - b, affine in the range.
std::optional<Affine> affine_difference(const UOp& comparison, const UOp& range) {
  const UOp &a = comparison.src(0), &b = comparison.src(1);
  const DType common = join(a.dtype(), b.dtype());
  if (!is_int(common)) return std::nullopt;
  const UOp x = exact_side(a, common), y = exact_side(b, common);
  if (!x || !y) return std::nullopt;
  std::optional<Affine> difference = affine_in(simplify(x - y), range);
  return difference && difference->factor != 0 ? difference : std::nullopt;
}

struct Equality {
  UOp value;  // of the range
  UOp gate;   // where there is one
};
// `factor*range + rest == 0` solved for the range.
std::optional<Equality> solve_equality(const UOp& clause, const UOp& range) {
  const UOp different = negated(clause);
  if (!different || different.op() != Op::CmpNe) return std::nullopt;
  std::optional<Affine> a = affine_difference(different, range);
  if (!a) return std::nullopt;
  const int128 sign = a->factor > 0 ? -1 : 1;
  for (Term& t : a->rest.terms) t.factor *= sign;
  a->rest.constant *= sign;
  const UOp target = a->rest.to_uop(), step = constant(Scalar(a->factor * -sign));
  const UOp value = simplify(target / step);
  UOp gate = ge(value, 0) & lt(value, range.src(0));
  if (!step.is_const(Scalar(1))) gate = gate & eq(target % step, constant(0));
  return Equality{value, simplify(gate)};
}

// Values of the range where the clause holds: [lo, inf) or (-inf, hi), one of them null.
struct HalfLine {
  UOp lo, hi;
};
std::optional<HalfLine> solve_inequality(const UOp& clause, const UOp& range) {
  const UOp inner = negated(clause);
  const UOp& cmp = inner ? inner : clause;
  if (cmp.op() != Op::CmpLt) return std::nullopt;
  const std::optional<Affine> a = affine_difference(cmp, range);
  if (!a) return std::nullopt;
  const UOp rest = a->rest.to_uop();
  // f*r + rest < 0  <=>  r < ceil(-rest/f)  for f > 0, r >= floor(rest/|f|) + 1 for f < 0
  HalfLine h;
  if (a->factor > 0)
    h.hi = -(rest / constant(Scalar(a->factor)));
  else
    h.lo = rest / constant(Scalar(-a->factor)) + 1;
  if (inner) std::swap(h.lo, h.hi);
  return h;
}

// min(a, b) in a form that stays a linear sum once the bounds decide it.
UOp smaller(const UOp& a, const UOp& b) { return b - maximum(b - a, constant(0)); }

// How many values of the range satisfy all clauses; null where one is not a half-line.
UOp count_of(std::span<const UOp> clauses, const UOp& range) {
  UOp lo = constant(0), hi = range.src(0);
  for (const UOp& c : clauses) {
    const std::optional<HalfLine> h = solve_inequality(c, range);
    if (!h) return {};
    if (h->lo) lo = maximum(lo, h->lo);
    if (h->hi) hi = smaller(h->hi, hi);
  }
  return simplify(maximum(hi - lo, constant(0)));
}

UOp conjunction(std::span<const UOp> clauses) {
  return join_operands(clauses, Op::And, constant(Scalar(true)));
}

// ---- rules

// A range that no other range of the reduction depends on.
bool is_free_range(const UOp& reduce, size_t i) {
  if (reduce.src(i).op() != Op::Range) return false;
  for (size_t k = 1; k < reduce.n_srcs(); k++)
    if (k != i && depends_on(reduce.src(k), reduce.src(i))) return false;
  return true;
}

bool never_empty(const UOp& range) { return range.is_const() || !range.src(0).bounds().lo.less(Scalar(1)); }

bool is_kernel_reduce(const UOp& u, Op op) { return u.arg_as<ReduceArg>() == ReduceArg{op, 0}; }

// `u` with the range replaced by its value, which may lie outside of the range: addresses made from it are
// gated.
UOp replace_range(const UOp& u, const UOp& range, const Equality& e) {
  const UOp gated = where(e.gate, e.value, invalid());
  std::vector<std::pair<UOp, UOp>> map{{range, e.value}};
  auto is_address = [&](const UOp& n) { return n.op() == Op::Index && !depends_on(n.src(0), range); };
  toposort(u, [&](const UOp& n) {
    if (!is_address(n)) return true;
    if (depends_on(n, range)) map.emplace_back(n, substitute(n, {{range, gated}}));
    return false;
  });
  return substitute(u, map);
}

// sum over r of (r == k ? v : 0)  ->  0 <= k < end ? v[r := k] : 0
UOp select_one(const UOp& u, size_t i, const Selection& s) {
  const UOp& r = u.src(i);
  if (!is_zero(simplify(s.no))) return {};
  for (size_t k = 0; k < s.clauses.size(); k++) {
    if (!depends_on(s.clauses[k], r)) continue;
    const std::optional<Equality> e = solve_equality(s.clauses[k], r);
    if (!e) continue;
    SmallVec<UOp, 8> rest{e->gate};
    for (size_t j = 0; j < s.clauses.size(); j++)
      if (j != k) rest.push_back(s.clauses[j]);
    const UOp selected = where(conjunction(rest), s.yes, s.no);
    return reduce_over_rest(u, simplify(replace_range(selected, r, *e)), i);
  }
  return {};
}

bool is_exact_multiplicand(const UOp& u) {
  return !is_float(u.dtype()) || (u.is_const() && std::isfinite(u.value().as_double()));
}

// sum over r of (r in an interval ? a : b)  ->  a*count + b*(end - count), for a and b that do not depend on
// r
UOp count_selected(const UOp& u, size_t i, const Selection& s) {
  const UOp& r = u.src(i);
  const UOp yes = simplify(s.yes), no = simplify(s.no);
  if (depends_on(yes, r) || depends_on(no, r) || !is_exact_multiplicand(yes) || !is_exact_multiplicand(no))
    return {};
  SmallVec<UOp, 8> own, others;
  for (const UOp& c : s.clauses) (depends_on(c, r) ? own : others).push_back(c);
  if (own.empty()) return {};
  const UOp count = count_of(own, r);
  if (!count) return {};
  const DType d = u.dtype();
  const UOp end = cast(r.src(0), d);
  UOp total = yes * cast(count, d);
  if (!is_zero(no)) total = total + no * cast(r.src(0) - count, d);
  if (!others.empty()) total = where(conjunction(others), total, no * end);
  return reduce_over_rest(u, cast(total, d), i);
}

UOp collapse_selection(const Match& m) {
  const UOp& u = m.root();
  if (!is_kernel_reduce(u, Op::Add) || is_bool(u.dtype())) return {};
  const std::optional<Selection> s = selected_product(u.src(0));
  if (!s) return {};
  for (size_t i = 1; i < u.n_srcs(); i++) {
    if (!is_free_range(u, i)) continue;
    if (const UOp one = select_one(u, i, *s)) return m.fit(one);
    if (const UOp counted = count_selected(u, i, *s)) return m.fit(counted);
  }
  return {};
}

// A range that the value does not depend on: Add multiplies by its length, Max drops it.
UOp drop_unused_range(const Match& m) {
  const UOp &u = m.root(), &value = u.src(0);
  const Op op = u.arg_as<ReduceArg>().op;
  if (u.arg_as<ReduceArg>().n_axes != 0 || (op != Op::Add && op != Op::Max)) return {};
  for (size_t i = 1; i < u.n_srcs(); i++) {
    const UOp& r = u.src(i);
    if (!is_free_range(u, i) || depends_on(value, r)) continue;
    if (op == Op::Max && never_empty(r)) return m.fit(reduce_over_rest(u, value, i));
    if (op != Op::Add || is_bool(u.dtype()) || (is_float(u.dtype()) && !never_empty(r))) continue;
    return m.fit(reduce_over_rest(u, value * cast(r.src(0), u.dtype()), i));
  }
  return {};
}

// Factors that depend on none of the ranges leave a sum, and a maximum when they are not negative. The sum of
// nothing is 0, whatever the factor, but for floats that are infinite; the maximum of nothing is no multiple.
UOp factor_out(const Match& m) {
  const UOp& u = m.root();
  const Op op = u.arg_as<ReduceArg>().op;
  if (u.arg_as<ReduceArg>().n_axes != 0 || (op != Op::Add && op != Op::Max) || is_bool(u.dtype())) return {};
  const std::span<const UOp> ranges = u.srcs().subspan(1);
  if ((op == Op::Max || is_float(u.dtype())) && !std::all_of(ranges.begin(), ranges.end(), never_empty))
    return {};
  SmallVec<UOp, 8> inside, outside;
  for (const UOp& f : split_operands(u.src(0), Op::Mul)) {
    bool leaves = !depends_on_some(f, ranges);
    if (op == Op::Max) {
      // Floats have bounds only as constants; a product of typed integers may wrap, and then order is lost.
      leaves = leaves && !f.bounds().lo.less(Scalar(0)) && (f.is_const() || u.dtype() == DType::WeakInt) &&
               (is_float(u.dtype()) || u.dtype() == DType::WeakInt);
    }
    (leaves ? outside : inside).push_back(f);
  }
  if (outside.empty() || inside.empty()) return {};
  UOp out = reduce_over_rest(u, cast(join_operands(inside, Op::Mul, {}), u.dtype()));
  for (const UOp& f : outside) out = out * f;
  return m.fit(out);
}

// Terms that do not depend on a range leave an integer sum over it.
UOp split_sum(const Match& m) {
  const UOp& u = m.root();
  if (!is_kernel_reduce(u, Op::Add) || is_float(u.dtype()) || is_bool(u.dtype())) return {};
  SmallVec<UOp, 8> inside, outside;
  for (const UOp& t : split_operands(u.src(0), Op::Add))
    (depends_on_some(t, u.srcs().subspan(1)) ? inside : outside).push_back(t);
  if (outside.empty() || inside.empty()) return {};
  auto sum = [&](const SmallVec<UOp, 8>& terms) {
    return reduce_over_rest(u, cast(join_operands(terms, Op::Add, {}), u.dtype()));
  };
  return m.fit(sum(inside) + sum(outside));
}

// ---- nested reductions
// One reduction over all ranges folds the same values, in another order. An inner result that does not depend
// on some outer range stays: it is computed once.
UOp flatten_nested(const Match& m) {
  const UOp& u = m.root();
  const ReduceArg arg = u.arg_as<ReduceArg>();
  const UOp& value = u.src(0);
  const bool selected = value.op() == Op::Where && arg.op == Op::Add && is_zero(value.src(2));
  const UOp& inner = selected ? value.src(1) : value;
  if (arg.n_axes != 0 || inner.op() != Op::Reduce || !(inner.arg_as<ReduceArg>() == arg)) return {};
  SmallVec<UOp, 8> srcs{selected ? where(value.src(0), inner.src(0), value.src(2)) : inner.src(0)};
  for (const UOp& r : u.srcs().subspan(1)) {
    if (!depends_on(inner.src(0), r)) return {};
    srcs.push_back(r);
  }
  for (const UOp& r : inner.srcs().subspan(1)) {
    // The condition has a reduction over the same range: the inner result is shared with it.
    if (selected && reaches(value.src(0), r)) return {};
    srcs.push_back(r);
  }
  return UOp::make(Op::Reduce, u.dtype(), srcs, u.arg());
}

constexpr auto kReduceRules =
    rules(rule(op<Op::Where>(x, y, z), fn([](const Match& m) { return unwrap_periods(m.root()); })),
          rule(op<Op::Reduce>(x, any_srcs()), fn(flatten_nested)),
          rule(op<Op::Reduce>(x, any_srcs()), fn(drop_unused_range)),
          rule(op<Op::Reduce>(x, any_srcs()), fn(collapse_selection)),
          rule(op<Op::Reduce>(op<Op::Mul>(), any_srcs()), fn(factor_out)),
          rule(op<Op::Reduce>(op<Op::Add>(), any_srcs()), fn(split_sum)));

}  // namespace

RuleView<UOp> reduce_rule_set() { return kReduceRules; }

const Matcher<UOp>& reduce_rules() {
  static const Matcher<UOp>* const matcher = new Matcher<UOp>(make_symbolic_matcher({kReduceRules}));
  return *matcher;
}

}  // namespace lathe
