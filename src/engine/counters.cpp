#include "engine/counters.h"

#include <mutex>

namespace lathe {
namespace {
std::mutex mutex;
Counters totals;
}  // namespace

Counters counters() {
  std::lock_guard lock(mutex);
  return totals;
}
void reset_counters() {
  std::lock_guard lock(mutex);
  totals = {};
}
void count(FunctionRef<void(Counters&)> change) {
  std::lock_guard lock(mutex);
  change(totals);
}

}  // namespace lathe
