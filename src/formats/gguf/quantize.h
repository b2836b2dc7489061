// Numbers into the blocks of GGUF's quantised types.
#pragma once
#include "formats/gguf/ggml_type.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

// Whether `quantize` makes this type: all but those whose values come from the grids (IQ1, IQ2, IQ3).
bool can_quantize(GgmlType type);

// Rows of `row_length` numbers, one after the other, in blocks of a type, or rounded to a plain one. Types
// with one scale a block, MXFP4 and NVFP4 give the bytes that ggml's reference gives; K-quants, IQ4_NL and
// IQ4_XS search for the scales as it does without an importance matrix, in sums whose order is not defined.
// ValueError for types that cannot be made, rows that are no whole blocks, and numbers that are not finite or
// too large for a float16 scale.
std::vector<std::byte> quantize(std::span<const float> values, int64_t row_length, GgmlType type);

}  // namespace lathe
