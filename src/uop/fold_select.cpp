#include "uop/comparison.h"
#include "uop/fold.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"

#include <algorithm>
#include <unordered_set>

namespace lathe {
namespace {

// Ops whose sources are evaluated in another scope than the node's own, or are addresses and gates of their
// own.
constexpr OpSet kScopes = {Op::Index, Op::Load,  Op::Reduce, Op::Stage,
                           Op::End,   Op::Store, Op::Call,   Op::Sink};

// `u` with `node` replaced, not looking into kScopes. `u` itself when `node` is not there.
UOp replace_in_scope(const UOp& u, const UOp& node, const UOp& by) {
  constexpr size_t kMaxNodes = 512;  // beyond, the search would cost more than it gives: every Where asks
  size_t visited = 0;
  bool found = false;
  const NodeList order = toposort(u, [&](const UOp& n) {
    found = found || n == node;
    return !kScopes.contains(n.op()) && ++visited <= kMaxNodes;
  });
  if (!found || visited > kMaxNodes) return u;
  Rebuilt now({{node, by}});
  for (const UOp& n : order)
    if (!(n == node)) now.set(n, now.over_sources(n));
  return now.of(u);
}

// Whether both branches use more of `cond` in common than two copies of it are worth: of a vector both
// branches are computed.
bool share_work(const UOp& yes, const UOp& no, const UOp& cond) {
  constexpr OpSet kDear = {Op::Exp2, Op::Log2, Op::Sin, Op::Sqrt, Op::Reciprocal};
  constexpr int kMost = 4, kOfDear = 5;
  const auto in_scope = [](const UOp& n) { return !kScopes.contains(n.op()); };
  std::unordered_set<const Node*> of_cond{cond.node()}, in_yes;
  for (const UOp& n : toposort(yes, in_scope)) {
    in_yes.insert(n.node());
    if (in_scope(n) &&
        std::ranges::any_of(n.srcs(), [&](const UOp& s) { return of_cond.contains(s.node()); }))
      of_cond.insert(n.node());
  }
  int shared = 0;
  for (const UOp& n : toposort(no, in_scope))
    if (is_float(n.dtype()) && of_cond.contains(n.node()) && in_yes.contains(n.node()))
      shared += kDear.contains(n.op()) ? kOfDear : 1;
  return shared > kMost;
}

// Two selections of which one branch is constant in both: there what is made of them folds.
bool share_constant_branch(const UOp& a, const UOp& b) {
  return (a.src(1).is_const() && b.src(1).is_const()) || (a.src(2).is_const() && b.src(2).is_const());
}

}  // namespace

UOp push_op_into_gate(const Match& m) {
  const UOp& u = m.root();
  if (u.op() == Op::Where && !is_gated(u.src(0))) return {};  // branches have rules of their own
  for (size_t i = 0; i < u.n_srcs(); i++) {
    if (!is_gated(u.src(i))) continue;
    SmallVec<UOp, 3> srcs(u.srcs().begin(), u.srcs().end());
    srcs[i] = u.src(i).src(1);
    // A cast or bitcast states its dtype, everything else derives it.
    return where(u.src(i).src(0), u.with_srcs(srcs), invalid());
  }
  return {};
}

UOp merge_selects(const Match& m) {
  const UOp &u = m.root(), &a = u.src(0), &b = u.src(1);
  if (a.op() != Op::Where || b.op() != Op::Where || !(a.src(0) == b.src(0))) return {};
  if (!share_constant_branch(a, b)) return {};
  if (a.src(2).is_invalid() || b.src(2).is_invalid()) return {};
  // Weak branches are committed first, each at the type of its selection.
  const auto merged = [&](size_t i) {
    return alu(u.op(), {cast(a.src(i), a.dtype()), cast(b.src(i), b.dtype())});
  };
  return m.fit(where(a.src(0), merged(1), merged(2)));
}

UOp merge_selects_in_sum(const Match& m) {
  const UOp &first = m[pat::a], &second = m[pat::b];
  if (!share_constant_branch(first, second)) return {};
  return m.fit(alu(Op::Add, {m[pat::y], alu(Op::Add, {first, second})}));
}

UOp merge_select_terms(const UOp& sum) {
  // What is before the last term is simple already.
  const Term last = last_term(sum);
  if (last.base.op() != Op::Where || !any_term(sum.src(0), [&](const UOp& base, int128) {
        return base.op() == Op::Where && base.src(0) == last.base.src(0);
      }))
    return {};
  std::optional<LinearSum> s = LinearSum::of(sum);
  if (!s) return {};
  auto scaled = [](const UOp& a, const Term& s, const UOp& b, const Term& t) {
    LinearSum out;
    const bool fits = out.add_scaled(a, s.factor) && out.add_scaled(b, t.factor);
    return fits ? out.normalize().to_uop() : UOp();
  };
  for (size_t i = 0; i < s->terms.size(); i++) {
    const UOp& a = s->terms[i].base;
    if (a.op() != Op::Where || is_gated(a)) continue;
    for (size_t j = i + 1; j < s->terms.size(); j++) {
      const UOp& b = s->terms[j].base;
      if (b.op() != Op::Where || !(a.src(0) == b.src(0)) || is_gated(b)) continue;
      const bool adds_nothing = share_constant_branch(a, b) ||
                                (a.src(1).is_const(Scalar(0)) && b.src(2).is_const(Scalar(0))) ||
                                (a.src(2).is_const(Scalar(0)) && b.src(1).is_const(Scalar(0)));
      if (!adds_nothing) continue;
      const UOp yes = scaled(a.src(1), s->terms[i], b.src(1), s->terms[j]);
      const UOp no = scaled(a.src(2), s->terms[i], b.src(2), s->terms[j]);
      if (!yes || !no) continue;
      s->terms[i] = {where(a.src(0), yes, no), 1};
      s->terms.erase(s->terms.begin() + static_cast<std::ptrdiff_t>(j));
      return s->normalize().to_uop();
    }
  }
  return {};
}

UOp assume_condition(const Match& m) {
  const UOp& u = m.root();
  const UOp &cond = u.src(0), &yes = u.src(1), &no = u.src(2);
  if (cond.is_const()) return {};
  const UOp new_yes = yes.is_const() ? yes : replace_in_scope(yes, cond, constant(Scalar(true)));
  const UOp new_no = no.is_const() ? no : replace_in_scope(no, cond, constant(Scalar(false)));
  if (new_yes == yes && new_no == no) return {};
  if (!(new_yes == yes) && !(new_no == no) && share_work(yes, no, cond)) return {};
  return m.fit(where(cond, new_yes, new_no));
}

// x -> a -> b is x -> b when a holds every value of x: by its type, or for integers by its bounds.
UOp fold_cast_chain(const Match& m) {
  const UOp &u = m.root(), &inner = u.src(0), &x = inner.src(0);
  const DType a = inner.dtype();
  const bool exact =
      casts_losslessly(x.dtype(), a) || (is_int(x.dtype()) && is_int(a) && fits(x.bounds(), a));
  return exact ? cast(x, u.dtype()) : UOp();
}

UOp lift_to_index(const Match& m) {
  const UOp& u = m.root();
  const bool compares = has_flag(u.op(), kComparison);
  const DType d = u.src(u.src(0).is_const() ? 1 : 0).dtype();
  if (!is_int(d) || d == DType::WeakInt) return {};
  auto exact = [&](const UOp& s) {
    if (s.is_const() && !s.is_invalid()) return constant(Scalar(cast_scalar(s.value(), d).as_int()));
    const bool lifts = s.op() == Op::Cast && s.dtype() == d && s.src(0).dtype() == DType::WeakInt &&
                       fits(s.src(0).bounds(), d);
    return lifts ? s.src(0) : UOp();
  };
  const UOp x = exact(u.src(0)), y = exact(u.src(1));
  if (!x || !y) return {};
  const UOp lifted = alu(u.op(), {x, y});
  if (compares) return m.fit(lifted);
  return u.dtype() == d && fits(lifted.bounds(), d) ? cast(lifted, d) : UOp();
}

namespace {

// The value of a gated load is 0 where its gate is false. So what selects it or 0 may be in the gate: clauses
// that are there already, and clauses over loops that the index runs in, whose loads would otherwise be made
// in vain. A clause about loaded values stays: it would make one load wait for another. Moves clauses out of
// `selecting`.
UOp move_into_gate(const UOp& load, SmallVec<UOp, 8>& selecting) {
  const UOp &address = load.src(0), &gated = address.src(1);
  const RangeSet& loops = gated.ranges();
  SmallVec<UOp, 8> gate = split_operands(gated.src(0), Op::And), kept;
  const size_t before = gate.size();
  for (const UOp& c : selecting) {
    if (std::find(gate.begin(), gate.begin() + before, c) != gate.begin() + before) continue;
    bool moves = c.has_shape() && c.ndim() == gated.ndim();
    for (const Node* r : c.ranges()) moves = moves && std::find(loops.begin(), loops.end(), r) != loops.end();
    if (moves)
      for (const UOp& n : toposort(c)) moves = moves && n.op() != Op::Index;
    (moves ? gate : kept).push_back(c);
  }
  selecting = kept;
  if (gate.size() == before) return load;
  const UOp all = join_operands(gate, Op::And, {});
  return lathe::load(index(address.src(0), where(all, gated.src(1), invalid())));
}

}  // namespace

UOp select_by_gate(const Match& m) {
  const UOp& u = m.root();
  const bool negative = u.src(1).is_const();
  const UOp& value = u.src(negative ? 2 : 1);
  if (value.dtype() != u.dtype() || !is_gated_load(value)) return {};
  SmallVec<UOp, 8> needed;
  if (negative) {
    for (const UOp& c : split_operands(u.src(0), Op::Or)) needed.push_back(opposite(c));
  } else {
    needed = split_operands(u.src(0), Op::And);
  }
  const size_t before = needed.size();
  const UOp moved = move_into_gate(value, needed);
  if (needed.size() == before) return {};
  if (needed.empty()) return moved;
  return m.fit(where(join_operands(needed, Op::And, {}), moved, u.src(negative ? 1 : 2)));
}

UOp conjoin_by_gate(const Match& m) {
  SmallVec<UOp, 8> clauses = split_operands(m.root(), Op::And);
  const auto at = std::find_if(clauses.begin(), clauses.end(), is_gated_load);
  if (at == clauses.end()) return {};
  const UOp value = *at;
  clauses.erase(at);
  const size_t before = clauses.size();
  const UOp moved = move_into_gate(value, clauses);
  if (clauses.size() == before) return {};
  clauses.push_back(moved);
  return join_operands(clauses, Op::And, {});
}

}  // namespace lathe
