// Products of matrices, convolutions and whatever else reads its operands again for other outputs.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

#include <optional>

namespace lathe {

// A kernel whose reductions run side by side over the same loops, where some loads are shared by the steps of
// one output loop and some by those of another, runs in register tiles: rows of one loop, lanes of the other.
// The tile with the least estimated time is taken, from the strides of all accesses, the registers and the
// caches. What lies along the lanes is packed into panels, in blocks of the reduction where they are larger
// than the second cache; the loops that a panel does not depend on run inside of it. Nothing for other
// kernels.
std::optional<UOp> tile_contraction(const UOp& body, const Target& target);

}  // namespace lathe
