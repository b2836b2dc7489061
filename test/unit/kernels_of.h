// What it takes to make tensors real.
#pragma once
#include "engine/counters.h"
#include "tensor/tensor.h"

#include <vector>

namespace lathe::test {

inline Counters run(const std::vector<Tensor>& tensors) {
  reset_counters();
  Tensor::realize(tensors);
  return counters();
}
inline uint64_t kernels_of(const std::vector<Tensor>& tensors) { return run(tensors).kernels; }

}  // namespace lathe::test
