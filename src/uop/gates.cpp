#include "uop/gates.h"

#include "uop/comparison.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <algorithm>
#include <string>

namespace lathe {
namespace {

constexpr OpSet kIrreducible = {Op::Const, Op::Special, Op::Range, Op::Param};
// A gate of more clauses, or an index of more nodes, is left alone: each clause simplifies the index anew.
constexpr size_t kMaxClauses = 16, kMaxIndexNodes = 1000;

// `u` with the expression x replaced, also where x is part of a larger sum. Does not look into addresses and
// ends of Ranges, which hold outside of the gate too.
UOp replace_expression(const UOp& u, const UOp& x, const UOp& by) {
  const std::optional<LinearSum> pattern = LinearSum::of(x);
  Rebuilt now({{x, by}});
  for (const UOp& n : toposort(u, [](const UOp& n) { return n.op() != Op::Index && n.op() != Op::Range; })) {
    if (n == x) continue;
    if (pattern && pattern->terms.size() > 1 && pattern->constant == 0 && n.op() == Op::Add &&
        n.dtype() == DType::WeakInt) {
      std::optional<LinearSum> s = LinearSum::of(n);
      if (const auto m = s ? s->take_multiple(*pattern) : std::nullopt) {
        for (Term& t : s->terms) t.base = now.of(t.base);
        s->add(by, *m);
        now.set(n, s->normalize().to_uop());
        continue;
      }
    }
    now.set(n, now.over_sources(n));
  }
  return now.of(u);
}

// What is known of the value of a node or of a sum of nodes.
struct Known {
  UOp x;
  int128 lo, hi;
};
Known known_bounds(const UOp& x) { return {x, x.bounds().lo.as_int(), x.bounds().hi.as_int()}; }

// An expression and a variable that stands for it with the bounds that the gate gives.
struct Stand {
  UOp x, variable;
};
std::optional<Stand> stand_for(const Known& k, size_t number) {
  if (k.lo < INT64_MIN / 4 || k.hi > INT64_MAX / 4 || k.lo > k.hi) return std::nullopt;
  return Stand{k.x, variable("gate" + std::to_string(number), static_cast<int64_t>(k.lo),
                             static_cast<int64_t>(k.hi), k.x.dtype())};
}

struct Bound {
  UOp x;
  std::optional<int128> lo, hi;

