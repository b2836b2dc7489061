// Copies of reused parts of an input in contiguous scratch: packing.
#pragma once
#include "uop/uop.h"

namespace lathe {

// Load number `access` (its position among the Loads of kernel_accesses) reads from a scratch copy of what
// the loops inside its outermost ones touch; the copy is made once for each step of those outer loops.
// UserError (Runtime) where that is illegal.
UOp stage_load(const UOp& body, int access);

// The reduction over `r` in blocks of `amount` steps: the loop over blocks is outside of the innermost output
// loop, whose running values lie in scratch meanwhile. Where several reductions share `r`, all of them.
// UserError (Runtime) where no output loop is inside every one.
UOp block_reduce(const UOp& body, const UOp& r, int64_t amount);

// Bytes of the copy of a load, and how many loop steps share one; {0, 0} where staging is illegal.
struct StagePlan {
  int64_t bytes = 0;
  double uses = 0;
};
StagePlan plan_stage(const UOp& body, const UOp& load);
// The Loads that can be named, in order.
std::vector<UOp> stageable_loads(const UOp& body);

}  // namespace lathe
