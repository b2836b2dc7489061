#pragma once

// Drawing the inputs of a row, and putting arrays into tensors and back.

#include "ops/table.h"

#include <cstdint>
#include <string_view>

namespace lathe::ops {

// The same numbers on every machine. (Steele, Lea and Flood, Fast splittable pseudorandom number generators.)
class Random {
 public:
  explicit Random(std::string_view seed);
  uint64_t bits();
  int64_t below(int64_t n) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(n)); }

 private:
  uint64_t state_;
};

// Values of an input, exact in the dtype.
Array draw(const Input& input, DType dtype, Random& random);
// Numbers in [-1, 1] that weigh outputs in the loss of which a gradient is taken.
Array draw_weights(const Index& shape, Random& random);

// On the default device.
Tensor upload(const Array& a, DType dtype, Layout layout = Layout::Plain);
Array download(const Tensor& t);

std::string_view layout_name(Layout layout);

}  // namespace lathe::ops
