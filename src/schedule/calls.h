// Calls of functions before kernels are made.
#pragma once
#include "schedule/schedule.h"

namespace lathe {

// Results of functions become what the functions compute, over the arguments; hash-consing then shares what
// is the same elsewhere. Those of a precompiled function become new buffers, which a Call writes
// as the first of its arguments.
UOp lower_calls(const UOp& graph);

// The kernels of a precompiled function: over its Params; behind these one more for each source of the body,
// which holds it afterwards; and over Buffers of its own. Scheduled once.
const Schedule& function_schedule(const UOp& body);

}  // namespace lathe
