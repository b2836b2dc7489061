// One value from a partial one on each device.
#pragma once
#include "uop/uop.h"

#include <span>
#include <string>
#include <vector>

namespace lathe {

// Folds the parts, one a device, with a reduction op: the result on each device, of the same bits on all.
// Naively every device gets every part. Large values (knobs RING, ALL2ALL, RING_ALLREDUCE_THRESHOLD) are cut
// into a chunk a device, so that each device sends about two values whatever their number: chunks are folded
// either along a ring or each on a device of its own, and then sent on to all.
std::vector<UOp> all_reduce(const std::vector<UOp>& parts, Op op, std::span<const std::string> devices);

}  // namespace lathe
