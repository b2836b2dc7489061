#include "codegen/accesses.h"
#include "codegen/actions.h"
#include "codegen/passes.h"

#include <algorithm>

namespace lathe {
namespace {

size_t count_divisions(const UOp& body) {
  size_t n = 0;
  for (const UOp& u : toposort(body)) n += u.op() == Op::FloorDiv || u.op() == Op::FloorMod;
  return n;
}

}  // namespace

UOp merge_ranges(const UOp& start) {
  UOp body = start;
  const size_t divisions = count_divisions(body);
  for (bool again = true; again;) {
    again = false;
    const std::vector<UOp> axes = kernel_axes(body);
    const std::vector<KernelAccess> accesses = kernel_accesses(body);
    for (size_t i = 0; i + 1 < axes.size() && !again; i++) {
      const UOp &r0 = axes[i], &r1 = axes[i + 1];
      if (r0.range().type != r1.range().type || !r0.src(0).is_const() || !r1.src(0).is_const()) continue;
      if (!step_as_one(accesses, r0, r1) || !always_adjacent(body, r0, r1)) continue;
      const UOp next = apply_action(body, {ActionKind::Merge, static_cast<int32_t>(i), 0});
      if (count_divisions(next) > divisions) continue;
      body = next;
      again = true;
    }
  }
  return body;
}

}  // namespace lathe
