// Loops run only where they do something.
#pragma once
#include "uop/uop.h"

namespace lathe {

// A Range whose values above (below) some number add nothing to any reduction over it and reach no Store,
// because gates or selections of 0 say so, gets a smaller end (and an offset). A range of one value becomes
// that value. For kernel bodies with simplified gates. Shown by test/unit/shrink_ranges_test.cpp.
UOp shrink_ranges(const UOp& body);

}  // namespace lathe
