#include "schedule/chain_fusion.h"
#include "schedule/passes.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <algorithm>

namespace lathe {
namespace {

// A buffer at a point of the assignment order, as a node that expressions can index.
struct State {
  UOp buffer;
  int version = 0;
  UOp node;  // the Buffer itself for version 0, else After(buffer, Noop "version")
};

// A kept value with few inputs is cheaper to compute again than to store and load.
constexpr size_t kMaxInlinedBuffers = 3;

// A CPU has few threads, a GPU one for every output.
bool has_few_threads(const std::string& device) {
  return device.starts_with("CPU") || device.starts_with("NULL") || device.starts_with("INTERP");
}

// Values that a reduction to one value may fold to be computed in each of its readers, by each thread of
// them.
int64_t longest_repeated_reduction(const std::string& device) { return has_few_threads(device) ? 4096 : 32; }

// Loops that a kernel with reductions inside of them is split over, and the work that needs no split.
constexpr double kMinSharedLoops = 32;
constexpr double kMaxUnsplitWork = 1 << 15;

class Builder {
 public:
  explicit Builder(RangePlan plan) : plan_(std::move(plan)) {
    for (const UOp& u : plan_.order)
      if (u.op() == Op::After) assigned_.insert(strip_states(u).node());
  }

  Draft run() {
    for (const UOp& u : plan_.order) build(u);
    fusion_.settle(draft_.kernels);
    return std::move(draft_);
  }

 private:
  struct Value {
    UOp expr;                      // at the node's own ranges; empty when the value lives in a buffer
    std::vector<UOp> loop_ranges;  // what expr is a function of, where the node is kept
    bool inlined = false;          // kept by the plan, but recomputed in each reader
    State state;                   // where it lives, when it does
  };

  void build(const UOp& u) {
    switch (u.op()) {
      case Op::Sink: return;
      case Op::Buffer:
      case Op::Param:
        if (is_buffer(u))
          values_[u.node()].state = {u, 0, u};
        else
          values_[u.node()].expr = u;
        return;
      case Op::After: return build_after(u);
      case Op::Store: return;  // built by its After, once the state it follows is known
      case Op::Call: return build_call(u);
      default: break;
    }
    const ValueRanges& at = plan_.ranges.at(u.node());
    Value& v = values_[u.node()];
    v.expr = expression_of(u, at);
    v.inlined = at.repeats;
    if (!at.kept) return;
    v.expr = clean(v.expr);
    for (const UOp& c : at.out)
      if (c.op() == Op::Range) v.loop_ranges.push_back(c);
    const bool is_dear_here = !u.device().empty() && is_dear(v, at.rereads);  // else there is no place for it
    if (at.removable && !is_dear_here && cheap(v, at.shared_loops, u.device())) {
      v.inlined = true;
      return;
    }
    keep(u, at, v);
  }

  // Closed forms and merged reductions show what the value really reads, which decides whether it is kept.
  static UOp clean(const UOp& e) { return graph_rewrite(e, reduce_rules(), {.name = "clean"}); }

  // Value of source `i` of `u`, at the coordinates `u` asks for.
  UOp operand(const UOp& u, const ValueRanges& at, size_t i) {
    const UOp& s = u.src(i);
    return read(s, source_coords(u, at, i));
  }

  UOp read(const UOp& s, const Coords& coords) {
    if (s.op() == Op::Const) return s;
    if (s.op() == Op::Stage) return closed_form(s, coords);
    const Value& v = values_.at(s.node());
    if (v.state.buffer) return load(element(v.state.node, coords));
    if (!v.inlined) return v.expr;
    return at_coords(v.expr, plan_.ranges.at(s.node()).out, coords);
  }

  static UOp closed_form(const UOp& stage, const Coords& coords) {
    return at_coords(stage.src(0), Coords(stage.srcs().begin() + 1, stage.srcs().end()), coords);
  }

