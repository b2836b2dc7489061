// Cuts a ranged tensor graph into kernels.
#pragma once
#include "schedule/assign_ranges.h"
#include "schedule/schedule.h"

namespace lathe {

// Kernels that run in a row, one but for a precompiled function, and the buffer states they touch. State 0 of
// a buffer is what it holds before the schedule runs; each assignment makes the next.
struct DraftKernel {
  std::vector<ScheduledKernel> kernels;
  struct Access {
    UOp buffer;
    int state;
  };
  std::vector<Access> reads, writes;
};

struct Draft {
  std::vector<DraftKernel> kernels;             // producers first
  std::unordered_map<const Node*, UOp> memory;  // kept node → the Buffer that holds it, or a view of one
};

Draft build_kernels(RangePlan plan);

}  // namespace lathe
