// Decides what is kept in memory and gives every value its ranges.
#pragma once
#include "schedule/index_map.h"

#include <unordered_map>
#include <unordered_set>

namespace lathe {

struct ValueRanges {
  Coords
      out;  // one coordinate an axis: a Range, 0 on size-1 axes, or an expression inherited from a consumer
  Coords reduce;            // Ranges of a Reduce node
  bool kept = false;        // starts its own ranges; becomes a kernel unless it is cheap to recompute
  bool removable = true;    // false where memory was asked for
  bool repeats = false;     // a view at ranges of its own, which every consumer replaces by what it asks for
  size_t shared_loops = 0;  // of its loops, those that the one kernel that reads it begins with
  int64_t rereads = 0;      // how often a reduction that reads it does so, 0 where none does
};

struct RangePlan {
  std::vector<UOp> order;  // value nodes, producers first
  std::unordered_map<const Node*, ValueRanges> ranges;
  int next_range = 0;
};

// Sources of `u` that are values (not shapes).
std::span<const UOp> flow_sources(const UOp& u);
// Coordinates that `user`, itself at `user_out`, asks of its value source `i`.
Coords source_coords(const UOp& user, const ValueRanges& at, size_t i);

// `roots` must end in memory: each is kept.
RangePlan assign_ranges(std::span<const UOp> roots);

}  // namespace lathe
