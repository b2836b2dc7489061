// Graphs made anew from their sources up.
#pragma once
#include "uop/uop.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lathe {

// What nodes have become. A node that is not in here is still itself. Nodes are known by address: the graph
// that is rebuilt must live as long.
class Rebuilt {
 public:
  Rebuilt() = default;
  explicit Rebuilt(const std::vector<std::pair<UOp, UOp>>& map) {
    for (const auto& [from, to] : map) done_.emplace(from.node(), to);
  }
  const UOp& of(const UOp& u) const {
    const auto it = done_.find(u.node());
    return it == done_.end() ? u : it->second;
  }
  // `u` over what its sources have become.
  UOp over_sources(const UOp& u) const {
    if (std::ranges::none_of(u.srcs(), [&](const UOp& s) { return contains(s); })) return u;
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : u.srcs()) srcs.push_back(of(s));
    return u.with_srcs(srcs);
  }
  void set(const UOp& u, UOp v) {
    if (!(v == u)) done_.insert_or_assign(u.node(), std::move(v));
  }
  bool contains(const UOp& u) const { return done_.contains(u.node()); }
  // What the last of `order` becomes when each node, its sources first, becomes `visit(node)`.
  template <class Visit>
  UOp walk(std::span<const UOp> order, Visit visit) {
    for (const UOp& u : order) set(u, visit(u));
    return of(order.back());
  }

 private:
  std::unordered_map<const Node*, UOp> done_;
};

}  // namespace lathe
