#include "schedule/order.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace lathe {

std::vector<ScheduledKernel> order_kernels(std::vector<DraftKernel> kernels) {
  using Key = std::pair<const Node*, int>;
  const size_t n = kernels.size();
  std::map<Key, size_t> writer;
  for (size_t k = 0; k < n; k++)
    for (const auto& w : kernels[k].writes) writer.emplace(Key{w.buffer.node(), w.state}, k);
  std::vector<std::vector<size_t>> next(n);
  std::vector<size_t> waits(n, 0);
  auto before = [&](size_t a, size_t b) {
    if (a == b) return;
    next[a].push_back(b);
    waits[b]++;
  };
  for (size_t k = 0; k < n; k++) {
    for (const auto& r : kernels[k].reads) {
      if (const auto w = writer.find({r.buffer.node(), r.state}); w != writer.end()) before(w->second, k);
      if (const auto w = writer.find({r.buffer.node(), r.state + 1}); w != writer.end()) before(k, w->second);
    }
    for (const auto& w : kernels[k].writes)
      if (const auto p = writer.find({w.buffer.node(), w.state - 1}); p != writer.end()) before(p->second, k);
  }
  std::set<size_t> ready;  // lowest position first keeps the given order where there is a choice
  for (size_t k = 0; k < n; k++)
    if (!waits[k]) ready.insert(k);
  std::vector<ScheduledKernel> out;
  size_t n_done = 0;
  for (; !ready.empty(); n_done++) {
    const size_t k = *ready.begin();
    ready.erase(ready.begin());
    std::ranges::move(kernels[k].kernels, std::back_inserter(out));
    for (size_t b : next[k])
      if (--waits[b] == 0) ready.insert(b);
  }
  if (n_done != n) user_runtime_error("cycle detected in assign graph");
  return out;
}

}  // namespace lathe
