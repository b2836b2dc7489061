#include "schedule/schedule.h"

#include "schedule/assign_ranges.h"
#include "schedule/build_kernels.h"
#include "schedule/order.h"
#include "schedule/prepare.h"

namespace lathe {
namespace {

// The bases of the roots and every assignment below them, each once.
std::vector<UOp> wanted_nodes(std::span<const UOp> roots) {
  std::vector<UOp> out;
  std::unordered_set<const Node*> seen;
  for (const UOp& r : roots) {
    const UOp base = strip_views(r);
    if (seen.insert(base.node()).second) out.push_back(base);
  }
  for (const UOp& u : toposort(sink(roots)))
    if (u.op() == Op::After && seen.insert(u.node()).second) out.push_back(u);
  return out;
}

bool needs_kernel(const UOp& base) {
  return base.op() != Op::Buffer && base.op() != Op::Param && base.op() != Op::Const;
}

}  // namespace

UOp strip_views(const UOp& u) {
  UOp b = u;
  while (is_movement(b.op()) || b.op() == Op::Detach) b = b.src(0);
  return b;
}

Schedule make_schedule(std::span<const UOp> roots) {
  const std::vector<UOp> wanted = wanted_nodes(roots);
  const UOp prepared = prepare(sink(wanted));
  std::vector<UOp> bases;
  for (const UOp& p : prepared.srcs()) {
    UOp base = strip_views(p);
    if (needs_kernel(base)) bases.push_back(std::move(base));
  }
  Draft draft = build_kernels(assign_ranges(bases));
  Schedule out;
  out.kernels = order_kernels(std::move(draft.kernels));
  for (size_t i = 0; i < wanted.size(); i++) {
    const UOp& p = prepared.src(i);
    const UOp base = strip_views(p);
    const auto it = draft.memory.find(base.node());
    const UOp now = it == draft.memory.end() ? p : substitute(p, {{base, it->second}});
    if (!(now == wanted[i])) out.becomes.emplace_back(wanted[i], now);
  }
  return out;
}

}  // namespace lathe
