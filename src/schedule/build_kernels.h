// Cuts a ranged tensor graph into kernels.
#pragma once
#include "schedule/assign_ranges.h"
#include "schedule/schedule.h"

namespace lathe {

// A kernel and the buffer states it touches. State 0 of a buffer is what it holds before the schedule runs;
// each assignment makes the next.
struct DraftKernel {
  ScheduledKernel kernel;
  struct Access {
    UOp buffer;
    int state;
  };
  std::vector<Access> reads;
  Access write;
};

struct Draft {
  std::vector<DraftKernel> kernels;             // producers first
  std::unordered_map<const Node*, UOp> memory;  // kept node → the Buffer that holds it
};

Draft build_kernels(RangePlan plan);

}  // namespace lathe
