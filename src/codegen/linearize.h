// The order of a linear program.
#pragma once
#include "uop/uop.h"

#include <vector>

namespace lathe {

// Every node of the lowered kernel in an order that can be printed: sources before users, each node inside
// exactly the loops it depends on, one loop a Range. Values that do not depend on a loop are computed before
// it.
std::vector<UOp> linearize(const UOp& body);

}  // namespace lathe
