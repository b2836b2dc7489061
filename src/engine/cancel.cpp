#include "engine/cancel.h"

#include <atomic>

namespace lathe {
namespace {
std::atomic<bool> asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);
}  // namespace

void cancel() noexcept { asked.store(true, std::memory_order_relaxed); }

void stop_if_cancelled() {
  if (asked.load(std::memory_order_relaxed) && asked.exchange(false, std::memory_order_relaxed))
    throw Cancelled("cancelled");
}

}  // namespace lathe
