#include "codegen/expand.h"

#include "codegen/kernel_parts.h"
#include "codegen/rebuild.h"

namespace lathe {

UOp at_values(const UOp& u, std::span<const UOp> ranges, std::span<const int64_t> values) {
  if (ranges.empty()) return u;
  Rebuilt done;
  for (size_t i = 0; i < ranges.size(); i++) done.set(ranges[i], constant(Scalar(values[i])));
  auto depends = [&](const UOp& n) {
    if (done.contains(n)) return false;
    for (const Node* r : n.ranges())
      for (const UOp& q : ranges)
        if (r == q.node()) return true;
    return false;
  };
  for (const UOp& n : toposort(u, depends)) done.set(n, done.over_sources(n));
  return done.of(u);
}

void for_each_combination(std::span<const UOp> ranges,
                          const std::function<void(std::span<const int64_t>)>& f) {
  std::vector<int64_t> values(ranges.size(), 0);
  for (;;) {
    f(values);
    size_t k = ranges.size();
    while (k > 0 && ++values[k - 1] == ranges[k - 1].src(0).value().as_i64()) values[--k] = 0;
    if (k == 0) return;
  }
}

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
