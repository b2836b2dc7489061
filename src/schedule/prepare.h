// Clean-up of a tensor graph before ranges are assigned.
#pragma once
#include "uop/uop.h"

namespace lathe {

// Removes identities, gives empty results their constants, splits large reductions, turns Copy into a Store
// on the target device and Bitcasts between element sizes into shifts.
UOp prepare(const UOp& graph);

// No elements.
bool is_empty(const Shape& s);

// A view chain over a Stack as one over the lanes that it shows.
UOp look_through_stacks(const UOp& view);

}  // namespace lathe
