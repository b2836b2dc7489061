// The tensors of a model file as blocks use them.
#pragma once
#include "formats/gguf/gguf.h"
#include "llm/packed_matrix.h"
#include "tensor/tensor.h"

#include <memory>
#include <optional>
#include <string>

namespace lathe {

struct Linear {
  PackedMatrix weight;
  std::optional<Tensor> bias;  // float32 (rows)
  Tensor operator()(const Tensor& x) const;
};

// Names are without ".weight". Every tensor is checked for its shape; UserError (Value) names the tensor, the
// shape it has and the one it should have.
class Weights {
 public:
  Weights(std::shared_ptr<const GgufFile> file, std::string device);

  const GgufFile& file() const { return *file_; }
  const std::string& device() const { return device_; }
  bool has(const std::string& name) const;      // the full name, such as "output.weight"
  int64_t rows(const std::string& name) const;  // of a matrix; 0 where there is none
  // float32 in memory: norms, biases, router matrices, small parameters. `name` is the full one.
  Tensor values(const std::string& name, const Shape& shape) const;
  std::optional<Tensor> optional_values(const std::string& name, const Shape& shape) const;
  PackedMatrix matrix(const std::string& name, int64_t rows, int64_t columns) const;
  PackedMatrix experts(const std::string& name, int64_t experts, int64_t rows, int64_t columns) const;
  // With the bias `name`.bias where there is one.
  Linear linear(const std::string& name, int64_t rows, int64_t columns) const;
  // Rows [begin, begin + rows) of a matrix that holds several.
  Linear linear_rows(const std::string& name, int64_t begin, int64_t rows, int64_t columns,
                     int64_t all_rows) const;

 private:
  std::shared_ptr<const GgufFile> file_;
  std::string device_;
};

}  // namespace lathe
