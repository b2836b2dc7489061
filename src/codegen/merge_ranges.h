// Neighbouring loops that step through memory as one become one.
#pragma once
#include "uop/uop.h"

namespace lathe {

// Merges adjacent loops of an End or Reduce where every access moves through them with one stride. Shown by
// test/golden/codegen/merge_ranges.txt.
UOp merge_ranges(const UOp& body);

}  // namespace lathe
