// Long reductions at the tensor level.
#pragma once
#include "uop/uop.h"

namespace lathe {

// One long reduction as two shorter ones, so that many outputs can run at once; null where it stays whole: it
// is short, it has no device (closed forms and constants), its axes only repeat memory, or it picks one
// element by position, which needs no loop.
UOp split_reduce(const UOp& reduce);

}  // namespace lathe
