// Puts kernels in an order that respects reads and writes.
#pragma once
#include "schedule/build_kernels.h"

namespace lathe {

// Readers of a state run after the kernel that writes it and before the kernel that writes the next one.
// Otherwise the given order is kept, except that kernels which give memory back come as soon as they can.
// UserError "cycle detected in assign graph" where that is impossible.
std::vector<ScheduledKernel> order_kernels(std::vector<DraftKernel> kernels);

}  // namespace lathe
