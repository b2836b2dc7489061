// Rows of graphs with the most kernels that they may take: fewer is a pass, values are checked elsewhere.
#pragma once
#include "unit/kernels_of.h"

#include <functional>
#include <string>
#include <vector>

#include "support/test.h"

namespace lathe::test {

inline const TensorOptions kNull{.dtype = std::nullopt, .device = "NULL"};

// A realised buffer without contents.
inline Tensor e(const Shape& s, DType d = DType::Float32) {
  Tensor t = Tensor::empty(s, {.dtype = d, .device = "NULL"});
  t.realize();
  return t;
}

struct KernelRow {
  std::string graph;
  uint64_t most;
  std::function<std::vector<Tensor>()> outputs;
};

inline void check_kernels(const std::vector<KernelRow>& rows) {
  for (const KernelRow& row : rows) {
    INFO(row.graph);
    const std::vector<Tensor> outputs = row.outputs();
    CHECK(kernels_of(outputs) <= row.most);
  }
}

}  // namespace lathe::test
