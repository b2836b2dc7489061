#include "codegen/accesses.h"

#include "codegen/kernel_parts.h"
#include "uop/comparison.h"

namespace lathe {

std::vector<KernelAccess> kernel_accesses(const UOp& body) {
  std::vector<KernelAccess> out;
  for (const UOp& u : toposort(body)) {
    if ((u.op() != Op::Load && u.op() != Op::Store) || u.src(0).op() != Op::Index) continue;
    UOp i = u.src(0).src(1);
    if (is_gated(i)) i = UOp(i.src(1));
    out.push_back({i, u.src(0).dtype(), u.op() == Op::Store, trips_of(u)});
  }
  return out;
}

std::optional<int64_t> stride_of(const KernelAccess& a, const UOp& r) {
  const auto linear = linear_in(a.index, r);
  return linear ? std::optional(linear->stride) : std::nullopt;
}

}  // namespace lathe
