#include "schedule/passes.h"

#include <algorithm>

namespace lathe {

std::span<const UOp> flow_sources(const UOp& u) {
  constexpr OpSet kClosed = {Op::Buffer, Op::Param, Op::Const, Op::Noop,
                             Op::Stage};  // a closed form over its own ranges (arange)
  constexpr OpSet kSized = {Op::Reshape, Op::Expand, Op::Pad, Op::Shrink};
  if (kClosed.contains(u.op())) return {};
  if (kSized.contains(u.op())) return u.srcs().first(1);
  return u.op() == Op::Call ? u.srcs().subspan(1) : u.srcs();
}

Coords source_coords(const UOp& user, const ValueRanges& at, size_t i) {
  if (is_movement(user.op())) return movement_coords(user, at.out);
  switch (user.op()) {
    case Op::Reduce: {
      Coords in = at.reduce;
      in.insert(in.end(), at.out.begin(), at.out.end());
      return in;
    }
    case Op::Stack: return Coords(at.out.begin() + 1, at.out.end());
    default: return operand_coords(at.out, user.src(i).shape());
  }
}

namespace {

// What one consumer asks of a value.
struct Demand {
  Coords coords;
  bool ended;   // below a broadcast: recomputing here repeats work for every element of the broadcast axis
  bool padded;  // below a Pad: recomputing here does work for elements that are not there
  bool summed;  // below a Reduce: a Pad there only adds zeros
};

class Assigner {
 public:
  explicit Assigner(std::span<const UOp> roots) {
    const UOp all = sink(roots);
    plan_.order = value_order(all);
    std::unordered_map<const Node*, int> users;
    for (const UOp& u : plan_.order)
      for (const UOp& s : flow_sources(u)) users[s.node()]++;
    for (const UOp& u : plan_.order) {
      note_reductions(u);
      if (users[u.node()] > 1) product_sums_.erase(u.node());  // kept for all of them, most likely
    }
    for (const UOp& r : roots) force_.insert(r.node());
  }

  RangePlan run() {
    for (size_t k = plan_.order.size(); k-- > 0;) {
      const UOp& u = plan_.order[k];
      if (u.op() == Op::Call || u.op() == Op::After) force_arguments(u);
      if (u.op() == Op::Sink || u.op() == Op::Call || u.op() == Op::After) continue;
      visit(u);
      demands_.erase(u.node());
    }
    return std::move(plan_);
  }

 private:
  void note_reductions(const UOp& u) {
    if (u.op() == Op::Contiguous) return;
    if (is_product_sum(u)) {
      reduces_.insert(u.node());
      product_sums_.emplace(u.node(), u.node());
      return;
    }
    const auto srcs = flow_sources(u);
    bool reduces = u.op() == Op::Reduce;
    const Node* largest = nullptr;
    const UOp* from = nullptr;
    for (const UOp& s : srcs) {
      reduces = reduces || reduces_.contains(s.node());
      const auto found = product_sums_.find(s.node());
      if (found == product_sums_.end() || found->second == largest) continue;
      const UOp* smaller = largest && work_of(largest) >= work_of(found->second) ? &s : from;
      if (largest && smaller && is_alu(u.op()) && !same_terms(largest, found->second))
        apart_.insert(strip_views(*smaller).node());
      if (smaller == &s) continue;
      largest = found->second;
      from = &s;
    }
    if (reduces) reduces_.insert(u.node());
    // Below another reduction the sum has a kernel before this one.
    if (largest && u.op() != Op::Reduce) product_sums_.emplace(u.node(), largest);
  }
  static double work_of(const Node* sum) {
    const SInt n = prod(UOp(sum).src(0).shape());
    return static_cast<double>(n.vmax());
  }
  // Sums over steps of the same number may share the loads of a kernel.
  static bool same_terms(const Node* a, const Node* b) {
    constexpr double kSmall = 1 << 20;  // a kernel of its own is not worth it
    return UOp(a).src(0).shape() == UOp(b).src(0).shape() || std::min(work_of(a), work_of(b)) < kSmall;
  }
  static bool is_product_sum(const UOp& u) {
    if (u.op() != Op::Reduce || u.arg_as<ReduceArg>().op != Op::Add || !is_float(u.dtype())) return false;
    const UOp* value = &u.src(0);
    while (value->op() == Op::Cast || is_movement(value->op())) value = &value->src(0);
    return value->op() == Op::Mul && !value->src(0).is_const() && !value->src(1).is_const() &&
           !(value->src(0) == value->src(1));
  }
  // A sum that is done for each step of another one would find no tiles. What is computed of it and no larger
  // is kept.
  bool is_summed_again(const UOp& u, const Demand& above) const {
    if (!above.summed || !is_alu(u.op())) return false;
    const auto found = product_sums_.find(u.node());
    return found != product_sums_.end() && prod(u.shape()).vmax() <= prod(UOp(found->second).shape()).vmax();
  }