  UOp expression_of(const UOp& u, const ValueRanges& at) {
    switch (u.op()) {
      case Op::Const: return u;
      case Op::Stage: return closed_form(u, at.out);
      case Op::Pad: {
        const UOp inner = operand(u, at, 0);
        const UOp ok = pad_condition(u, at.out);
        return ok ? where(ok, inner, constant(u.dtype(), Scalar(0))) : inner;
      }
      case Op::Stack: return select_lane(u, at);
      case Op::Reduce: {
        SmallVec<UOp, 6> srcs{operand(u, at, 0)};
        for (const UOp& r : at.reduce)
          if (r.op() == Op::Range) srcs.push_back(r);
        return UOp::make(Op::Reduce, u.dtype(), {srcs.data(), srcs.size()},
                         ReduceArg{u.arg_as<ReduceArg>().op, 0});
      }
      case Op::Contiguous: return operand(u, at, 0);
      default: break;
    }
    if (is_movement(u.op())) return operand(u, at, 0);
    SmallVec<UOp, 3> srcs;
    for (size_t i = 0; i < u.n_srcs(); i++) srcs.push_back(operand(u, at, i));
    return UOp::make(u.op(), u.dtype(), {srcs.data(), srcs.size()}, u.arg());
  }

  // Stack as a chain of selects on its leading coordinate.
  UOp select_lane(const UOp& u, const ValueRanges& at) {
    const UOp lane = split_gate(at.out[0]).index;
    if (lane.is_const()) return operand(u, at, static_cast<size_t>(lane.value().as_i64()));
    UOp out = operand(u, at, u.n_srcs() - 1);
    for (size_t i = u.n_srcs() - 1; i-- > 0;)
      out = where(lt(lane, static_cast<int64_t>(i + 1)), operand(u, at, i), out);
    return out;
  }

  // True when a reduction would compute the value for so many of its outputs that reading it is faster.
  static bool is_dear(const Value& v, int64_t rereads) {
    constexpr int64_t kMinRereads = 16, kMinWork = 1 << 16, kCheapOperations = 4;
    double work = static_cast<double>(rereads);
    for (const UOp& r : v.loop_ranges) work *= static_cast<double>(SInt(r.src(0)).vmax());
    if (rereads < kMinRereads || work < static_cast<double>(kMinWork)) return false;
    int64_t operations = 0;
    for (const UOp& u : toposort(v.expr)) {
      if (u.op() == Op::Reduce || has_flag(u.op(), kTranscendental)) return true;
      operations += is_alu(u.op()) && is_float(u.dtype());
    }
    return operations > kCheapOperations;
  }

  // True when computing the value in its readers is better than keeping it: few inputs, unless the one reader
  // does it once, and no reduction over memory, except those that no loop has to repeat and short ones.
  bool cheap(const Value& v, size_t shared, const std::string& device) const {
    const std::span<const UOp> loops = v.loop_ranges;
    const int64_t most = loops.empty() ? longest_repeated_reduction(device) : 0;
    const auto may_move = [&](const UOp& reduce) {
      return steps_of(reduce, most) <= most ||
             (has_few_threads(device) && streams(reduce, loops.first(shared)) && !reads_assigned(reduce));
    };
    std::unordered_set<const Node*> buffers;
    std::unordered_set<const Node*> reducing;  // nodes below some Reduce that has to stay
    const NodeList order = toposort(v.expr);
    for (size_t k = order.size(); k-- > 0;) {
      const UOp& u = order[k];
      const bool inside = reducing.contains(u.node()) || (u.op() == Op::Reduce && !may_move(u));
      if (is_buffer(u)) {
        if (inside) return false;
        buffers.insert(u.node());
      }
      if (inside)
        for (const UOp& s : u.srcs()) reducing.insert(s.node());
    }
    return buffers.size() <= kMaxInlinedBuffers || (shared && shared == loops.size());
  }

  // True when a reduction may run inside of `loops`, the first ones of a kernel: nothing repeats it there,
  // each of its steps takes new elements of some memory, so that tiles over several loops (a matmul's) would
  // save nothing, and threads find enough of the loops.
  static bool streams(const UOp& reduce, std::span<const UOp> loops) {
    const auto among = [](std::span<const UOp> some, const Node* r) {
      return std::ranges::any_of(some, [&](const UOp& u) { return u.node() == r; });
    };
    if (!std::ranges::all_of(reduce.ranges(), [&](const Node* r) { return among(loops, r); })) return false;
    const RangeSet& all = reduce.src(0).ranges();
    double steps = 1, work = 1;
    for (const UOp& r : loops) steps *= static_cast<double>(SInt(r.src(0)).vmax());
    for (const Node* r : all) work *= static_cast<double>(SInt(UOp(r).src(0)).vmax());
    if (loops.empty() || (steps < kMinSharedLoops && work > kMaxUnsplitWork)) return false;
    return std::ranges::any_of(toposort(reduce.src(0)), [&](const UOp& u) {
      const RangeSet& own = u.ranges();
      return u.op() == Op::Load &&
             std::ranges::all_of(all, [&](const Node* r) { return std::ranges::find(own, r) != own.end(); });
    });
  }

