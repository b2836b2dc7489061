// Layers that normalise: (x - mean) / sqrt(variance + eps) over some axes, then times weight plus bias.
// `affine` tells whether they have these two, which start as 1 and 0.
#pragma once
#include "tensor/tensor.h"

#include <cstdint>
#include <optional>

namespace lathe::nn {

// What normalised values are multiplied by and what is added.
struct Affine {
  Affine(const Shape& shape, bool affine);
  void each(auto&& visit) const {
    visit("weight", weight);
    visit("bias", bias);
  }

  std::optional<Tensor> weight, bias;
};

// Normalises each channel (axis 1) over all other axes. In training mode by the batch, whose mean and
// variance also move the running ones; else by the running ones, or by the batch where none are tracked.
struct BatchNorm : Affine {
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
    Affine::each(visit);
    visit("running_mean", running_mean);
    visit("running_var", running_var);
    visit("num_batches_tracked", num_batches_tracked);
  }

  int64_t channels;
  Options options;
  std::optional<Tensor> running_mean, running_var, num_batches_tracked;  // buffers
};
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;
using BatchNorm3d = BatchNorm;

// Normalises each group of channels (axis 1) of a sample over the group and the axes behind it; weight and
// bias (channels). ValueError unless the groups divide the channels.
struct GroupNorm : Affine {
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5, bool affine = true);
  Tensor operator()(const Tensor& x) const;

  int64_t groups, channels;
  double eps;
};

// Normalises each channel of a sample by itself.
struct InstanceNorm : GroupNorm {
  explicit InstanceNorm(int64_t channels, double eps = 1e-5, bool affine = true)
      : GroupNorm(channels, channels, eps, affine) {}
};

// Normalises over the last axes, which must have `shape`.
struct LayerNorm : Affine {
  explicit LayerNorm(const Ints& shape, double eps = 1e-5, bool elementwise_affine = true);
  Tensor operator()(const Tensor& x) const;

  Ints shape;
  double eps;
};

// Normalises images (batch, channels, height, width) over the channels of each pixel.
struct LayerNorm2d : LayerNorm {
  explicit LayerNorm2d(int64_t channels, double eps = 1e-5, bool elementwise_affine = true)
      : LayerNorm(channels, eps, elementwise_affine) {}
  Tensor operator()(const Tensor& x) const {
    return LayerNorm::operator()(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
  }
};

// x / sqrt(mean(x²) + eps) over the last axis, computed in float32, in the dtype of x, times weight.
struct RMSNorm {
  explicit RMSNorm(int64_t dim, double eps = 1e-6, bool elementwise_affine = true);
  Tensor operator()(const Tensor& x) const;
  void each(auto&& visit) const { visit("weight", weight); }

  double eps;
  std::optional<Tensor> weight;
};

}  // namespace lathe::nn
