#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/rebuild.h"

namespace lathe {

UOp expand_upcasts(const UOp& body) {
  std::vector<std::pair<UOp, UOp>> map;
  for (const UOp& e : body.srcs()) {
    if (e.op() != Op::End) continue;
    std::vector<UOp> upcasts, rest;
    for (const UOp& r : e.srcs().subspan(1))
      (r.range().type == AxisType::Upcast ? upcasts : rest).push_back(r);
    if (upcasts.empty()) continue;
    std::vector<UOp> copies;
    for_each_combination(
        upcasts, [&](std::span<const int64_t> v) { copies.push_back(at_values(e.src(0), upcasts, v)); });
    map.emplace_back(e, close_loops(UOp::make(Op::Group, DType::Void, copies), rest));
  }
  return map.empty() ? body : substitute(body, map);
}

}  // namespace lathe
