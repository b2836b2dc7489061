// Weak types are committed and gates leave the indices.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

namespace lathe {

// After this pass no value has a weak dtype. An integer expression gets int32 when it and everything it is
// computed from fits, else int64; a float expression gets the default float, or the wider type that a Cast, a
// Store or an operand asks for; a literal takes the dtype of its neighbour. Comparisons use a type that holds
// both sides. An index into a buffer of at most 2^31 elements is int32: arithmetic modulo 2^32 cannot change
// an index that is in bounds. Shown by test/unit/decompose_index_types.cpp.
UOp commit_weak_types(const UOp& sink, const Target& target);

}  // namespace lathe
