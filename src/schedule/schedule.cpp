#include "schedule/schedule.h"

#include "base/knobs.h"
#include "schedule/passes.h"
#include "schedule/shard.h"
#include "uop/spec.h"

namespace lathe {
namespace {

// The bases of the roots, then every assignment below them, each once.
struct Wanted {
  std::vector<UOp> nodes;
  size_t n_roots = 0;
};
Wanted wanted_nodes(std::span<const UOp> roots) {
  Wanted out;
  std::unordered_set<const Node*> seen;
  for (const UOp& r : roots) {
    // A view that looks at one lane of a Stack needs only the lane, so it is wanted itself.
    const UOp base = strip_views(r);
    const UOp& wanted = base.op() == Op::Stack && !(strip_views(look_through_stacks(r)) == base) ? r : base;
    if (seen.insert(wanted.node()).second) out.nodes.push_back(wanted);
  }
  out.n_roots = out.nodes.size();
  for (const UOp& u : toposort(sink(roots)))
    if (u.op() == Op::After && u.src(1).dtype() == DType::Void && seen.insert(u.node()).second)
      out.nodes.push_back(u);
  return out;
}

bool needs_kernel(const UOp& base) {
  return base.op() != Op::Buffer && base.op() != Op::Param && base.op() != Op::Const;
}

// What neither the graph knows nor anything becomes.
std::vector<Arena> plan_inner_buffers(const Schedule& schedule, const UOp& graph) {
  std::unordered_set<const Node*> outside;
  for (const UOp& u : toposort(graph)) outside.insert(u.node());
  for (const auto& [from, to] : schedule.becomes)
    for (const UOp& u : toposort(to)) outside.insert(u.node());
  std::vector<const std::vector<UOp>*> steps;
  for (const ScheduledKernel& k : schedule.kernels) steps.push_back(&k.buffers);
  return plan_arenas(steps, [&](const UOp& b) { return b.op() == Op::Buffer && !outside.count(b.node()); });
}

}  // namespace

Schedule make_schedule(std::span<const UOp> roots) {
  const Wanted wanted = wanted_nodes(roots);
  const UOp given = sink(wanted.nodes);
  if (knob(Knob::SPEC)) verify(given, SpecLevel::Tensor, "building the graph");
  const std::vector<Shards> shards = resolve_shards(lower_calls(given).srcs());
  std::vector<UOp> parts;
  size_t n_roots = 0;
  for (size_t i = 0; i < shards.size(); i++) {
    parts.insert(parts.end(), shards[i].parts.begin(), shards[i].parts.end());
    if (i < wanted.n_roots) n_roots = parts.size();
  }
  const UOp resolved = sink(parts);
  const UOp prepared = prepare(simplify_assignments(forward_constants(resolved), n_roots));
  if (knob(Knob::SPEC)) {
    verify(resolved, SpecLevel::Tensor, "resolve_shards");
    verify(prepared, SpecLevel::Tensor, "prepare");
  }
  std::vector<UOp> bases, empty;
  for (const UOp& p : prepared.srcs()) {
    UOp base = strip_views(p);
    if (needs_kernel(base)) (is_empty(base.shape()) ? empty : bases).push_back(std::move(base));
  }
  Draft draft = build_kernels(assign_ranges(bases));
  for (const UOp& base : empty)
    draft.memory.emplace(base.node(), base.op() == Op::After
                                          ? strip_states(base)
                                          : new_memory(base.shape(), base.dtype(), base.device()));
  Schedule out;
  out.kernels = order_kernels(std::move(draft.kernels));
  if (knob(Knob::SPEC))
    for (const ScheduledKernel& k : out.kernels)
      if (!k.is_copy()) verify(k.body, SpecLevel::Kernel, "build_kernels");
  size_t at = 0;
  for (size_t i = 0; i < wanted.nodes.size(); i++) {
    std::vector<UOp> now;
    for (size_t k = 0; k < shards[i].parts.size(); k++) {
      const UOp& p = prepared.src(at++);
      const UOp base = strip_views(p);
      const auto it = draft.memory.find(base.node());
      now.push_back(it == draft.memory.end() ? p : substitute(p, {{base, it->second}}));
    }
    // A constant is the same anywhere.
    const bool is_spread = now.size() > 1 && !now[0].device().empty();
    const UOp all = is_spread ? multi(now, shards[i].axis) : now[0];
    if (!(all == wanted.nodes[i])) out.becomes.emplace_back(wanted.nodes[i], all);
  }
  out.arenas = plan_inner_buffers(out, given);
  return out;
}

}  // namespace lathe
