// Assignments that need no work.
#pragma once
#include "uop/uop.h"

namespace lathe {

// Where memory that holds one constant is assigned a value of itself, the value takes the constant: the
// memory need not be filled first.
UOp forward_constants(const UOp& graph);

// Leaves out stores that a later one covers before anyone reads them, stores of what is there already, and
// copies of a value that is only stored. `graph` is a Sink; its sources from number `n_roots` on are not
// uses. Positions of sources stay: what was left out becomes the state before it.
UOp simplify_assignments(const UOp& graph, size_t n_roots);

}  // namespace lathe
