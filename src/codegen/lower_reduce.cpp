#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "renderer/renderer.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace lathe {
namespace {

std::vector<UOp> of_type(std::span<const UOp> ranges, AxisType t) {
  std::vector<UOp> out;
  for (const UOp& r : ranges)
    if (r.op() == Op::Range && r.range().type == t) out.push_back(r);
  return out;
}

// Accumulators of one lane are scalars.
UOp address(const UOp& acc, int64_t lanes, const UOp& first = constant(0)) {
  return elements_from(acc, lanes == 1 ? 0 : lanes, first);
}

class ReduceLowering {
 public:
  UOp run(UOp body) {
    next_id_ = next_range_id(body);
    find_rows(body);
    for (;;) {
      const std::vector<UOp> reduces = outermost_reduces(body);
      if (reduces.empty()) return body;
      body = substitute(body, lower(reduces));
    }
  }

 private:
  // Where a reduction is computed. One in a loop of another reduction is inside all that is around that loop,
  // whether it depends on it or not.
  static RangeSet surroundings(const UOp& reduce) {
    RangeSet out = reduce.ranges();
    if (open_axis(reduce, AxisType::Reduce))
      std::erase_if(out, [](const Node* r) {
        const AxisType t = UOp(r).range().type;
        return t != AxisType::Reduce && t != AxisType::Vector;
      });
    return out;
  }

  // Members share loops, surroundings and vector shape.
  using Group = std::vector<UOp>;

  struct Accumulator {
    UOp buffer;
    int64_t lanes = 1;
    bool fold = false;  // the lanes are part of this reduction
    UOp value;          // the result; from `accumulate` only where no loop and no memory is needed
  };