  static std::vector<UOp> value_order(const UOp& root) {
    std::vector<UOp> out;
    std::unordered_set<const Node*> seen{root.node()};
    std::vector<std::pair<UOp, size_t>> stack{{root, 0}};
    while (!stack.empty()) {
      auto& [u, next] = stack.back();
      const auto srcs = flow_sources(u);
      if (next < srcs.size()) {
        const UOp& s = srcs[next++];
        if (seen.insert(s.node()).second) stack.emplace_back(s, 0);
      } else {
        out.push_back(u);
        stack.pop_back();
      }
    }
    return out;
  }

  // Calls work on memory, and what is waited for has to be there.
  void force_arguments(const UOp& u) {
    for (const UOp& s : u.srcs().subspan(1))
      if (s.dtype() != DType::Void) force_.insert(strip_views(s).node());
  }

  UOp new_range(const SInt& size, AxisType type) {
    if (size == SInt(1)) return constant(0);
    return range(size.uop(), plan_.next_range++, type);
  }
  Coords new_ranges(const Shape& s) {
    Coords out;
    for (const SInt& d : s) out.push_back(new_range(d, AxisType::Loop));
    return out;
  }

  void visit(const UOp& u) {
    if (u.op() == Op::Store) return visit_store(u);
    ValueRanges at;
    const Demand above = settle(u, at);
    if (u.op() == Op::Reduce) {
      const auto& arg = u.arg_as<ReduceArg>();
      for (int i = 0; i < arg.n_axes; i++)
        at.reduce.push_back(new_range(u.src(0).shape()[static_cast<size_t>(i)], AxisType::Reduce));
    }
    const auto srcs = flow_sources(u);
    for (size_t i = 0; i < srcs.size(); i++) {
      if (!srcs[i].has_shape()) continue;
      const bool grows =
          (u.op() == Op::Expand || is_alu(u.op())) && !(prod(srcs[i].shape()) == prod(u.shape()));
      demands_[srcs[i].node()].push_back({source_coords(u, at, i), above.ended || grows,
                                          above.padded || (u.op() == Op::Pad && !above.summed),
                                          above.summed || u.op() == Op::Reduce});
    }
    plan_.ranges.emplace(u.node(), std::move(at));
  }

  // A Store runs over the view it writes; its value is computed at those ranges.
  void visit_store(const UOp& u) {
    ValueRanges at;
    at.kept = true;
    at.removable = false;
    at.out = new_ranges(u.src(0).shape());
    demands_[u.src(1).node()].push_back({operand_coords(at.out, u.src(1).shape()), false, false, false});
    // The written view is addressed, not read: its buffer state still has to be visited.
    plan_.ranges.emplace(u.node(), std::move(at));
  }

  // Fills in `at.out` and whether the value is kept; returns what sources are still below of.
  Demand settle(const UOp& u, ValueRanges& at) {
    const auto it = demands_.find(u.node());
    const bool forced = force_.contains(u.node()) || u.op() == Op::Contiguous;
    if (forced || it == demands_.end()) {
      at.kept = forced;
      at.removable = !forced;
      at.out = new_ranges(u.shape());
      return {};
    }
    const std::vector<Demand>& demands = it->second;
    Demand all{};
    for (const Demand& d : demands) {
      all.ended = all.ended || d.ended;
      all.padded = all.padded || d.padded;
      all.summed = all.summed || d.summed;
    }
    const bool computes =
        is_alu(u.op()) || u.op() == Op::Reduce || u.op() == Op::Cast || u.op() == Op::Bitcast;
    const bool wastes =
        apart_.contains(u.node()) || (all.padded && reduces_.contains(u.node())) || is_summed_again(u, all);
    if (((all.ended || wastes) && computes) || !merge(demands, at.out)) {
      at.repeats = reorders(u) || repeats(u);
      at.kept = !at.repeats;
      at.out = new_ranges(u.shape());
      return {.coords = {}, .ended = reorders(u), .padded = false, .summed = false};
    }
    return all;
  }

  // A view of all elements, each once: what is below is kept, in loops that are its own.
  static bool reorders(const UOp& u) {
    return u.op() == Op::Reshape || u.op() == Op::Permute || u.op() == Op::Flip;
  }

  // A view, or a cast of one, that repeats elements of what is below.
  static bool repeats(const UOp& u) {
    for (const UOp* s = &u; is_movement(s->op()) || s->op() == Op::Cast; s = &s->src(0))
      if (s->op() == Op::Expand && !(prod(s->shape()) == prod(s->src(0).shape()))) return true;
    return false;
  }

  // One coordinate list for all consumers, or false when they differ. Gates are or-ed: what any consumer
  // needs is computed.
  static bool merge(const std::vector<Demand>& demands, Coords& out) {
    out = demands[0].coords;
    for (size_t i = 0; i < out.size(); i++) {
      Gated g = split_gate(out[i]);
      for (size_t k = 1; k < demands.size(); k++) {
        const Gated h = split_gate(demands[k].coords[i]);
        if (!(h.index == g.index)) return false;
        if (!h.gate || !g.gate)
          g.gate = UOp();
        else if (!(h.gate == g.gate))
          g.gate = g.gate | h.gate;
      }
      out[i] = join_gate(g.index, g.gate);
    }
    return true;
  }

