// Facts that follow from (op, sources, arg): computed once, when a node is made.
#pragma once
#include "uop/uop.h"

#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lathe {

DType derive_dtype(Op op, std::span<const UOp> srcs, const Arg& arg);
// Interned, so shapes compare by address; null where the op has none. UserError when shapes do not fit.
const Shape* derive_shape(Op op, DType dtype, std::span<const UOp> srcs, const Arg& arg);
// Interned; the empty string where no source has a device.
const std::string* derive_device(Op op, std::span<const UOp> srcs, const Arg& arg);

const Shape* intern_shape(const Shape& s);

// The one object equal to `v`. It is never freed: nodes may outlive static objects.
template <class T>
const T* intern(const T& v, const Hash128& hash) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const table = new std::unordered_multimap<uint64_t, const T*>;
  std::lock_guard lock(*mutex);
  auto [begin, end] = table->equal_range(hash.lo);
  for (auto it = begin; it != end; ++it)
    if (*it->second == v) return it->second;
  return table->emplace(hash.lo, new T(v))->second;
}

// A fact that is kept on nodes and follows from that of their sources: computes it for `root`, sources first.
// `known` says of a node whether it has the fact, `needs` whether that of its sources is needed.
template <class Known, class Needs, class Compute>
void derive_upwards(const Node* root, Known known, Needs needs, Compute compute) {
  std::vector<std::pair<const Node*, uint32_t>> work;
  if (!known(root)) work.emplace_back(root, 0);
  while (!work.empty()) {
    auto& [n, next] = work.back();
    if (needs(n) && next < n->n_srcs) {
      const Node* s = n->src_begin()[next++].node();
      if (!known(s)) work.emplace_back(s, 0);
    } else {
      compute(n);
      work.pop_back();
    }
  }
}

}  // namespace lathe
