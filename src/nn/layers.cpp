#include "nn/layers.h"

#include "nn/training.h"

#include <cmath>
#include <string_view>

namespace lathe::nn {
namespace {

Tensor uniform_weight(const Shape& shape, int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return Tensor::uniform(shape, -bound, bound);
}

Tensor buffer(Tensor value) { return value.set_param(false); }

int64_t product(const Ints& sizes) {
  int64_t out = 1;
  for (int64_t size : sizes) out *= size;
  return out;
}

// Before and after for each axis, last axis first. Where the total is odd the end gets one more.
Ints same_padding(const Ints& kernel, const Ints& dilation) {
  Ints out;
  for (size_t i = kernel.size(); i-- > 0;) {
    const int64_t total = dilation[dilation.size() == 1 ? 0 : i] * (kernel[i] - 1);
    out.push_back(total / 2);
    out.push_back(total - total / 2);
  }
  return out;
}

Shape to_shape(const Ints& sizes) { return Shape(sizes.begin(), sizes.end()); }

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias)
    : weight(uniform_weight({out_features, in_features}, in_features)) {
  if (with_bias) bias = uniform_weight({out_features}, in_features);
}

Tensor Linear::operator()(const Tensor& x) const { return x.linear(weight.transpose(), bias); }

ConvPadding::ConvPadding(const char* name) : is_same(std::string_view(name) == "same") {
  if (!is_same) value_error("Invalid padding string '{}', only 'same' is supported", name);
}

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, const Ints& kernel, const ConvLayerOptions& given)
    : options{.stride = given.stride,
              .padding = given.padding.amounts,
              .dilation = given.dilation,
              .groups = given.groups,
              .dtype = std::nullopt} {
  const Ints sizes = kernel.size() == 1 ? Ints{kernel[0], kernel[0]} : kernel;
  if (given.groups < 1 || in_channels % given.groups != 0 || out_channels % given.groups != 0)
    value_error("{} input and {} output channels cannot be split into {} groups", in_channels, out_channels,
                given.groups);
  if (given.padding.is_same) {
    for (int64_t s : given.stride)
      if (s != 1) value_error("padding='same' is not supported for strided convolutions");
    options.padding = same_padding(sizes, given.dilation);
  }
  Shape shape{out_channels, in_channels / given.groups};
  for (int64_t size : sizes) shape.push_back(size);
  const int64_t fan_in = in_channels * product(sizes);
  weight = uniform_weight(shape, fan_in);
  if (given.bias) bias = uniform_weight({out_channels}, fan_in);
}

Tensor Conv2d::operator()(const Tensor& x) const { return x.conv2d(weight, bias, options); }

BatchNorm::BatchNorm(int64_t channels, const Options& options) : channels(channels), options(options) {
  if (options.affine) {
    weight = Tensor::ones({channels});
    bias = Tensor::zeros({channels});
  }
  if (options.track_running_stats) {
    running_mean = buffer(Tensor::zeros({channels}));
    running_var = buffer(Tensor::ones({channels}));
    num_batches_tracked = buffer(Tensor::zeros({}, {.dtype = DType::Int64, .device = ""}));
  }
}

Tensor BatchNorm::operator()(const Tensor& x) const {
  if (x.ndim() < 2 || !(x.shape()[1] == SInt(channels)))
    value_error("batch norm of {} channels got an input of shape {}", channels, to_string(x.shape()));
  const bool tracks = options.track_running_stats;
  if (tracks && !is_training())
    return x.batchnorm(weight, bias, *running_mean, (*running_var + options.eps).rsqrt());

  Ints others;
  Shape per_channel(static_cast<size_t>(x.ndim()), SInt(1));
  per_channel[1] = channels;
  for (int64_t axis = 0; axis < x.ndim(); axis++)
    if (axis != 1) others.push_back(axis);
  const Tensor mean = x.mean(others);
  // The derivative of the variance by the mean is 0, hence the detach.
  const Tensor var = (x - mean.detach().reshape(per_channel)).square().mean(others);
  if (tracks) {
    const int64_t count = x.numel().value();
    if (count == channels)
      value_error("batch norm cannot train on one value a channel (shape {})", to_string(x.shape()));
    const double m = options.momentum;
    const double unbiased = static_cast<double>(count) / static_cast<double>(count - channels);
    Tensor moving_mean = *running_mean, moving_var = *running_var, batches = *num_batches_tracked;
    moving_mean.assign(((1 - m) * moving_mean + m * mean.detach()).cast(moving_mean.dtype()));
    moving_var.assign(((1 - m) * moving_var + m * unbiased * var.detach()).cast(moving_var.dtype()));
    batches += 1;
  }
  return x.batchnorm(weight, bias, mean, (var + options.eps).rsqrt());
}

LayerNorm::LayerNorm(const Ints& shape, double eps, bool elementwise_affine) : shape(shape), eps(eps) {
  if (!elementwise_affine) return;
  weight = Tensor::ones(to_shape(shape));
  bias = Tensor::zeros(to_shape(shape));
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const Shape wanted = to_shape(shape);
  const Shape& given = x.shape();
  if (given.size() < wanted.size() ||
      !std::equal(wanted.begin(), wanted.end(), given.end() - static_cast<std::ptrdiff_t>(wanted.size())))
    value_error("layer norm over {} got an input of shape {}", to_string(wanted), to_string(given));
  Ints axes;
  for (size_t i = 0; i < wanted.size(); i++) axes.push_back(-1 - static_cast<int64_t>(i));
  const Tensor normal = x.layernorm(axes, eps);
  return weight ? normal * *weight + *bias : normal;
}

RMSNorm::RMSNorm(int64_t dim, double eps, bool elementwise_affine) : eps(eps) {
  if (elementwise_affine) weight = Tensor::ones({dim});
}

Tensor RMSNorm::operator()(const Tensor& x) const {
  const Tensor wide = x.to_float();
  const Tensor normal = (wide * (wide.square().mean(-1, true) + eps).rsqrt()).cast(x.dtype());
  return weight ? normal * *weight : normal;
}

Embedding::Embedding(int64_t vocabulary, int64_t dim) : weight(Tensor::glorot_uniform({vocabulary, dim})) {}

Tensor Embedding::operator()(const Tensor& index) const {
  if (!is_int(index.dtype()))
    type_error("Expected integer dtype for index in embedding, got dtypes.{}", dtype_name(index.dtype()));
  // A sum over the rows with one that counts: an index that no row has gives zeros. The scheduler makes it a
  // load.
  const Tensor rows = Tensor::arange(weight.shape()[0].value());
  const Tensor is_row = rows.eq(index.unsqueeze(-1)).unsqueeze(-1);
  return is_row.where(weight, 0).sum(-2);
}

}  // namespace lathe::nn
