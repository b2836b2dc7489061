// Gates leave the indices and become operands of Loads and Stores.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

namespace lathe {

// After this pass no Invalid is left. A gated index becomes the gate of its Load (alternative 0) or Store, a
// gated value becomes 0 where the gate is false, and Where(g, load, c) over a load with the same gate becomes
// the load with the alternative c. Best run before vectorising: a gate inside an index hides that lanes are
// contiguous. Shown by test/unit/decompose_gates.cpp.
UOp move_gates(const UOp& sink, const Target& target);

}  // namespace lathe
