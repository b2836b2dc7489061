#include "tensor/layout.h"

namespace lathe {

Tensor pack_outputs(const Tensor& weight) {
  constexpr int64_t kSideBySide = 32;  // two AVX-512 vectors, four of AVX2
  constexpr int64_t kWorthIt = 65536;  // smaller ones are packed by each kernel as quickly
  if (weight.ndim() < 3 || !weight.is_realized() || !weight.numel().is_const()) return weight;
  const int64_t outputs = weight.size(0).value();
  if (outputs % kSideBySide || weight.numel().value() < kWorthIt) return weight;
  Tensor packed = weight.reshape({outputs / kSideBySide, kSideBySide, -1}).permute({0, 2, 1}).contiguous();
  packed.realize();
  return packed.permute({0, 2, 1}).reshape(weight.shape());
}

}  // namespace lathe
