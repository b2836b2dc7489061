#include "engine/region.h"

#include "base/thread_pool.h"

#include <algorithm>
#include <optional>

namespace lathe {
namespace {

// Below it a kernel costs less than two threads that meet.
constexpr double kSpreadWork = 16384;

bool clash(const MemoryUse& a, const MemoryUse& b) {
  return a.memory == b.memory && (a.is_written || b.is_written) && a.begin < b.end && b.begin < a.end;
}

// Whether all that clashes with `b` clashes with `a`.
bool covers(const MemoryUse& a, const MemoryUse& b) {
  return a.memory == b.memory && a.begin <= b.begin && b.end <= a.end && (a.is_written || !b.is_written);
}

}  // namespace

int Region::least_busy() const { return static_cast<int>(std::ranges::min_element(busy_) - busy_.begin()); }

void Region::add(HostEntry entry, int n_cores, size_t arguments, size_t vars, double work,
                 std::span<const MemoryUse> uses) {
  if (busy_.empty()) busy_.assign(static_cast<size_t>(cpu_count()), 0);
  std::optional<int> before;  // who did what this one waits for; kEvery where that is more than one
  for (const Use& u : uses_)
    for (const MemoryUse& mine : uses)
      if (before != kEvery && clash(u.use, mine)) before = !before || *before == u.worker ? u.worker : kEvery;
  int worker = kEvery;
  bool meets = before && (n_cores > 1 || *before == kEvery);
  if (n_cores == 1 && before && !meets) worker = *before;
  if (meets) {
    n_meetings_++;
    uses_.clear();
    std::ranges::fill(busy_, 0);
  }
  if (n_cores == 1 && worker == kEvery) worker = work < kSpreadWork ? 0 : least_busy();
  if (worker != kEvery) busy_[static_cast<size_t>(worker)] += work;
  kernels_.push_back({entry, arguments, vars, n_cores, worker, meets});
  for (const MemoryUse& mine : uses) {
    // Whoever clashes with one of these clashes with this kernel, which the same thread runs.
    std::erase_if(uses_, [&](const Use& u) { return u.worker == worker && covers(mine, u.use); });
    uses_.push_back({mine, worker});
  }
}

void Region::run(void* const* arguments, const int64_t* vars) const {
  const auto run_part = [&](std::span<const Kernel> phase, int n, int me) {
    for (const Kernel& k : phase) {
      if (k.worker == kEvery)
        for (int core = me; core < k.n_cores; core += n)
          k.entry(arguments + k.arguments, vars + k.vars, core);
      else if (k.worker % n == me)
        k.entry(arguments + k.arguments, vars + k.vars, 0);
    }
  };
  ThreadPool& pool = thread_pool();
  const int limit = pool.is_inside() ? 1 : cpu_count();
  for (auto first = kernels_.begin(); first != kernels_.end();) {
    const auto end = std::find_if(first + 1, kernels_.end(), [](const Kernel& k) { return k.meets; });
    // With fewer threads than planned some do the part of several: that keeps the order within each.
    int n = 1;
    for (const Kernel& k : std::span(first, end))
      n = std::max(n, k.worker == kEvery ? k.n_cores : k.worker + 1);
    n = std::min(n, limit);
    pool.run(n, [&](int me) { run_part({first, end}, n, me); });
    first = end;
  }
}

}  // namespace lathe
