#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/rebuild.h"

#include <utility>

namespace lathe {

UOp expand_upcasts(const UOp& body) {
  Rebuilt done;
  return done.walk(toposort(body), [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    if (u.op() != Op::End) return v;
    std::vector<UOp> upcasts, rest;
    for (const UOp& r : v.srcs().subspan(1))
      (r.op() == Op::Range && r.range().type == AxisType::Upcast ? upcasts : rest).push_back(r);
    if (upcasts.empty()) return v;
    // What depends on the inner ones alone is held in registers meanwhile: the fewer the better.
    for (size_t i = 1; i < upcasts.size(); i++)
      for (size_t k = i; k && size_of(upcasts[k]) > size_of(upcasts[k - 1]); k--)
        std::swap(upcasts[k], upcasts[k - 1]);
    std::vector<UOp> copies;
    for_each_combination(
        upcasts, [&](std::span<const int64_t> n) { copies.push_back(at_values(v.src(0), upcasts, n)); });
    return close_loops(UOp::make(Op::Group, DType::Void, copies), rest);
  });
}

}  // namespace lathe
