// Narrow floats on targets that lack them.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

namespace lathe {

// After this pass no value and no memory has an 8-bit float, float16 or bfloat16 that the target does not
// support. Memory becomes uint8 or uint16 of the same layout; values are computed in float32 and rounded to
// the narrow type after every operation, so results are those of the reference ALU bit for bit. Nor is there
// a cast that machines lack: from float64 to a narrow float, or from a float to uint64. Runs after
// commit_weak_types and move_gates, before decompose_float. Shown by test/unit/decompose_dtype.cpp.
UOp decompose_dtype(const UOp& sink, const Target& target);

// The code (uint32) of a float32 value in `d`, rounded to nearest even, and back. Formats: number_formats.h.
UOp encode_expression(const UOp& x, DType d);
UOp decode_expression(const UOp& code, DType d);

}  // namespace lathe
