#include "codegen/expand.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {

UOp at_values(const UOp& u, std::span<const UOp> ranges, std::span<const int64_t> values) {
  if (ranges.empty()) return u;
  std::unordered_map<const Node*, UOp> done;
  for (size_t i = 0; i < ranges.size(); i++) done.emplace(ranges[i].node(), constant(Scalar(values[i])));
  auto depends = [&](const UOp& n) {
    if (done.contains(n.node())) return false;
    for (const Node* r : n.ranges())
      for (const UOp& q : ranges)
        if (r == q.node()) return true;
    return false;
  };
  SmallVec<UOp, 8> srcs;
  for (const UOp& n : toposort(u, depends)) {
    srcs.clear();
    for (const UOp& s : n.srcs()) {
      const auto it = done.find(s.node());
      srcs.push_back(it == done.end() ? s : it->second);
    }
    done.emplace(n.node(), n.with_srcs({srcs.data(), srcs.size()}));
  }
  const auto it = done.find(u.node());
  return it == done.end() ? u : it->second;
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
    UOp group = UOp::make(Op::Group, DType::Void, copies);
    if (!rest.empty()) {
      rest.insert(rest.begin(), group);
      group = UOp::make(Op::End, DType::Void, rest);
    }
    map.emplace_back(e, group);
  }
  return map.empty() ? body : substitute(body, map);
}

}  // namespace lathe
