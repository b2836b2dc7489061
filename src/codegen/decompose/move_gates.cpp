#include "codegen/passes.h"
#include "renderer/program.h"
#include "uop/comparison.h"
#include "uop/linear_terms.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {
namespace {

bool contains(std::span<const UOp> list, const UOp& u) { return std::ranges::find(list, u) != list.end(); }

class GateMover {
 public:
  explicit GateMover(std::vector<UOp> order) : order_(std::move(order)) {
    for (const UOp& u : order_)
      for (const UOp& s : u.srcs()) users_[s.node()]++;
  }

  UOp run() {
    for (const UOp& u : order_) done_.emplace(u.node(), visit(u));
    return of(order_.back()).value;
  }

 private:
  // What a node becomes, without Invalid, and when it counts. No gate: always. An address with a gate is
  // accessed only where the gate is true; a value with a gate may be anything where it is false.
  struct Gated {
    UOp value;
    UOp gate;
  };
  const Gated& of(const UOp& u) const { return done_.at(u.node()); }

  Gated visit(const UOp& u) {
    if (u.is_invalid()) return {constant(0), constant(Scalar(false))};  // weak: fits any place
    switch (u.op()) {
      case Op::Load: return visit_load(u);
      case Op::Store: return visit_store(u);
      case Op::Where: return visit_where(u);
      case Op::Stack: return visit_stack(u);
      case Op::Shrink: return visit_shrink(u);
      case Op::Index: return is_memory(u.src(0)) ? visit_address(u) : visit_lane(u);
      case Op::After: return {rebuild(u), of(u.src(0)).gate};
      case Op::Cast: return {rebuild(u), of(u.src(0)).gate};
      default: break;
    }
    if (!is_alu(u.op())) return {rebuild_settled(u), {}};
    return {rebuild_alu(u), gate_of_sources(u)};
  }

