// What stands for the nodes of a graph while it is rebuilt, sources first.
#pragma once
#include "uop/uop.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace lathe {

class Substitution {
 public:
  explicit Substitution(const std::vector<std::pair<UOp, UOp>>& map) {
    for (const auto& [from, to] : map) by_.emplace(from.node(), to);
  }
  bool has(const UOp& u) const { return by_.contains(u.node()); }
  // `u` itself where nothing stands for it.
  UOp operator()(const UOp& u) const {
    const auto it = by_.find(u.node());
    return it == by_.end() ? u : it->second;
  }
  // `u` over what stands for its sources.
  UOp with_sources(const UOp& u) const {
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : u.srcs()) srcs.push_back((*this)(s));
    return u.with_srcs(srcs);
  }
  void put(const UOp& u, const UOp& by) {
    if (!(u == by)) by_.emplace(u.node(), by);
  }

 private:
  std::unordered_map<const Node*, UOp> by_;  // keys live as long as the graph that is rebuilt
};

}  // namespace lathe
