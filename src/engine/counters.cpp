#include "engine/counters.h"

#include "runtime/device.h"

#include <mutex>

namespace lathe {
namespace {
std::mutex mutex;
Counters totals;
uint64_t allocations_before = 0;
}  // namespace

Counters counters() {
  std::lock_guard lock(mutex);
  Counters out = totals;
  out.allocations = allocation_count() - allocations_before;
  out.memory = memory_used();
  out.peak_memory = peak_memory_used();
  return out;
}
int64_t memory_on(const std::string& name) { return device(name).memory().used(); }
void reset_counters() {
  std::lock_guard lock(mutex);
  totals = {};
  allocations_before = allocation_count();
  reset_peak_memory_used();
}
void count(FunctionRef<void(Counters&)> change) {
  std::lock_guard lock(mutex);
  change(totals);
}

}  // namespace lathe
