#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"

namespace lathe {
namespace {

size_t count_divisions(const UOp& body) {
  size_t n = 0;
  for (const UOp& u : toposort(body)) n += u.op() == Op::FloorDiv || u.op() == Op::FloorMod;
  return n;
}

// `type`: of the axes, all types without. Without one, merged axes leave no more divisions than before.
UOp merged(UOp body, std::optional<AxisType> type) {
  const size_t divisions = type ? 0 : count_divisions(body);
  for (bool again = true; again;) {
    again = false;
    const std::vector<UOp> axes = kernel_axes(body);
    const std::vector<KernelAccess> accesses = kernel_accesses(body);
    for (size_t i = 0; i + 1 < axes.size() && !again; i++) {
      const UOp &r0 = axes[i], &r1 = axes[i + 1];
      const AxisType t = r0.range().type;
      if (t != r1.range().type || t != type.value_or(t)) continue;
      if (!r0.src(0).is_const() || !r1.src(0).is_const()) continue;
      if (!step_as_one(accesses, r0, r1) || !always_adjacent(body, r0, r1)) continue;
      const UOp next = apply_action(body, {ActionKind::Merge, static_cast<int32_t>(i), 0});
      if (!type && count_divisions(next) > divisions) continue;
      body = next;
      again = true;
    }
  }
  return body;
}

}  // namespace

UOp merge_ranges(const UOp& body) { return merged(body, std::nullopt); }

UOp merge_axes(const UOp& body, AxisType type) { return merged(body, type); }

}  // namespace lathe
