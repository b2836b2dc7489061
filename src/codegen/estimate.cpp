#include "codegen/estimate.h"

#include "codegen/kernel_parts.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace lathe {
Estimate estimate(const UOp& body) {
  Estimate out;
  std::map<std::pair<const Node*, Op>, double> touched;
  std::unordered_set<UOp> data;  // values that depend on a Load
  for (const UOp& u : toposort(body)) {
    if (u.op() == Op::Load ||
        std::any_of(u.srcs().begin(), u.srcs().end(), [&](const UOp& s) { return data.count(s); }))
      data.insert(u);
    // Which piece an element comes from is a matter of its place, not arithmetic on it.
    if (u.op() == Op::Where && !data.count(u.src(0))) continue;
    if (u.op() == Op::Load || u.op() == Op::Store) {
      const UOp& address = u.src(0);
      if (address.op() == Op::Index && address.src(0).op() == Op::Param)
        touched[{address.src(0).node(), u.op()}] +=
            trips_of(u) * static_cast<double>(item_size(address.dtype()));
    } else if (u.op() == Op::Reduce) {
      out.flops += trips_of(u.src(0));
    } else if (is_alu(u.op()) && !is_weak(u.dtype()) && !is_bool(u.dtype())) {
      out.flops += trips_of(u) * (u.op() == Op::MulAcc ? 2 : 1);
    }
  }
  for (const auto& [key, bytes] : touched) {
    const UOp p(key.first);
    out.bytes += std::min(bytes, static_cast<double>(prod(p.shape()).vmax() * item_size(p.dtype())));
  }
  return out;
}

}  // namespace lathe
