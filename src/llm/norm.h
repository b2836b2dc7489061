// Norms of rows.
#pragma once
#include "tensor/tensor.h"

#include <optional>

namespace lathe {

// Over the last axis of float32: x · rsqrt(mean(x²) + eps) · weight, or layer norm where `centered`.
struct Norm {
  Tensor weight;
  std::optional<Tensor> bias;
  double eps = 1e-5;
  bool centered = false;
  Tensor operator()(const Tensor& x) const;
};

}  // namespace lathe
