// The algebraic simplifier: rule sets over integers, booleans, floats and gates.
#pragma once
#include "uop/matcher.h"
#include "uop/uop.h"

namespace lathe {

// Simplified form of any graph; sound for every value the variables and ranges may take.
UOp simplify(const UOp& u);

}  // namespace lathe
