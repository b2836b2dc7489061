#include "codegen/stage.h"

#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "uop/comparison.h"

#include <algorithm>

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

std::vector<UOp> stageable_loads(const UOp& body) {
  std::vector<UOp> out;
  for (const UOp& u : toposort(body)) {
    if (u.op() != Op::Load || u.src(0).op() != Op::Index || u.src(0).src(0).op() != Op::Param) continue;
    if (!is_gated(u.src(0).src(1)) && u.n_srcs() == 1) out.push_back(u);
  }
  return out;
}

StagePlan plan_stage(const UOp& body, const UOp& load) {
  const std::vector<UOp> inner = inner_ranges(load);
  if (inner.empty()) return {};
  StagePlan plan{item_size(load.dtype()), 1};
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
  int next = next_range_id(body);
  std::vector<UOp> copied;
  std::vector<RangeChange> changes;
  for (const UOp& r : inner) {
    const AxisType type = r.range().type == AxisType::Vector ? AxisType::Vector : AxisType::Loop;
    copied.push_back(range(size_of(r), next++, type));
    changes.push_back({r, copied.back(), {copied.back()}});
  }
  // The slot is unique in the body: range ids only grow.
  const UOp scratch = scratch_buffer(next, load.dtype(), plan.bytes / item_size(load.dtype()), "stage");
  const UOp filled =
      close_loops(store(index(scratch, position_in(copied)), change_ranges(load, changes)), copied);
  return substitute(body, {{load, lathe::load(index(after(scratch, {&filled, 1}), position_in(inner)))}});
}

}  // namespace lathe
