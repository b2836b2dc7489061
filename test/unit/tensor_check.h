#pragma once

// Comparing tensors with expected values; include it after all other headers, because doctest redefines
// CHECK.

#include "tensor/tensor.h"

#include <cmath>
#include <string>
#include <vector>

#include "support/test.h"

namespace lathe::test {

// Every element agrees within `tolerance`, absolute or relative; NaN equals NaN and infinities equal
// themselves.
inline void check_values(const Tensor& t, const std::vector<double>& expected, double tolerance = 1e-6) {
  const std::vector<double> got = t.to_vector<double>();
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); i++) {
    INFO("element ", i, ": got ", got[i], ", expected ", expected[i]);
    if (std::isnan(expected[i])) {
      CHECK(std::isnan(got[i]));
    } else if (std::isinf(expected[i])) {
      CHECK(got[i] == expected[i]);
    } else {
      CHECK(std::abs(got[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i])));
    }
  }
}

inline std::string shape_text(const Tensor& t) { return to_string(t.shape()); }

inline Tensor floats(const std::vector<float>& values) { return Tensor::from(values); }
inline Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}
inline Tensor ints(const std::vector<int32_t>& values) { return Tensor::from(values); }
inline Tensor ints(const std::vector<int32_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

}  // namespace lathe::test
