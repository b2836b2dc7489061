// 64-bit integers on targets that lack them.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

namespace lathe {

// After this pass no value and no memory is int64 or uint64, where the target does not support those. Memory
// of n elements becomes 2n words of uint32, the low word of element i at 2i and the high one at 2i+1; a value
// becomes two words, and results are those of native arithmetic bit for bit. Coordinates use the low word.
// Quotients are 64 steps of shift and subtract, unless both numbers are known to fit 32 bits.
// UserError: buffers of more than 2^31 words, coordinates of larger ones, loops and variables that reach
// beyond int32, and the bits of float64. Runs after decompose_int, before use_native_ops. Shown by
// test/unit/decompose_long.cpp.
UOp decompose_long(const UOp& sink, const Target& target);

}  // namespace lathe
