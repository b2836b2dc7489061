// What the blocks of GGUF's quantised types stand for, as tensor expressions. They fuse into what reads them,
// so weights stay packed in memory. docs/gguf.md has the layouts.
#pragma once
#include "formats/gguf/ggml_type.h"
#include "tensor/tensor.h"

namespace lathe {

// Of `packed` (…, bytes of a row), uint8, the float32 elements (…, elements of a row); lazy, and of every
// type, plain ones included. To unpack some rows only, pick them from `packed` first. ValueError for other
// dtypes and for rows that are no whole number of blocks.
Tensor dequantize(const Tensor& packed, GgmlType type);

}  // namespace lathe
