// What ran in this process since the last reset.
#pragma once
#include "base/function_ref.h"

#include <cstdint>
#include <string>

namespace lathe {

struct Counters {
  uint64_t kernels = 0;   // launches
  uint64_t compiled = 0;  // kernels lowered and compiled, or fetched from the disk cache
  uint64_t schedules = 0;
  double flops = 0;
  double bytes = 0;
  double seconds = 0;        // spent in kernels
  uint64_t allocations = 0;  // buffers that asked for memory, whether a pool had kept some or not
  int64_t memory = 0;        // bytes in buffers now; no reset changes it
  int64_t peak_memory = 0;   // the most there were
};
Counters counters();
void reset_counters();
// Bytes in buffers of one device now.
int64_t memory_on(const std::string& device);
// Changes the counters under their lock.
void count(FunctionRef<void(Counters&)> change);

}  // namespace lathe