  // With what the expression says by itself.
  Known known() const {
    const Known own = known_bounds(x);
    return {x, lo ? std::max(*lo, own.lo) : own.lo, hi ? std::min(*hi, own.hi) : own.hi};
  }
};
// What `X < Y` says of X by the bounds of Y, for example of a size.
std::optional<BoundClause> implied_bound(const UOp& clause) {
  const UOp inner = negated(clause);
  const UOp& cmp = inner ? inner : clause;
  if (cmp.op() != Op::CmpLt || !is_int(cmp.src(0).dtype()) || !is_int(cmp.src(1).dtype())) return {};
  const Bounds& y = cmp.src(1).bounds();
  if (!fits(y, DType::Int64)) return {};
  return inner ? BoundClause{cmp.src(0), false, y.lo.as_int()}
               : BoundClause{cmp.src(0), true, y.hi.as_int() - 1};
}

// Bounds of expressions that hold where all clauses do; with `implied` those too that only follow from bounds
// of what clauses compare with. A gated load of a bool is true only where its gate is.
SmallVec<Bound, 4> bounds_of(SmallVec<UOp, 8> clauses, bool implied = false) {
  SmallVec<Bound, 4> out;
  for (size_t i = 0; i < clauses.size(); i++) {
    const UOp clause = clauses[i];
    if (clause.op() == Op::Load && clause.n_srcs() == 1 && clause.src(0).op() == Op::Index) {
      const UOp& at = clause.src(0).src(1);
      if (!is_gated(at)) continue;
      for (const UOp& inner : split_operands(at.src(0), Op::And)) clauses.push_back(inner);
      continue;
    }
    std::optional<BoundClause> b = bound_clause(clause);
    if (!b && implied) b = implied_bound(clause);
    if (!b) continue;
    auto it = std::find_if(out.begin(), out.end(), [&](const Bound& o) { return o.x == b->x; });
    if (it == out.end()) {
      out.push_back({b->x, {}, {}});
      it = out.end() - 1;
    }
    if (b->is_upper)
      it->hi = it->hi ? std::min(*it->hi, b->limit) : b->limit;
    else
      it->lo = it->lo ? std::max(*it->lo, b->limit) : b->limit;
  }
  return out;
}

// `u` simplified with the stand in place of its expression, and the expression put back; `u` where it does
// not occur.
UOp simplify_with(const UOp& u, const Stand& stand) {
  const UOp replaced = replace_expression(u, stand.x, stand.variable);
  if (replaced == u) return u;
  return simplify(substitute(simplify(replaced), {{stand.variable, stand.x}}));
}

// X0 + X1 + … >= 1 over variables that are never negative means that some Xi >= 1: what all the cases agree
// on holds.
UOp simplify_by_cases(const UOp& u, const UOp& sum) {
  UOp agreed;
  for (const UOp& x : split_operands(sum, Op::Add)) {
    if (!kIrreducible.contains(x.op()) || x.bounds().lo.less(Scalar(0))) return u;
    const std::optional<Stand> stand = stand_for({x, 1, x.bounds().hi.as_int()}, 0);
    if (!stand) return u;
    const UOp one = simplify_with(u, *stand);
    if (one == u || (agreed && !(agreed == one))) return u;
    agreed = one;
  }
  return agreed;
}

// Bounds of the terms of bounded sums: lo <= f*t + rest <= hi bounds t by what the rest may be. False where
// nothing satisfies all bounds.
bool narrow_terms(std::span<const Bound> bounds, std::vector<Known>& terms) {
  auto known = [&](const UOp& x) -> Known& {
    for (Known& k : terms)
      if (k.x == x) return k;
    terms.push_back(known_bounds(x));
    return terms.back();
  };
  for (int round = 0; round < 2; round++) {  // a second time for bounds that later clauses gave
    for (const Bound& b : bounds) {
      const std::optional<LinearSum> s = LinearSum::of(b.x);
      if (!s || !interval_of(*s)) continue;  // beyond 120 bits: the sums below would not fit
      int128 least = s->constant, most = s->constant;
      for (const Term& t : s->terms) {
        const Known& k = known(t.base);
        least += t.factor * (t.factor > 0 ? k.lo : k.hi);
        most += t.factor * (t.factor > 0 ? k.hi : k.lo);
      }
      for (const Term& t : s->terms) {
        Known& k = known(t.base);
        const bool up = t.factor > 0;
        const int128 f = up ? t.factor : -t.factor, own_least = up ? k.lo : -k.hi,
                     own_most = up ? k.hi : -k.lo;
        int128 lo = own_least, hi = own_most;
        if (b.hi) hi = std::min(hi, floor_div(*b.hi - (least - f * own_least), f));
        if (b.lo) lo = std::max(lo, -floor_div(-(*b.lo - (most - f * own_most)), f));
        if (lo > hi) return false;
        least += f * (lo - own_least);
        most += f * (hi - own_most);
        k = {k.x, up ? lo : -hi, up ? hi : -lo};
      }
    }
  }
  return true;
}

// What follows of two bounds by subtraction where that makes a term vanish: a + 24b <= 124 and a - b >= 0
// give 25b <= 124.
void add_differences(SmallVec<Bound, 4>& bounds) {
  std::vector<std::optional<LinearSum>> sums;
  for (const Bound& b : bounds) sums.push_back(LinearSum::of(b.x));
  for (size_t i = 0, n = bounds.size(); i < n; i++)
    for (size_t j = 0; j < n; j++) {
      if (i == j || !bounds[i].hi || !bounds[j].lo || !sums[i] || !sums[j]) continue;
      if (sums[i]->terms.size() < 2 || sums[j]->terms.size() < 2) continue;
      LinearSum difference = *sums[i];
      for (const Term& t : sums[j]->terms) difference.add(t.base, -t.factor);
      difference.constant -= sums[j]->constant;
      difference.normalize();
      const size_t left = difference.terms.size();
      if (left && left < std::max(sums[i]->terms.size(), sums[j]->terms.size()))
        bounds.push_back({difference.to_uop(), {}, *bounds[i].hi - *bounds[j].lo});
    }
}

bool has_address(const UOp& u) {
  const NodeList nodes = toposort(u);
  return std::any_of(nodes.begin(), nodes.end(), [](const UOp& n) { return n.op() == Op::Index; });
}

}  // namespace

UOp simplify_under(const UOp& gate, const UOp& u) {
  const SmallVec<UOp, 8> clauses = split_operands(gate, Op::And);
  if (clauses.size() > kMaxClauses || u.is_const() || toposort(u).size() > kMaxIndexNodes) return u;
  UOp out = u;
  SmallVec<Stand, 4> stands;
  for (const Bound& b : bounds_of(clauses)) {
    const std::optional<Stand> stand = stand_for(b.known(), stands.size());
    if (!stand || b.x.dtype() != DType::WeakInt) continue;
    stands.push_back(*stand);
    out = simplify_with(out, *stand);
    if (b.lo == 1 && b.x.op() == Op::Add) out = simplify_by_cases(out, b.x);
  }
  if (stands.size() < 2) return out;
  UOp all = out;
  for (const Stand& s : stands) all = replace_expression(all, s.x, s.variable);
  if (all == out) return out;
  all = simplify(all);
  for (const Stand& s : stands) all = substitute(all, {{s.variable, s.x}});
  return simplify(all);
}

std::optional<Bounds> bounds_under(const UOp& gate, const UOp& u) {
  const SmallVec<UOp, 8> clauses = split_operands(gate, Op::And);
  if (clauses.size() > kMaxClauses || toposort(u).size() > kMaxIndexNodes) return u.bounds();
  const SmallVec<Bound, 4> bounds = bounds_of(clauses, true);
  std::vector<Known> terms;
  SmallVec<Bound, 4> all = bounds;
  add_differences(all);
  if (gate.is_const(Scalar(false)) || !narrow_terms(all, terms)) return std::nullopt;
  Bounds out = u.bounds();
  auto narrow_by = [&](UOp form) {
    for (size_t i = 0; i < terms.size(); i++)
      if (const auto s = stand_for(terms[i], i)) form = replace_expression(form, s->x, s->variable);
    const Bounds b = simplify(form).bounds();
    if (out.lo.less(b.lo)) out.lo = b.lo;
    if (b.hi.less(out.hi)) out.hi = b.hi;
  };
  narrow_by(u);
  for (size_t i = 0; i < bounds.size(); i++) {
    const Bound& b = bounds[i];
    const std::optional<Stand> stand = stand_for(b.known(), terms.size() + i);
    const std::optional<LinearSum> s = LinearSum::of(b.x);
    if (!stand || !s || s->terms.size() < 2) continue;
    narrow_by(replace_expression(u, stand->x, stand->variable));
    // X = ±t + rest solved for the term: t = ±(X - rest).
    for (const Term& t : s->terms)
      if (t.factor == 1 || t.factor == -1)
        narrow_by(simplify(substitute(
            u, {{t.base, t.base + (stand->variable - stand->x) * static_cast<int64_t>(t.factor)}})));
  }
  return out;
}

UOp simplify_gate(const UOp& gate) {
  const SmallVec<UOp, 8> clauses = split_operands(gate, Op::And);
  if (clauses.size() < 2 || clauses.size() > kMaxClauses || has_address(gate)) return gate;
  // Minus the number of other clauses that contain its expression, and the position, of each clause.
  SmallVec<std::pair<int, size_t>, 8> ranked;
  for (const UOp& clause : clauses) {
    const std::optional<BoundClause> b = bound_clause(clause);
    int uses = 0;
    if (b)
      for (const UOp& other : clauses)
        uses += !(other == clause) && !(replace_expression(other, b->x, constant(0)) == other);
    ranked.push_back({-uses, ranked.size()});
  }
  std::sort(ranked.begin(), ranked.end());
  SmallVec<UOp, 8> kept;
  bool changed = false;
  for (const auto& [uses, position] : ranked) {
    const UOp& clause = clauses[position];
    if (std::find(kept.begin(), kept.end(), clause) != kept.end()) continue;
    kept.push_back(kept.empty() ? clause : simplify_under(join_operands(kept, Op::And, {}), clause));
    changed = changed || !(kept.back() == clause);
  }
  return changed || kept.size() < clauses.size() ? simplify(join_operands(kept, Op::And, {})) : gate;
}

namespace {

using namespace pat;

UOp simplify_gated_index(const Match& m) {
  const UOp &g = m[gate], &i = m[idx];
  if (!is_int(i.dtype()) || g.is_const()) return {};
  const UOp new_gate = simplify_gate(g);
  const UOp new_index = simplify_under(new_gate, i);
  return new_gate == g && new_index == i ? UOp() : where(new_gate, new_index, invalid());
}

constexpr auto kGateRules = rules(rule(where(gate, idx, inv), fn(simplify_gated_index)));

}  // namespace

RuleView<UOp> gate_rule_set() { return kGateRules; }

UOp simplify_gates(const UOp& root) {
  static const Matcher<UOp>* const matcher = new Matcher<UOp>(make_symbolic_matcher({kGateRules}));
  return graph_rewrite(root, *matcher, {.name = "simplify gates"});
}

}  // namespace lathe
