#include "codegen/accesses.h"

#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "uop/comparison.h"
#include "uop/linear_terms.h"

#include <algorithm>

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
  if (!is_open(a.index, r)) return 0;
  const auto sum = LinearSum::of(a.index);
  if (!sum) return {};
  int128 stride = 0;
  for (const Term& t : sum->terms) {
    if (t.base == r)
      stride = t.factor;
    else if (is_open(t.base, r))
      return {};
  }
  return static_cast<int64_t>(stride);
}

bool step_as_one(const std::vector<KernelAccess>& accesses, const UOp& r0, const UOp& r1) {
  const int64_t inner = r1.src(0).value().as_i64();
  for (const KernelAccess& a : accesses) {
    const auto s0 = stride_of(a, r0), s1 = stride_of(a, r1);
    if (!s0 || !s1 || *s0 != *s1 * inner) return false;
  }
  return true;
}

bool runs_along(const UOp& body, const UOp& r) {
  return std::ranges::all_of(kernel_accesses(body), [&](const KernelAccess& a) {
    return a.is_store || !is_open(a.index, r) || stride_of(a, r) == 1;
  });
}

std::optional<Action> divided_axis(const UOp& body, std::initializer_list<AxisType> types) {
  const std::vector<UOp> axes = kernel_axes(body);
  const std::vector<KernelAccess> accesses = kernel_accesses(body);
  for (size_t i = 0; i < axes.size(); i++) {
    const UOp& r = axes[i];
    if (std::ranges::find(types, r.range().type) == types.end() || !r.src(0).is_const()) continue;
    int64_t by = 0;
    for (const KernelAccess& a : accesses)
      for (const UOp& u : toposort(a.index))
        if (u.op() == Op::FloorMod && u.src(0) == r && u.src(1).is_const()) by = u.src(1).value().as_i64();
    if (by < 2 || by >= size_of(r) || size_of(r) % by) continue;
    return Action{ActionKind::Tile, static_cast<int32_t>(i), static_cast<int32_t>(by)};
  }
  return std::nullopt;
}

}  // namespace lathe
