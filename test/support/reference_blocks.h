#pragma once

// The blocks of the reference model; each takes the normed rows of a layer and gives what is added to the
// stream.

#include <cmath>
#include <optional>

#include "support/model_data.h"

namespace lathe::test::reference {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
void softmax(Row& scores);

// x / sqrt(mean(x²) + eps), times weight where there is one.
Row rms(const Row& x, const Row* weight, double eps);

// The model seen from one layer, or from none (-1).
class Scope {
 public:
  Scope(const ModelData& model, int64_t layer, int64_t context)
      : m_(model), layer_(layer), context_(context) {}

  const std::string& architecture() const {
    return std::get<std::string>(m_.metadata.at("general.architecture"));
  }
  int64_t layer() const { return layer_; }
  int64_t context() const { return context_; }
  Scope whole() const { return {m_, -1, context_}; }

  // Metadata under the architecture's prefix; `otherwise` where the key is missing.
  const MetadataValue* value(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t otherwise) const;  // of an array: the layer's element
  double real(const std::string& key, double otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  double epsilon() const {
    return real("attention.layer_norm_rms_epsilon", real("attention.layer_norm_epsilon", 1e-5));
  }

  // Weights, by their names with or without ".weight".
  const Weight* find(const std::string& name) const;
  const Weight& weight(const std::string& name) const;
  bool has(const std::string& name) const { return find(name) != nullptr; }

  // W x + bias where there is one. `part` is the matrix (or bias) of a stack of them.
  Row linear(const std::string& name, const Row& x, int64_t part = 0) const;
  Row normed(const std::string& name, const Row& x) const;  // RMS, or LayerNorm where there is a bias

 private:
  const ModelData& m_;
  int64_t layer_, context_;
};

// Rotary positions of a layer.
class Rope {
 public:
  explicit Rope(const Scope& scope, std::optional<int64_t> dims = std::nullopt);
  // Rotates x[offset … offset + dims) of the token at `position`.
  void rotate(Row& x, size_t offset, int64_t position) const;
  double score_scale() const { return score_scale_; }  // what scores are multiplied by beside 1/sqrt(d)

 private:
  void scale(const Scope& scope);
  bool none_ = false, interleaved_ = false;
  double position_scale_ = 1, magnitude_ = 1, score_scale_ = 1;
  std::vector<double> theta_;
};

bool is_sliding(const Scope& scope);  // whether the attention of this layer sees a window only
Rows attention(const Scope& scope, const Rows& x);
Rows latent_attention(const Scope& scope, const Rows& x);
Rows gated_delta_net(const Scope& scope, const Rows& x);
Rows kimi_delta_attention(const Scope& scope, const Rows& x);
Rows mamba(const Scope& scope, const Rows& x);
Rows mamba2(const Scope& scope, const Rows& x);
Rows feed_forward(const Scope& scope, const Rows& x);  // dense, or a mixture of experts

}  // namespace lathe::test::reference
