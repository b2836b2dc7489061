// How the elements of a tensor lie in memory.
#pragma once
#include "tensor/tensor.h"

namespace lathe {

// Weights of shape (outputs, …) that do not change between calls, with the elements of 32 neighbouring
// outputs side by side in memory (oneDNN's OIhw32o): a convolution reads them as lanes, however few positions
// its image has. Shape, dtype and values stay; the copy is made at once. Weights that this does not speed up
// stay as they are: of less than three axes or 65,536 elements, of outputs that are no multiple of 32, of
// symbolic size, or not in memory.
Tensor pack_outputs(const Tensor& weight);

}  // namespace lathe