  UOp rebuild(const UOp& u) const {
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : u.srcs()) srcs.push_back(of(s).value);
    return u.with_srcs({srcs.data(), srcs.size()});
  }
  // For users that know no gates: a value is 0 where it does not count.
  UOp rebuild_settled(const UOp& u) const {
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : u.srcs()) {
      const Gated& g = of(s);
      const bool gated = g.gate && s.dtype() != DType::Void;
      srcs.push_back(gated ? where(g.gate, g.value, constant(g.value.dtype(), Scalar(0))) : g.value);
    }
    return u.with_srcs({srcs.data(), srcs.size()});
  }
  // An operand that is nothing but Invalid says nothing about the type: the result is void of meaning, any
  // value will do.
  UOp rebuild_alu(const UOp& u) const {
    for (const UOp& s : u.srcs())
      if (s.is_invalid()) return constant(u.dtype(), Scalar(0));
    return rebuild(u);
  }
  UOp gate_of_sources(const UOp& u) const {
    UOp gate;
    for (const UOp& s : u.srcs()) gate = and_gates(gate, of(s).gate);
    return gate;
  }

  Gated visit_lane(const UOp& u) const {
    const UOp gate = gate_of_sources(u);
    const bool per_lane = gate && gate.ndim() > 0;
    return {of(u.src(0)).value.ndim() ? rebuild(u) : of(u.src(0)).value,
            per_lane ? index(gate, of(u.src(1)).value) : gate};
  }

  // One index under a gate of several lanes names the same element in each.
  Gated visit_address(const UOp& u) const {
    const Gated& i = of(u.src(1));
    if (!i.gate || i.value.ndim() >= i.gate.ndim()) return {rebuild(u), i.gate};
    const std::vector<UOp> lanes(static_cast<size_t>(i.gate.shape()[0].value()), i.value);
    return {index(of(u.src(0)).value, stack(lanes)), i.gate};
  }

  Gated visit_shrink(const UOp& u) const {
    if (!is_memory(u.src(0)) || u.src(1).n_srcs() != 1) return {rebuild(u), gate_of_sources(u)};
    const Gated& offset = of(u.src(1).src(0));
    return {UOp::make(Op::Shrink, {of(u.src(0)).value, stack({&offset.value, 1}), of(u.src(2)).value}),
            offset.gate};
  }

  Gated visit_stack(const UOp& u) const {
    SmallVec<UOp, 8> lanes, gates;
    bool gated = false;
    for (const UOp& s : u.srcs()) {
      const Gated& g = of(s);
      gated = gated || g.gate;
      lanes.push_back(s.is_invalid() ? constant(u.dtype(), Scalar(0)) : g.value);
      gates.push_back(g.gate && g.gate.ndim() == 0 ? g.gate : constant(Scalar(true)));
    }
    if (!gated) return {rebuild(u), {}};
    return {stack({lanes.data(), lanes.size()}), stack({gates.data(), gates.size()})};
  }

  static UOp with_lanes_of(const UOp& x, const UOp& u) {
    if (x.ndim() >= u.ndim()) return x;
    return stack(std::vector<UOp>(static_cast<size_t>(u.shape()[0].value()), x));
  }

  Gated visit_load(const UOp& u) const {
    const Gated& at = of(u.src(0));
    UOp gate = at.gate, alternative;
    if (u.n_srcs() == 3) {
      gate = and_gates(gate, of(u.src(2)).value);
      alternative = of(u.src(1)).value;
    } else {
      alternative = constant(u.dtype(), Scalar(0));
    }
    if (!gate) return {rebuild(u), {}};
    if (gate.is_const(Scalar(false))) return {with_lanes_of(alternative, u), {}};
    return {UOp::make(Op::Load, {at.value, alternative, gate}), {}};
  }

  Gated visit_store(const UOp& u) const {
    const Gated &at = of(u.src(0)), &value = of(u.src(1));
    UOp gate = and_gates(at.gate, value.gate);
    if (u.n_srcs() == 3) gate = and_gates(gate, of(u.src(2)).value);
    if (!gate) return {rebuild(u), {}};
    if (gate.is_const(Scalar(false))) return {UOp::make(Op::Noop, DType::Void, {}), {}};
    return {UOp::make(Op::Store, {at.value, value.value, gate}), {}};
  }

  Gated visit_where(const UOp& u) const {
    const Gated &c = of(u.src(0)), &a = of(u.src(1)), &b = of(u.src(2));
    if (u.src(0).is_invalid() || (u.src(1).is_invalid() && u.src(2).is_invalid()))
      return {constant(u.dtype(), Scalar(0)), constant(Scalar(false))};
    if (u.src(2).is_invalid()) return {a.value, and_gates(c.gate, and_gates(c.value, a.gate))};
    if (u.src(1).is_invalid()) return {b.value, and_gates(c.gate, and_gates(logical_not(c.value), b.gate))};
    UOp gate = c.gate;
    if (a.gate) gate = and_gates(gate, logical_not(c.value) | a.gate);
    if (b.gate) gate = and_gates(gate, c.value | b.gate);
    UOp value;
    if (const UOp positive = negated(c.value)) value = fold_into_load(positive, u.src(2), u.src(1));
    if (!value) value = fold_into_load(c.value, u.src(1), u.src(2));
    return {value ? value : where(c.value, a.value, b.value), gate};
  }

  // Where(c, L, other) for a gated Load L, possibly behind a Cast: the load itself where it already yields
  // `other` when c is false, or can be made to.
  UOp fold_into_load(const UOp& c, const UOp& yes, const UOp& no) const {
    const UOp value = of(yes).value, other = of(no).value;
    const bool behind_cast = value.op() == Op::Cast;
    const UOp load = behind_cast ? value.src(0) : value;
    if (load.op() != Op::Load || load.n_srcs() != 3 || !other.is_const()) return {};
    const Scalar alternative = cast_scalar(other.value(), load.dtype());
    if (!(cast_scalar(alternative, value.dtype()) == cast_scalar(other.value(), value.dtype()))) return {};
    const UOp& original = behind_cast && yes.op() == Op::Cast ? yes.src(0) : yes;
    const auto condition = split_operands(c, Op::And), gate = split_operands(load.src(2), Op::And);
    const bool same = load.src(1).is_const() && load.src(1).value() == alternative;
    // Condition and gate both false at once: the gate implies the condition, and the other way round.
    bool implied = true, implies = true;
    UOp rest;
    for (const UOp& x : condition)
      if (!contains(gate, x)) {
        implied = false;
        rest = and_gates(rest, x);
      }
    for (const UOp& x : gate) implies = implies && contains(condition, x);
    if (!same && (!implies || !only_user(original, yes))) return {};
    if (!implied && !implies) return {};
    UOp result =
        same ? load : UOp::make(Op::Load, {load.src(0), constant(load.dtype(), alternative), load.src(2)});
    if (behind_cast) result = cast(result, value.dtype());
    return implied ? result : where(rest, result, other);
  }
  bool only_user(const UOp& load, const UOp& top) const {
    const auto one = [&](const UOp& u) {
      const auto it = users_.find(u.node());
      return it == users_.end() || it->second == 1;
    };
    return one(load) && one(top);
  }

  std::vector<UOp> order_;
  std::unordered_map<const Node*, Gated> done_;
  std::unordered_map<const Node*, int> users_;
};

}  // namespace

UOp move_gates(const UOp& sink, const Target&) { return GateMover(toposort(sink)).run(); }

}  // namespace lathe
