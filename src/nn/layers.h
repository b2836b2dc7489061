// Layers: structs of tensors that are called. Weights start at random values; U(b) is uniform in [-b, b).
#pragma once
#include "nn/norm.h"
#include "nn/state.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lathe::nn {

// x·Wᵀ + b over the last axis. weight (out, in) and bias (out) from U(1/sqrt(in)).
struct Linear {
  Linear(int64_t in_features, int64_t out_features, bool with_bias = true);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& visit) const {
    visit("weight", weight);
    visit("bias", bias);
  }

  Tensor weight;
  std::optional<Tensor> bias;
};

// Padding of a convolution: amounts as ConvOptions takes them, or "same", which keeps the size.
struct ConvPadding {
  ConvPadding(Ints amounts) : amounts(std::move(amounts)) {}  // NOLINT(google-explicit-constructor)
  ConvPadding(int amount) : amounts(amount) {}                // NOLINT(google-explicit-constructor)
  ConvPadding(std::initializer_list<int64_t> amounts) : amounts(amounts) {}
  ConvPadding(const char* name);  // NOLINT(google-explicit-constructor) ValueError unless "same"
  Ints amounts;
  bool is_same = false;
};

struct ConvLayerOptions {
  Ints stride = 1;
  ConvPadding padding = 0;
  Ints dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

// What convolutions of both directions hold: weight and bias (out) from U(1/sqrt(in·prod(kernel))).
struct ConvWeights {
  void each(auto&& visit) const {
    visit("weight", weight);
    visit("bias", bias);
  }

  Tensor weight;
  std::optional<Tensor> bias;

 protected:
  // The axes of the kernel follow those of `channels`.
  ConvWeights(Shape channels, int64_t out_channels, const Ints& kernel, int64_t in_channels, bool with_bias);
};

// A convolution over the axes after (batch, channels). The kernel has one size for all axes or one for each.
// weight (out, in/groups, kernel…).
struct Conv : ConvWeights {
  Conv(int64_t axes, int64_t in_channels, int64_t out_channels, const Ints& kernel,
       const ConvLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const;

  ConvOptions options;
};

struct ConvTransposeLayerOptions {
  Ints stride = 1;
  Ints padding = 0;
  Ints output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Ints dilation = 1;
};

// The transpose of a convolution: what its gradient by the input computes. weight (in, out/groups, kernel…).
struct ConvTranspose : ConvWeights {
  ConvTranspose(int64_t axes, int64_t in_channels, int64_t out_channels, const Ints& kernel,
                const ConvTransposeLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const;

  ConvTransposeOptions options;
};

// The same with the number of axes in the type.
template <int64_t kAxes, class Base, class Options>
struct OverAxes : Base {
  OverAxes(int64_t in_channels, int64_t out_channels, const Ints& kernel, const Options& options = {})
      : Base(kAxes, in_channels, out_channels, kernel, options) {}
};
using Conv1d = OverAxes<1, Conv, ConvLayerOptions>;
using Conv2d = OverAxes<2, Conv, ConvLayerOptions>;
using Conv3d = OverAxes<3, Conv, ConvLayerOptions>;
using ConvTranspose1d = OverAxes<1, ConvTranspose, ConvTransposeLayerOptions>;
using ConvTranspose2d = OverAxes<2, ConvTranspose, ConvTransposeLayerOptions>;
using ConvTranspose3d = OverAxes<3, ConvTranspose, ConvTransposeLayerOptions>;

// Row `index` of weight (vocabulary, dim), glorot-uniform at first; zeros for an index out of range.
// TypeError unless the index has an integer dtype.
struct Embedding {
  Embedding(int64_t vocabulary, int64_t dim);
  Tensor operator()(const Tensor& index) const;
  void each(auto&& visit) const { visit("weight", weight); }

  Tensor weight;
};

// Zeroes elements with probability p and scales the others by 1/(1-p), in training mode only.
struct Dropout {
  explicit Dropout(double p = 0.5) : p(p) {}
  Tensor operator()(const Tensor& x) const { return x.dropout(p); }
  void each(auto&&) const {}

  double p;
};

// One step of a long short-term memory over x (batch, input_size). With i, f, g, o the quarters of
// W_ih·x + b_ih + W_hh·h + b_hh: c' = σ(f)·c + σ(i)·tanh(g), h' = σ(o)·tanh(c'). Weights from
// U(1/sqrt(hidden)), biases 0.
struct LSTMCell {
  struct State {
    Tensor h, c;  // (batch, hidden_size)
  };
  LSTMCell(int64_t input_size, int64_t hidden_size, bool with_bias = true);
  // Without a state before it starts from zeros.
  State operator()(const Tensor& x, const std::optional<State>& before = std::nullopt) const;
  void each(auto&& visit) const {
    visit("weight_ih", weight_ih);
    visit("weight_hh", weight_hh);
    visit("bias_ih", bias_ih);
    visit("bias_hh", bias_hh);
  }

  int64_t hidden_size;
  Tensor weight_ih, weight_hh;
  std::optional<Tensor> bias_ih, bias_hh;
};

// Attention of x (batch, length, dim) to itself or to a context, in `heads` parts of the features, between
// projections: in_proj (3·dim, dim) for queries, keys and values, glorot-uniform with bias 0, and out_proj.
struct MultiheadAttention {
  struct Options {
    std::optional<Tensor> context = std::nullopt;  // (batch, other length, dim): keys and values come from it
    std::optional<Tensor> mask = std::nullopt;     // as for Tensor::scaled_dot_product_attention
    bool is_causal = false;
    double dropout = 0;  // of the weights, in training mode
  };
  MultiheadAttention(int64_t dim, int64_t heads, bool with_bias = true);
  Tensor operator()(const Tensor& x) const { return (*this)(x, Options()); }
  Tensor operator()(const Tensor& x, const Options& options) const;
  void each(auto&& visit) const {
    visit("in_proj_weight", in_proj_weight);
    visit("in_proj_bias", in_proj_bias);
    visit("out_proj", out_proj);
  }

  int64_t heads;
  Tensor in_proj_weight;
  std::optional<Tensor> in_proj_bias;
  Linear out_proj;
};

// What it is made of, applied one after the other: layers, and functions of a tensor such as &Tensor::relu or
// a lambda. Tensors are named by position: "0.weight". Where layers do more than follow each other, write a
// struct with the layers as members.
class Sequential {
 public:
  template <class... Layers>
  explicit Sequential(Layers... layers) {
    (add(std::move(layers)), ...);
  }
  // At the end.
  template <class Layer>
  void add(Layer layer) {
    if constexpr (Module<Layer>)
      for (auto& named : state_dict(layer, std::to_string(functions_.size())))
        tensors_.push_back(std::move(named));
    functions_.emplace_back(std::move(layer));
  }
  Tensor operator()(const Tensor& x) const { return x.sequential(functions_); }
  void each(auto&& visit) const {
    for (const auto& [name, t] : tensors_) visit(name, t);
  }

 private:
  std::vector<std::function<Tensor(const Tensor&)>> functions_;
  NamedTensors tensors_;
};

}  // namespace lathe::nn