  // A kernel that reads memory before and after an assignment would have no place in the order.
  bool reads_assigned(const UOp& u) const {
    return std::ranges::any_of(toposort(u), [&](const UOp& b) { return assigned_.contains(b.node()); });
  }

  // Values folded by a Reduce, nested ones included; anything above `most` when there are more.
  static int64_t steps_of(const UOp& reduce, int64_t most) {
    int64_t steps = 1;
    for (const UOp& u : toposort(reduce.src(0)))
      if (u.op() == Op::Reduce) return most + 1;
    for (const UOp& r : reduce.srcs().subspan(1)) {
      const int64_t size = SInt(r.src(0)).vmax();
      if (size > most || steps > most / std::max<int64_t>(size, 1)) return most + 1;
      steps *= size;
    }
    return steps;
  }

  // Gives the value a buffer and the kernel that fills it.
  void keep(const UOp& u, const ValueRanges& at, Value& v) {
    if (is_weak(u.dtype())) user_runtime_error("cannot realize a weak dtype; cast to a concrete dtype first");
    const UOp value = within_limit(v.expr, u.device());
    const UOp memory = new_memory(u.shape(), u.dtype(), u.device()), buffer = strip_views(memory);
    const UOp expr = std::exchange(v.expr, UOp());
    v.state = {buffer, 0, buffer};
    emit(store(element(buffer, at.out), value), v.loop_ranges, v.state);
    if (at.removable && has_few_threads(u.device()) && !reads_assigned(expr))
      fusion_.remember(buffer, at.out, expr, draft_.kernels.size() - 1);
    draft_.memory.emplace(u.node(), memory);
  }

  // One buffer of a kernel is the written one.
  UOp within_limit(const UOp& value, const std::string& device) {
    return limit_buffers(value, max_kernel_buffers(device) - 1,
                         [&](const UOp& part, const std::vector<UOp>& loops, const Shape& shape) {
                           const UOp buffer = strip_views(new_memory(shape, part.dtype(), device));
                           emit(store(element(buffer, loops), part), loops, {buffer, 0, buffer});
                           return buffer;
                         });
  }

  void build_after(const UOp& u) {
    State state = state_of(u.src(0));
    for (size_t i = 1; i < u.n_srcs(); i++) {
      const UOp& s = u.src(i);
      if (s.op() != Op::Store) {
        state = s.op() == Op::Call ? state_after(s, state) : waiting(state, s);
        continue;
      }
      const ValueRanges& at = plan_.ranges.at(s.node());
      const UOp target = address(s.src(0), at.out, state);
      UOp value = clean(read(s.src(1), operand_coords(at.out, s.src(1).shape())));
      if (is_weak(value.dtype())) value = cast(value, s.src(0).dtype());
      std::vector<UOp> loops;
      for (const UOp& c : at.out)
        if (c.op() == Op::Range) loops.push_back(c);
      value = within_limit(without_hazard(value, target, state, at, s, loops), state.buffer.device());
      const State next = next_of(state);
      emit(store(target, value), loops, next);
      state = next;
    }
    values_[u.node()].state = state;
    draft_.memory.emplace(u.node(), state.buffer);
  }

  static State next_of(const State& s) {
    const UOp version = UOp::make(Op::Noop, DType::Void, {}, TextArg(std::to_string(s.version + 1)));
    return {s.buffer, s.version + 1, UOp::make(Op::After, {s.buffer, version})};
  }

  // The same state, for readers that come after `value` is in memory.
  State waiting(const State& state, const UOp& value) {
    if (strip_views(value).is_const()) return state;
    const UOp version = UOp::make(Op::Noop, DType::Void, {}, TextArg(std::to_string(state.version)));
    return {state.buffer, state.version, UOp::make(Op::After, {state.buffer, version, state_of(value).node})};
  }

  State state_after(const UOp& call, const State& before) const {
    for (const State& s : written_by_.at(call.node()))
      if (s.buffer == before.buffer) return s;
    return before;
  }

