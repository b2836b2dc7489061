#pragma once

// Models with random weights, of every family: what their files hold, in sizes that a test can afford.

#include <string_view>

#include "support/model_data.h"

namespace lathe::test {

enum class Fill : uint8_t {
  Matrix,    // normal, divided by the square root of the row length
  Table,     // normal: embeddings, sinks
  Norm,      // near 1
  Small,     // near 0: biases
  Decay,     // -exp(x): what recurrent states fade by
  Frequency  // in [1, 4]: divides rotary frequencies
};

struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  Fill fill = Fill::Matrix;
};

// The contents of a file without the numbers.
struct ModelSpec {
  std::map<std::string, MetadataValue> metadata;
  std::vector<TensorSpec> tensors;
};

// Names for random_model_spec: families, and variants of them such as "llama-yarn".
std::vector<std::string> random_families();
// std::invalid_argument for a name that is none. Vocabulary 320 with the 256 bytes, rows of whole blocks
// of 32.
ModelSpec random_model_spec(std::string_view family);
// Llama-shaped, 191 million weights: 8 layers, 1024 wide, 16 heads over 8, hidden 4096, vocabulary 32000,
// with an output matrix of its own.
ModelSpec llama_191m_spec();

// The numbers of a tensor, the same for the same name and seed.
std::vector<float> random_values(const TensorSpec& tensor, uint64_t seed);
ModelData random_model(const ModelSpec& spec, uint64_t seed);

}  // namespace lathe::test
