// From an effect over Buffers to the self-contained body of a kernel.
#pragma once
#include "schedule/build_kernels.h"

namespace lathe {

// `effect` is a Store over Buffers (or buffer states) inside `loops`. Buffers become flat Params in order of
// appearance, the written one first; ranges are numbered from 0, so equal kernels are equal nodes. UserError
// when buffers are on several devices.
DraftKernel make_kernel(const UOp& effect, const std::vector<UOp>& loops, DraftKernel::Access written);

}  // namespace lathe