  // From the outside in: unrolled steps of an outer reduction then hold copies of an inner Reduce, which
  // share one loop.
  static std::vector<UOp> outermost_reduces(const UOp& body) {
    std::vector<UOp> out;
    std::unordered_set<const Node*> below;  // nodes under a Reduce
    const NodeList order = toposort(body);
    for (size_t k = order.size(); k-- > 0;) {
      const UOp& u = order[k];
      const bool inside = below.contains(u.node());
      if (u.op() == Op::Reduce && !inside) out.push_back(u);
      if (inside || u.op() == Op::Reduce)
        for (const UOp& s : u.srcs()) below.insert(s.node());
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  std::vector<std::pair<UOp, UOp>> lower(const std::vector<UOp>& reduces) {
    std::map<std::pair<std::vector<const Node*>, RangeSet>, Group> groups;
    std::vector<Group*> order;
    for (const UOp& r : reduces) {
      std::vector<const Node*> loops;
      for (const UOp& s : r.srcs().subspan(1)) loops.push_back(s.node());
      Group& g = groups[{loops, surroundings(r)}];
      if (g.empty()) order.push_back(&g);
      g.push_back(r);
    }
    std::vector<std::pair<UOp, UOp>> map;
    for (Group* g : order) lower_group(*g, map);
    return map;
  }

  void lower_group(const Group& g, std::vector<std::pair<UOp, UOp>>& map) {
    const auto ranges = g[0].srcs().subspan(1);
    std::vector<UOp> loops = of_type(ranges, AxisType::Reduce);
    const std::vector<UOp> unrolls = of_type(ranges, AxisType::Unroll);
    // A Range can be opened once: a second group over the same loops runs over ranges of its own.
    std::vector<RangeChange> fresh;
    for (UOp& r : loops)
      if (!opened_.insert(r).second) {
        const UOp again = range(r.src(0), next_id_++, r.range().type);
        fresh.push_back({r, again, {again}});
        r = again;
      }
    std::vector<Accumulator> accs;
    std::vector<UOp> steps;
    for (const UOp& m : g) {
      const UOp value = fresh.empty() ? m.src(0) : change_ranges(m.src(0), fresh);
      accs.push_back(accumulate(m, value, loops, unrolls, steps));
    }
    if (!steps.empty()) {
      UOp done = steps.size() == 1 ? steps[0] : UOp::make(Op::Group, DType::Void, steps);
      done = close_loops(done, loops);
      for (size_t i = 0; i < accs.size(); i++) {
        UOp v = load(address(after(accs[i].buffer, {&done, 1}), accs[i].lanes));
        if (accs[i].fold) v = fold_lanes(g[i].arg_as<ReduceArg>().op, v);
        accs[i].value = v;
      }
    }
    const auto lane = std::ranges::find(ranges, Op::Special, &UOp::op);
    if (lane != ranges.end()) share(g, *lane, accs);
    for (size_t i = 0; i < accs.size(); i++) map.emplace_back(g[i], accs[i].value);
  }

  // The work items of a group in rows of those that share reductions: which row this one is in.
  void find_rows(const UOp& body) {
    row_ = constant(0);
    for (const UOp& u : toposort(body)) {
      if (u.op() != Op::Special) continue;
      const std::string& name = *u.arg_as<TextArg>().text;
      if (name != "lidx1" && name != "lidx2") continue;
      row_ = row_ * launch_extent(u) + u;
      n_rows_ *= launch_extent(u);
    }
  }

  // The value of each accumulator becomes that of all work items in the row.
  void share(const Group& g, const UOp& lane, std::vector<Accumulator>& accs) {
    const int64_t n = launch_extent(lane);
    // Inside a loop, all have to be done with what the step before left.
    std::vector<UOp> outer, stores, buffers;
    for (const Node* r : g[0].ranges())
      if (UOp(r).range().type != AxisType::Vector) outer.emplace_back(r);
    if (!outer.empty()) outer.push_back(UOp::make(Op::Barrier, DType::Void, outer));
    const auto place = [&](const UOp& buffer, int64_t lanes, const UOp& item) {
      return address(buffer, lanes, (row_ * n + item) * lanes);
    };
    for (const Accumulator& acc : accs) {
      const int64_t lanes = acc.fold ? 1 : acc.lanes;
      buffers.push_back(
          scratch_buffer(next_register_++, acc.value.dtype(), n_rows_ * n * lanes, {}, AddrSpace::Local));
      stores.push_back(store(place(after(buffers.back(), outer), lanes, lane), acc.value));
    }
    const UOp met = UOp::make(Op::Barrier, DType::Void, stores);
    for (size_t i = 0; i < accs.size(); i++) {
      const int64_t lanes = accs[i].fold ? 1 : accs[i].lanes;
      UOp all;
      for (int64_t k = 0; k < n; k++) {
        const UOp part = load(place(after(buffers[i], {&met, 1}), lanes, constant(Scalar(k))));
        all = all ? alu(g[i].arg_as<ReduceArg>().op, {all, part}) : part;
      }
      accs[i].value = all;
    }
  }

  Accumulator accumulate(const UOp& m, const UOp& value, const std::vector<UOp>& loops,
                         const std::vector<UOp>& unrolls, std::vector<UOp>& steps) {
    const Op op = m.arg_as<ReduceArg>().op;
    Accumulator acc;
    const std::vector<UOp> folded = of_type(m.srcs().subspan(1), AxisType::Vector);
    acc.fold = !folded.empty();
    CHECK(folded.size() <= 1, "a reduction with two vector axes");
    std::vector<UOp> outer;
    for (const Node* r : m.ranges()) {
      const UOp range(r);
      if (range.range().type == AxisType::Vector)
        acc.lanes = range.src(0).value().as_i64();
      else
        outer.push_back(range);
    }
    CHECK(!acc.fold || acc.lanes == 1, "a reduction over lanes inside a vector axis");
    if (acc.fold) acc.lanes = folded[0].src(0).value().as_i64();
    if (loops.empty() && !acc.fold) {  // everything is unrolled: a chain
      acc.value = chain(op, {}, value, unrolls);
      return acc;
    }
    acc.buffer = scratch_buffer(next_register_++, m.dtype(), acc.lanes);
    UOp running;
    std::vector<UOp> deps;
    if (!loops.empty()) {
      const UOp init = store(address(after(acc.buffer, outer), acc.lanes),
                             constant(m.dtype(), neutral_element(op, m.dtype())));
      deps = loops;
      deps.insert(deps.begin(), init);
    } else {
      deps = outer;
    }
    const UOp place = address(after(acc.buffer, deps), acc.lanes);
    if (!loops.empty()) running = load(place);
    steps.push_back(store(place, chain(op, running, value, unrolls)));
    return acc;
  }

  // running op value[0] op value[1] …, in the order of the unrolled iterations.
  static UOp chain(Op op, UOp running, const UOp& value, const std::vector<UOp>& unrolls) {
    for_each_combination(unrolls, [&](std::span<const int64_t> v) {
      const UOp x = at_values(value, unrolls, v);
      running = running ? alu(op, {running, x}) : x;
    });
    return running;
  }

  std::unordered_set<UOp> opened_;
  int next_id_ = 0;
  int next_register_ = 0;
  UOp row_;
  int64_t n_rows_ = 1;
};

}  // namespace

UOp lower_reduces(const UOp& body) { return ReduceLowering().run(body); }

}  // namespace lathe