  RangePlan plan_;
  std::unordered_set<const Node*> force_;
  std::unordered_set<const Node*> reduces_;                    // values that some Reduce is part of
  std::unordered_map<const Node*, const Node*> product_sums_;  // … a sum of products, and the largest one
  std::unordered_set<const Node*> apart_;                      // … beside a larger sum of other products
  std::unordered_map<const Node*, std::vector<Demand>> demands_;
};

// Finds the kept values that one kernel reads in loops that begin with theirs: reductions of such loops can
// be done there, once, before the loops further in. Every step of a softmax is one.
class LoopSharing {
 public:
  explicit LoopSharing(RangePlan& plan) : plan_(plan) {}

  void run() {
    for (const auto& [node, at] : plan_.ranges) {
      for (const UOp& c : at.reduce)
        if (c.op() == Op::Range) reader_of_.emplace(c.node(), node);
      size_t n = 0;
      for (const UOp& c : at.out)
        if (at.repeats && c.op() == Op::Range) reader_of_.emplace(c.node(), node);
      if (at.kept)
        for (const UOp& c : at.out)
          if (c.op() == Op::Range) loops_.emplace(c.node(), Loop{node, n++});
    }
    for (size_t k = plan_.order.size(); k-- > 0;) {  // readers first
      const UOp& u = plan_.order[k];
      const auto found = plan_.ranges.find(u.node());
      if (found != plan_.ranges.end()) visit(u, found->second);
    }
  }

 private:
  struct Loop {
    const Node* value;  // whose it is
    size_t depth;
  };
  struct Surroundings {
    const Node* kernel;  // the kept value that is computed there in the end
    size_t loops;        // its first ones are those of the value in question
  };

  void visit(const UOp& u, ValueRanges& at) {
    if (at.kept) {
      const auto around = around_.find(u.node());
      if (at.removable && around != around_.end()) at.shared_loops = around->second.loops;
      if (!at.shared_loops) around_[u.node()] = {u.node(), 0};
    }
    const auto srcs = flow_sources(u);
    for (size_t i = u.op() == Op::Store ? 1 : 0; i < srcs.size(); i++) {  // the target of a Store is not read
      const auto source = plan_.ranges.find(srcs[i].node());
      if (source == plan_.ranges.end() || !(source->second.kept || source->second.repeats)) continue;
      const Coords coords = source_coords(u, at, i);
      source->second.rereads = std::max(source->second.rereads, rereads_of(coords));
      if (!source->second.kept) continue;
      const Surroundings here = surroundings(source->second.out, coords);
      const auto [entry, is_first] = around_.emplace(source->first, here);
      Surroundings& all = entry->second;
      if (!is_first) all.loops = all.kernel == here.kernel ? std::min(all.loops, here.loops) : 0;
    }
  }

  // Outputs of the reductions around a reader that need the same elements of what it asks for at `coords`; 0
  // where there are no reductions.
  int64_t rereads_of(const Coords& coords) const {
    std::unordered_set<const Node*> asked, repeated;
    int64_t n = 0;
    for (const UOp& c : coords) asked.insert(c.ranges().begin(), c.ranges().end());
    for (const Node* r : asked) {
      const auto owner = reader_of_.find(r);
      if (owner == reader_of_.end()) continue;
      const ValueRanges& at = plan_.ranges.at(owner->second);
      n = std::max<int64_t>(n, at.repeats ? at.rereads : 1);  // readers of a view ask in its place
      for (const UOp& o : at.out)
        for (const Node* q : o.ranges())
          if (!asked.contains(q)) repeated.insert(q);
    }
    constexpr int64_t kMany = 1 << 20;
    for (const Node* q : repeated) n = std::min(kMany, n * std::min(kMany, SInt(UOp(q).src(0)).vmax()));
    return n;
  }

  // Where a reader is that asks for `coords` of a value with loops over `own`.
  Surroundings surroundings(const Coords& own, const Coords& coords) const {
    const Node* reader = nullptr;
    size_t depth = 0;
    for (size_t i = 0; i < own.size(); i++) {
      if (own[i].op() != Op::Range) continue;
      const auto loop = loops_.find(coords[i].node());
      if (loop == loops_.end() || loop->second.depth != depth || (reader && loop->second.value != reader))
        break;
      reader = loop->second.value;
      depth++;
    }
    return {reader ? around_.at(reader).kernel : nullptr, depth};
  }

  RangePlan& plan_;
  std::unordered_map<const Node*, Loop> loops_;
  // Of Ranges of reductions, and of views with ranges of their own.
  std::unordered_map<const Node*, const Node*> reader_of_;
  std::unordered_map<const Node*, Surroundings> around_;  // of kept values
};

}  // namespace

RangePlan assign_ranges(std::span<const UOp> roots) {
  RangePlan plan = Assigner(roots).run();
  LoopSharing(plan).run();
  return plan;
}

}  // namespace lathe
