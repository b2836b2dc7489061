// Tensors over several devices.
#pragma once
#include "base/function_ref.h"
#include "tensor/tensor.h"

#include <string>

namespace lathe {

// What `make` gives for the shape and the device of `like`, or for each of its pieces. `device` takes the
// place of the device; RuntimeError where that of `like` is several.
Tensor per_shard(const Tensor& like, const std::string& device,
                 FunctionRef<Tensor(const Shape&, const std::string&)> make);

}  // namespace lathe
