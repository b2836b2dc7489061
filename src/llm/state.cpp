#include "llm/state.h"

namespace lathe {

Tensor make_zeros(const Shape& shape, DType dtype, const std::string& device) {
  return Tensor::zeros(shape, {.dtype = dtype, .device = device}).realize();
}

int64_t state_bytes(const ModelState& state) {
  int64_t total = 0;
  for (const LayerState& layer : state)
    for (const std::vector<Tensor>* tensors : {&layer.cache, &layer.window, &layer.recurrent})
      for (const Tensor& t : *tensors) total += t.nbytes().value();
  return total;
}

}  // namespace lathe
