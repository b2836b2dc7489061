// Tensors by name, in an order that files keep.
#pragma once
#include "tensor/tensor.h"

#include <string>
#include <utility>
#include <vector>

namespace lathe {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace lathe
