// The default schedule of a kernel.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

namespace lathe {

// Applies actions chosen from shapes, strides and the target's registers and caches. The order of every sum
// is the same for any number of threads. With NOOPT=1 nothing is applied; a schedule given in the KernelArg
// is applied as it is.
UOp optimise(const UOp& body, const Target& target);

}  // namespace lathe
