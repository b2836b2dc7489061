// Reductions become loops over accumulators.
#pragma once
#include "uop/uop.h"

namespace lathe {

// After this pass no Reduce is left. Each keeps its running value in a Reg Buffer; reductions over the same
// ranges in the same place share one loop, Unroll ranges become a chain inside it and a Vector range becomes
// lanes that are folded after it. Shown by test/golden/codegen/lower_reduce.txt.
UOp lower_reduces(const UOp& body);

}  // namespace lathe
