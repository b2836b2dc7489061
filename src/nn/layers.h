// Layers: structs of tensors that are called. Weights start at random values; U(b) is uniform in [-b, b).
#pragma once
#include "tensor/tensor.h"

#include <cstdint>
#include <optional>

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

// A convolution over the axes after (batch, channels): two for one kernel size, else as many as sizes are
// given. weight (out, in/groups, kernel…) and bias (out) from U(1/sqrt(in·prod(kernel))).
struct Conv2d {
  Conv2d(int64_t in_channels, int64_t out_channels, const Ints& kernel, const ConvLayerOptions& options = {});
  Tensor operator()(const Tensor& x) const;
  void each(auto&& visit) const {
    visit("weight", weight);
    visit("bias", bias);
  }

  Tensor weight;
  std::optional<Tensor> bias;
  ConvOptions options;
};

// Normalises each channel (axis 1) over all other axes. In training mode by the batch, whose mean and
// variance also move the running ones; else by the running ones, or by the batch where none are tracked.
struct BatchNorm {
  struct Options {
    double eps = 1e-5;
    bool affine = true;
    bool track_running_stats = true;
    double momentum = 0.1;
  };
  explicit BatchNorm(int64_t channels) : BatchNorm(channels, Options()) {}
  BatchNorm(int64_t channels, const Options& options);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& visit) const {
    visit("weight", weight);
    visit("bias", bias);
    visit("running_mean", running_mean);
    visit("running_var", running_var);
    visit("num_batches_tracked", num_batches_tracked);
  }

  int64_t channels;
  Options options;
  std::optional<Tensor> weight, bias;
  std::optional<Tensor> running_mean, running_var, num_batches_tracked;  // buffers
};
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;
using BatchNorm3d = BatchNorm;

// Normalises over the last axes, which must have `shape`.
struct LayerNorm {
  explicit LayerNorm(const Ints& shape, double eps = 1e-5, bool elementwise_affine = true);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& visit) const {
    visit("weight", weight);
    visit("bias", bias);
  }

  Ints shape;
  double eps;
  std::optional<Tensor> weight, bias;
};

// x / sqrt(mean(x²) + eps) over the last axis, computed in float32, in the dtype of x, times weight.
struct RMSNorm {
  explicit RMSNorm(int64_t dim, double eps = 1e-6, bool elementwise_affine = true);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& visit) const { visit("weight", weight); }

  double eps;
  std::optional<Tensor> weight;
};

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

}  // namespace lathe::nn
