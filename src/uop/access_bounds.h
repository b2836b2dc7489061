// Whether the memory accesses of a kernel stay inside their memory.
#pragma once
#include "uop/uop.h"

namespace lathe {

// Proves of every Load and Store of a kernel body (docs/ir.md stages 2 to 4) that it stays inside its memory
// wherever its gate holds, for all values of Ranges, variables and loaded elements. First by the interval of
// the index, then by its interval under the gate, then point by point. What float comparisons say is not
// looked at: they may be true or false. Not checked is an index that reinterprets bits.
//
// InternalError names the access, the index, its range and gate, and a point where it leaves the memory. An
// access that takes more than a million points to prove is refused, too, unless `must_prove` is false, and so
// is an index with a mask of scattered bits that its interval does not prove.
void check_accesses(const UOp& body, bool must_prove = true);

}  // namespace lathe