  // The kernel, or the kernels of a function, over the memory of the arguments.
  void build_call(const UOp& u) {
    const auto& arg = *u.arg_as<CallPtr>();
    const auto n_written = static_cast<size_t>(arg.n_written);
    std::vector<UOp> buffers;
    DraftKernel draft;
    for (const UOp& s : u.srcs().subspan(1)) {
      const State state = state_of(s);
      buffers.push_back(state.buffer);
      draft.reads.push_back({state.buffer, state.version});
      if (buffers.size() > n_written) continue;
      const State next = next_of(state);
      draft.writes.push_back({next.buffer, next.version});
      written_by_[u.node()].push_back(next);
    }
    const UOp& body = u.src(0);
    if (std::holds_alternative<KernelPtr>(body.arg())) {
      draft.kernels.push_back({body, buffers, buffers[0].device(), n_written});
    } else {
      std::ranges::rotate(buffers, buffers.begin() + arg.n_written);  // a function's results are its last
      std::unordered_map<UOp, UOp> own;
      for (ScheduledKernel k : function_schedule(body).kernels) {
        for (UOp& b : k.buffers) {
          if (b.op() == Op::Param) {
            b = buffers[static_cast<size_t>(b.param().slot)];
            continue;
          }
          UOp& mine = own[b];
          if (!mine) mine = new_buffer(b.shape(), b.dtype(), b.device());
          b = mine;
        }
        draft.kernels.push_back(std::move(k));
      }
    }
    draft_.kernels.push_back(std::move(draft));
  }

  State state_of(const UOp& u) {
    const UOp base = strip_views(u);
    const auto it = values_.find(base.node());
    CHECK(it != values_.end() && it->second.state.buffer, "assignment to a {}: only memory can be written",
          base.op());
    return it->second.state;
  }

  // Address of element `out` of a view of the buffer.
  static UOp address(const UOp& view, Coords out, const State& state) {
    UOp u = view;
    while (is_movement(u.op())) {
      CHECK(u.op() != Op::Expand && u.op() != Op::Pad, "cannot write through {}", u.op());
      out = movement_coords(u, out);
      u = u.src(0);
    }
    return element(state.buffer, out);
  }

  // When the value reads elements of the written buffer that another iteration writes, it is computed before
  // anything is overwritten.
  UOp without_hazard(const UOp& value, const UOp& target, const State& state, const ValueRanges& at,
                     const UOp& s, const std::vector<UOp>& loops) {
    bool hazard = false;
    for (const UOp& u : toposort(value))
      if (u.op() == Op::Index && shows(u.src(0), state)) hazard = hazard || may_meet(u, target);
    if (!hazard) return value;
    const UOp copy = strip_views(new_memory(s.src(0).shape(), value.dtype(), state.buffer.device()));
    emit(store(element(copy, at.out), within_limit(value, copy.device())), loops, {copy, 0, copy});
    return load(element(copy, at.out));
  }

  // Also where it waits for other values.
  static bool shows(const UOp& node, const State& state) {
    if (node.op() != Op::After) return node == state.buffer && state.version == 0;
    return node.src(0) == state.buffer &&
           *node.src(1).arg_as<TextArg>().text == std::to_string(state.version);
  }

  // Whether some iteration may read what another one writes: not when both are the same element, nor when
  // they keep apart on some axis.
  static bool may_meet(const UOp& read, const UOp& write) {
    bool same = true;
    for (size_t i = 1; i < read.n_srcs(); i++) {
      const UOp from = split_gate(read.src(i)).index;
      const UOp& to = write.src(i);
      const Bounds &r = from.bounds(), &w = to.bounds();
      if (r.hi.less(w.lo) || w.hi.less(r.lo)) return false;
      same = same && from == to;
    }
    return !same;
  }

  void emit(const UOp& effect, const std::vector<UOp>& loops, const State& written) {
    draft_.kernels.push_back(make_kernel(effect, loops, {written.buffer, written.version}));
    fusion_.consider(effect, loops, {written.buffer, written.version}, draft_.kernels.size() - 1);
  }

  RangePlan plan_;
  std::unordered_set<const Node*> assigned_;  // memory that is written
  std::unordered_map<const Node*, Value> values_;
  std::unordered_map<const Node*, std::vector<State>> written_by_;  // of each Call
  Draft draft_;
  ChainFusion fusion_;
};

}  // namespace

Draft build_kernels(RangePlan plan) { return Builder(std::move(plan)).run(); }

}  // namespace lathe
