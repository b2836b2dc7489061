#include "codegen/lower_reduce.h"

#include "codegen/actions.h"
#include "codegen/expand.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

UOp identity(Op op, DType d) {
  switch (op) {
    case Op::Mul: return constant(d, Scalar(1));
    case Op::Max: return constant(d, min_value(d));
    default: return constant(d, Scalar(0));
  }
}

std::vector<UOp> of_type(std::span<const UOp> ranges, AxisType t) {
  std::vector<UOp> out;
  for (const UOp& r : ranges)
    if (r.range().type == t) out.push_back(r);
  return out;
}

UOp after(const UOp& x, std::span<const UOp> deps) {
  if (deps.empty()) return x;
  SmallVec<UOp, 8> srcs{x};
  for (const UOp& d : deps) srcs.push_back(d);
  return UOp::make(Op::After, x.dtype(), {srcs.data(), srcs.size()});
}

UOp address(const UOp& acc, int64_t lanes) {
  if (lanes == 1) return index(acc, constant(0));
  const UOp zero = constant(0), n = constant(Scalar(lanes));
  return UOp::make(Op::Shrink, {acc, stack({&zero, 1}), stack({&n, 1})});
}

// Folds the lanes of a vector pairwise: halves while even, then lane by lane.
UOp fold_lanes(Op op, UOp v, int64_t lanes) {
  auto pick = [&](int64_t first, int64_t n) {
    std::vector<UOp> at;
    for (int64_t i = 0; i < n; i++) at.push_back(constant(Scalar(first + i)));
    return n == 1 ? index(v, at[0]) : index(v, stack(at));
  };
  while (lanes > 1 && lanes % 2 == 0) {
    v = alu(op, {pick(0, lanes / 2), pick(lanes / 2, lanes / 2)});
    lanes /= 2;
  }
  if (lanes == 1) return v;
  UOp out = pick(0, 1);
  for (int64_t i = 1; i < lanes; i++) out = alu(op, {out, pick(i, 1)});
  return out;
}

class ReduceLowering {
 public:
  UOp run(UOp body) {
    next_id_ = next_range_id(body);
    for (;;) {
      const std::vector<UOp> reduces = outermost_reduces(body);
      if (reduces.empty()) return body;
      body = substitute(body, lower(reduces));
    }
  }

 private:
  // Members share loops, outer ranges and vector shape.
  struct Group {
    std::vector<UOp> members;
  };

  // From the outside in: unrolled steps of an outer reduction then hold copies of an inner Reduce, which
  // share one loop.
  static std::vector<UOp> outermost_reduces(const UOp& body) {
    std::vector<UOp> out;
    std::unordered_set<const Node*> below;  // nodes under a Reduce
    const std::vector<UOp> order = toposort(body);
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
      Group& g = groups[{loops, r.ranges()}];
      if (g.members.empty()) order.push_back(&g);
      g.members.push_back(r);
    }
    std::vector<std::pair<UOp, UOp>> map;
    for (Group* g : order) lower_group(*g, map);
    return map;
  }

  void lower_group(const Group& g, std::vector<std::pair<UOp, UOp>>& map) {
    const auto ranges = g.members[0].srcs().subspan(1);
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
    for (const UOp& m : g.members) {
      const UOp value = fresh.empty() ? m.src(0) : change_ranges(m.src(0), fresh);
      accs.push_back(accumulate(m, value, loops, unrolls, steps));
    }
    if (steps.empty()) {
      for (size_t i = 0; i < accs.size(); i++) map.emplace_back(g.members[i], accs[i].value);
      return;
    }
    UOp done = steps.size() == 1 ? steps[0] : UOp::make(Op::Group, DType::Void, steps);
    if (!loops.empty()) {
      SmallVec<UOp, 4> srcs{done};
      for (const UOp& r : loops) srcs.push_back(r);
      done = UOp::make(Op::End, DType::Void, {srcs.data(), srcs.size()});
    }
    for (size_t i = 0; i < accs.size(); i++) {
      UOp v = load(address(after(accs[i].buffer, {&done, 1}), accs[i].lanes));
      if (accs[i].fold) v = fold_lanes(g.members[i].arg_as<ReduceArg>().op, v, accs[i].lanes);
      map.emplace_back(g.members[i], v);
    }
  }

  struct Accumulator {
    UOp buffer;
    int64_t lanes = 1;
    bool fold = false;  // the lanes are part of this reduction
    UOp value;          // the result, where no loop and no memory is needed
  };

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
    acc.buffer = UOp::make(Op::Buffer, {shape_node({SInt(acc.lanes)})}, register_arg(m.dtype()));
    UOp running;
    std::vector<UOp> deps;
    if (!loops.empty()) {
      const UOp init = store(address(after(acc.buffer, outer), acc.lanes), identity(op, m.dtype()));
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

  ParamPtr register_arg(DType d) {
    auto p = std::make_shared<ParamArg>();
    p->slot = next_register_++;
    p->dtype = d;
    p->space = AddrSpace::Reg;
    return p;
  }

  std::unordered_set<UOp> opened_;
  int next_id_ = 0;
  int next_register_ = 0;
};

}  // namespace

UOp lower_reduces(const UOp& body) { return ReduceLowering().run(body); }

}  // namespace lathe
