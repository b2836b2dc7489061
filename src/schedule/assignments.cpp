#include "schedule/passes.h"
#include "uop/pattern.h"
#include "uop/rebuild.h"
#include "uop/rewrite.h"

#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

bool is_assignment(const UOp& u) {
  return u.op() == Op::After && u.n_srcs() == 2 && u.src(1).op() == Op::Store;
}

// What a constant that fills all of a state of memory is, in the state's dtype and shape; null for other
// contents.
UOp constant_contents(const UOp& state) {
  if (!is_assignment(state) || !(state.src(1).src(0) == state.src(0))) return {};
  UOp value = state.src(1).src(1);
  while (is_view(value) || value.op() == Op::Cast) value = value.src(0);
  return value.is_const() ? broadcast_to(cast(state.src(1).src(1), state.dtype()), state.shape()) : UOp();
}

// The last of `order` with nodes replaced, by new nodes or by ones that come before them.
UOp replace_nodes(const std::vector<UOp>& order, const Rebuilt& by) {
  Rebuilt done;
  return done.walk(order,
                   [&](const UOp& u) { return by.contains(u) ? done.of(by.of(u)) : done.over_sources(u); });
}

// Other memory that the value reads is written from the same state elsewhere too, so it is left as it is.
UOp forward_constant(const Match& m) {
  const UOp& after = m.root();
  if (!is_assignment(after)) return {};
  const UOp &before = after.src(0), &write = after.src(1), &value = write.src(1);
  const UOp contents = constant_contents(before);
  if (!contents) return {};
  const std::vector<UOp> order =
      toposort(value, [&](const UOp& u) { return u == before || u.op() != Op::After; });
  if (order.empty()) return {};
  const UOp forwarded = replace_nodes(order, Rebuilt({{before, contents}}));
  return forwarded == value ? UOp() : UOp::make(Op::After, {before, store(write.src(0), forwarded)});
}

constexpr auto kForward = rules(rule(op<Op::After>(pat::x, pat::y), fn(forward_constant)));

class Simplifier {
 public:
  Simplifier(const UOp& graph, size_t n_roots) : order_(toposort(graph)) {
    for (const UOp& u : order_) {
      const auto srcs = u == graph ? u.srcs().first(n_roots) : u.srcs();
      for (const UOp& s : srcs) uses_[s.node()]++;
      if (u.op() == Op::After) written_.insert(strip_states(u).node());
    }
  }

  UOp run() {
    for (const UOp& u : order_)
      if (is_assignment(u)) visit(u);
    return replace_nodes(order_, by_);
  }

 private:
  void visit(const UOp& after) {
    const UOp &before = after.src(0), &target = after.src(1).src(0), &value = after.src(1).src(1);
    const bool copies = value.op() == Op::Contiguous;
    if (is_assignment(before) && covers_unread(before, target))
      by_.set(before, before.src(0));
    else if ((is_assignment(before) && repeats(after, before)) || value == target ||
             (copies && value.src(0) == target))
      by_.set(after, before);
    if (copies && uses_[value.node()] == 1 && stays_as_read(value, before)) by_.set(value, value.src(0));
  }

  // `target` shows all of `state`, and nothing but it and the After that writes it uses the state.
  bool covers_unread(const UOp& state, const UOp& target) {
    for (UOp u = target; !(u == state); u = u.src(0)) {
      const bool whole = u.op() == Op::Reshape || u.op() == Op::Permute || u.op() == Op::Flip ||
                         u.op() == Op::Detach || u.op() == Op::Bitcast;
      if (!whole || uses_[u.node()] != 1) return false;
    }
    return uses_[state.node()] == 2;
  }

  // The same value into the same elements as the assignment before.
  static bool repeats(const UOp& after, const UOp& before) {
    if (!(after.src(1).src(1) == before.src(1).src(1))) return false;
    UOp a = after.src(1).src(0), b = before.src(1).src(0);
    while (!(a == before)) {
      if (a.op() != b.op() || !(a.arg() == b.arg()) || !(a.dtype() == b.dtype()) || a.n_srcs() != b.n_srcs())
        return false;
      for (size_t i = 1; i < a.n_srcs(); i++)
        if (!(a.src(i) == b.src(i))) return false;
      const UOp next = b.src(0);
      a = UOp(a.src(0));
      b = next;
    }
    return b == before.src(0);
  }

  // All memory that `value` reads is as it will be when the store over `state` runs: unwritten here, or the
  // state itself.
  bool stays_as_read(const UOp& value, const UOp& state) const {
    bool stays = true;
    toposort(value, [&](const UOp& u) {
      if (u == state) return false;
      stays = stays && u.op() != Op::After && !written_.contains(u.node());
      return stays;
    });
    return stays;
  }

  NodeList order_;
  std::unordered_map<const Node*, int> uses_;
  std::unordered_set<const Node*> written_;
  Rebuilt by_;
};

}  // namespace

UOp forward_constants(const UOp& graph) {
  static const Matcher<UOp> matcher(kForward);
  return graph_rewrite(graph, matcher, {.name = "forward constants"});
}

UOp simplify_assignments(const UOp& graph, size_t n_roots) { return Simplifier(graph, n_roots).run(); }

}  // namespace lathe
