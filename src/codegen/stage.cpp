#include "codegen/stage.h"

#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "uop/comparison.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {
namespace {

bool is_outer(AxisType t) { return t == AxisType::Loop || t == AxisType::Thread || t == AxisType::Global; }

// Inner ranges of the load, the vector axis last so that its lanes are neighbours in scratch.
std::vector<UOp> inner_ranges(const UOp& load) {
  std::vector<UOp> out, vectors;
  for (const Node* r : load.ranges()) {
    const AxisType t = std::get<RangeArg>(r->arg).type;
    if (!is_outer(t)) (t == AxisType::Vector ? vectors : out).emplace_back(r);
  }
  out.insert(out.end(), vectors.begin(), vectors.end());
  return out;
}

// Axes that are copies side by side stay that in the loops that fill scratch.
AxisType copy_type(const UOp& r) {
  const AxisType t = r.range().type;
  return t == AxisType::Vector || t == AxisType::Upcast ? t : AxisType::Loop;
}

int64_t size_of(const UOp& r) { return r.src(0).value().as_i64(); }

UOp position_in(const std::vector<UOp>& ranges) {
  UOp at;
  int64_t stride = 1;
  for (size_t k = ranges.size(); k-- > 0;) {
    const UOp term = ranges[k] * stride;
    at = at ? term + at : term;
    stride *= size_of(ranges[k]);
  }
  return at;
}

}  // namespace

// The largest expression that is computed of the load for its steps alone: what is packed is what is used.
// Wider types take more room and come last.
static UOp staged_value(const UOp& body, const UOp& load) {
  std::unordered_map<const Node*, UOp> user;  // null where there are several
  for (const UOp& u : toposort(body))
    for (const UOp& s : u.srcs()) {
      const auto [it, fresh] = user.emplace(s.node(), u);
      if (!fresh && !(it->second == u)) it->second = UOp();
    }
  UOp value = load, best = load;
  for (;;) {
    const UOp above = user.at(value.node());
    if (!above || !(is_alu(above.op()) || above.op() == Op::Cast) || !(above.ranges() == load.ranges())) break;
    const bool widens = above.op() == Op::Cast && item_size(above.dtype()) > item_size(above.src(0).dtype());
    value = above;
    if (!widens) best = value;
  }
  return best;
}

std::vector<UOp> stageable_loads(const UOp& body) {
  std::vector<UOp> out;
  for (const UOp& u : toposort(body)) {
    if (u.op() != Op::Load || u.src(0).op() != Op::Index || u.src(0).src(0).op() != Op::Param) continue;
    if (u.n_srcs() == 1) out.push_back(u);
  }
  return out;
}

StagePlan plan_stage(const UOp& body, const UOp& load) {
  const std::vector<UOp> inner = inner_ranges(load);
  if (inner.empty()) return {};
  StagePlan plan{item_size(staged_value(body, load).dtype()), 1};
  for (const UOp& r : inner) {
    if (!r.src(0).is_const()) return {};
    plan.bytes *= size_of(r);
  }
  for (const UOp& r : kernel_axes(body)) {
    if (!is_open(load, r) && is_outer(r.range().type)) plan.uses *= r.bounds().hi.as_double() + 1;
  }
  return plan;
}

UOp stage_load(const UOp& body, int access) {
  const std::vector<UOp> loads = stageable_loads(body);
  if (access < 0 || static_cast<size_t>(access) >= loads.size())
    user_runtime_error("Stage({}, 0): no such load", access);
  const UOp& load = loads[static_cast<size_t>(access)];
  const StagePlan plan = plan_stage(body, load);
  if (!plan.bytes) user_runtime_error("Stage({}, 0): the load does not move inside the outer loops", access);
  const std::vector<UOp> inner = inner_ranges(load);
  const UOp value = staged_value(body, load);
  int next = next_range_id(body);
  std::vector<UOp> copied;
  std::vector<RangeChange> changes;
  for (const UOp& r : inner) {
    copied.push_back(range(size_of(r), next++, copy_type(r)));
    changes.push_back({r, copied.back(), {copied.back()}});
  }
  // The slot is unique in the body: range ids only grow.
  const UOp scratch = scratch_buffer(next, value.dtype(), plan.bytes / item_size(value.dtype()), "stage");
  const UOp copy = store(index(scratch, position_in(copied)), change_ranges(value, changes));
  // What a gate depends on is looked at outside of the other loops.
  const UOp at = change_ranges(load.src(0), changes).src(1);
  std::stable_partition(copied.begin(), copied.end(), [&](const UOp& r) {
    return r.range().type == AxisType::Loop && is_gated(at) && is_open(at.src(0), r);
  });
  const UOp filled = close_loops(copy, copied);
  return substitute(body, {{value, lathe::load(index(after(scratch, {&filled, 1}), position_in(inner)))}});
}

// The same loops once more.
struct Again {
  std::vector<UOp> loops;
  std::vector<RangeChange> changes;
};
static Again again(const std::vector<UOp>& loops, int& next) {
  Again out;
  for (const UOp& r : loops) {
    out.loops.push_back(range(r.src(0), next++, r.range().type));
    out.changes.push_back({r, out.loops.back(), {out.loops.back()}});
  }
  return out;
}

UOp block_reduce(const UOp& body, const UOp& r, int64_t amount) {
  std::vector<UOp> reduces;
  for (const UOp& u : toposort(body))
    if (u.op() == Op::Reduce && std::ranges::find(u.srcs(), r) != u.srcs().end()) reduces.push_back(u);
  UOp innermost;
  for (const UOp& axis : kernel_axes(body))
    if (axis.range().type == AxisType::Loop &&
        std::ranges::all_of(reduces, [&](const UOp& u) { return is_open(u, axis); }))
      innermost = axis;
  if (!innermost) user_runtime_error("Block: no output loop is inside the reduction's result");
  int next = next_range_id(body);
  const UOp outer = range(size_of(r) / amount, next++, AxisType::Loop);
  const UOp inner = range(amount, next++, AxisType::Reduce);
  std::vector<std::pair<UOp, UOp>> map;
  for (const UOp& u : reduces) {
    std::vector<UOp> tile{innermost};
    for (const UOp& q : inner_ranges(u)) tile.push_back(q);
    int64_t n = 1;
    for (const UOp& q : tile) n *= size_of(q);
    const Again start = again(tile, next), step = again(tile, next);
    const Op op = u.arg_as<ReduceArg>().op;
    const UOp scratch = scratch_buffer(next++, u.dtype(), n, "block");
    const UOp neutral = constant(u.dtype(), neutral_element(op, u.dtype()));
    std::vector<UOp> around;  // each step of these loops begins anew
    for (const Node* q : u.ranges())
      if (std::ranges::find(tile, q, &UOp::node) == tile.end()) around.emplace_back(q);
    const UOp fresh = index(after(scratch, around), position_in(start.loops));
    const UOp begun = close_loops(store(fresh, neutral), start.loops);
    std::vector<RangeChange> changes = step.changes;
    changes.push_back({r, outer * amount + inner, {inner}});
    const UOp part = change_ranges(u, changes);
    const UOp deps[] = {begun, outer};
    const UOp place = index(after(scratch, deps), position_in(step.loops));
    std::vector<UOp> loops = step.loops;
    loops.insert(loops.begin(), outer);
    const UOp added = close_loops(store(place, alu(op, {load(place), part})), loops);
    map.emplace_back(u, load(index(after(scratch, {&added, 1}), position_in(tile))));
  }
  return substitute(body, map);
}

}  // namespace lathe
