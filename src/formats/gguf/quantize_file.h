// A GGUF file from another one with weights of other types.
#pragma once
#include "formats/gguf/gguf.h"
#include "formats/gguf/writer.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

struct QuantizeOptions {
  // A type, a mix of types such as Q4_K_M, or COPY. What a mix gives a tensor is in docs/gguf.md.
  std::string mix = {};
  // Of the output matrix (the token embedding where they are one), and of the token embedding.
  std::optional<GgmlType> output = {}, token_embedding = {};
  // Of weights whose name has a match of a regular expression; the first that fits counts.
  std::vector<std::pair<std::string, GgmlType>> overrides = {};
  bool is_pure = false;            // one type for all weights, whatever the mix says
  bool leaves_output = false;      // the output matrix stays as it is
  bool allows_requantize = false;  // weights may be quantised ones already
};

// The names that `mix` may have.
std::vector<std::string_view> quantize_mixes();

// The type of each tensor of the file. Weights are what has two or three axes and a name that ends in
// "weight", without norms, routers, convolutions and embeddings of positions and kinds; the rest stays. Rows
// that are no whole blocks get a type of smaller blocks, at last F16. ValueError for an unknown mix, types
// that cannot be made, and weights that are quantised already unless that is allowed.
std::vector<GgmlType> plan_quantize(const GgufFile& file, const QuantizeOptions& options);

// The new file, whose tensors are made as they are written; `file` has to outlive it. Split files become one.
// `on_tensor` hears of each tensor when it is done.
GgufWriter quantize_file(const GgufFile& file, const QuantizeOptions& options,
                         std::function<void(const GgufTensor&)> on_tensor = {});

}  // namespace lathe
