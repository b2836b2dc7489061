// Clean-up of a tensor graph before ranges are assigned.
#pragma once
#include "uop/uop.h"

namespace lathe {

// Removes identities, gives empty results their constants, splits large reductions, turns Copy into a Store on the target device.
UOp prepare(const UOp& graph);

}  // namespace lathe
