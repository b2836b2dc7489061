#include "base/function_ref.h"
#include "schedule/memory_plan.h"
#include "schedule/passes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>

namespace lathe {
namespace {

// Memory that the kernels make themselves. Inputs and results do not count: no order gives it back.
class Uses {
 public:
  explicit Uses(const std::vector<DraftKernel>& kernels) : of_kernel_(kernels.size()) {
    for (const DraftKernel& k : kernels)
      for (const auto& w : k.writes)
        if (w.state == 0) uses_[w.buffer.node()].bytes = static_cast<int64_t>(storage_bytes(w.buffer));
    for (size_t k = 0; k < kernels.size(); k++)
      for (const ScheduledKernel& s : kernels[k].kernels)
        for (const UOp& b : s.buffers)
          if (const auto it = uses_.find(b.node());
              it != uses_.end() && of_kernel_[k].insert(&it->second).second)
            it->second.kernels.insert(k);
  }
  // Running the kernel gives more memory back than it takes.
  bool frees(size_t k) const {
    int64_t growth = 0;
    for (const Use* u : of_kernel_[k])
      growth += (u->is_made ? 0 : u->bytes) - (u->kernels.size() == 1 ? u->bytes : 0);
    return growth < 0;
  }
  // The kernel ran; calls `last` with kernels that are the only ones left for some memory.
  void done(size_t k, FunctionRef<void(size_t)> last) {
    for (Use* u : of_kernel_[k]) {
      u->is_made = true;
      u->kernels.erase(k);
      if (u->kernels.size() == 1) last(*u->kernels.begin());
    }
  }

 private:
  struct Use {
    int64_t bytes = 0;
    bool is_made = false;
    std::set<size_t> kernels;  // that did not run yet
  };
  std::unordered_map<const Node*, Use> uses_;
  std::vector<std::set<Use*>> of_kernel_;
};

}  // namespace

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
  Uses uses(kernels);
  // Lowest position first keeps the given order where there is a choice, but what gives memory back comes
  // before.
  std::set<size_t> ready, freeing;
  const auto enter = [&](size_t k) {
    ready.insert(k);
    if (uses.frees(k)) freeing.insert(k);
  };
  for (size_t k = 0; k < n; k++)
    if (!waits[k]) enter(k);
  std::vector<ScheduledKernel> out;
  size_t n_done = 0;
  for (; !ready.empty(); n_done++) {
    const size_t k = *(freeing.empty() ? ready : freeing).begin();
    ready.erase(k);
    freeing.erase(k);
    uses.done(k, [&](size_t other) {
      if (ready.count(other) && uses.frees(other)) freeing.insert(other);
    });
    std::ranges::move(kernels[k].kernels, std::back_inserter(out));
    for (size_t b : next[k])
      if (--waits[b] == 0) enter(b);
  }
  if (n_done != n) user_runtime_error("cycle detected in assign graph");
  return out;
}

}  // namespace lathe
