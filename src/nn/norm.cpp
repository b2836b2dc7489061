#include "nn/norm.h"

#include "nn/training.h"

#include <algorithm>

namespace lathe::nn {
namespace {

Tensor buffer(Tensor value) { return value.set_param(false); }

Shape to_shape(const Ints& sizes) { return Shape(sizes.begin(), sizes.end()); }

}  // namespace

Affine::Affine(const Shape& shape, bool affine) {
  if (!affine) return;
  weight = Tensor::ones(shape);
  bias = Tensor::zeros(shape);
}

BatchNorm::BatchNorm(int64_t channels, const Options& options)
    : Affine({channels}, options.affine), channels(channels), options(options) {
  if (options.track_running_stats) {
    running_mean = buffer(Tensor::zeros({channels}));
    running_var = buffer(Tensor::ones({channels}));
    num_batches_tracked = buffer(Tensor::zeros({}, {.dtype = DType::Int64, .device = ""}));
  }
}

Tensor BatchNorm::operator()(const Tensor& x) const {
  if (x.ndim() < 2 || !(x.shape()[1] == SInt(channels)))
    value_error("batch norm of {} channels got an input of shape {}", channels, x.shape());
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
    if (count <= channels)
      value_error("batch norm cannot train on fewer than two values a channel (shape {})", x.shape());
    const double m = options.momentum;
    const double unbiased = static_cast<double>(count) / static_cast<double>(count - channels);
    Tensor moving_mean = *running_mean, moving_var = *running_var, batches = *num_batches_tracked;
    moving_mean.assign(((1 - m) * moving_mean + m * mean.detach()).cast(moving_mean.dtype()));
    moving_var.assign(((1 - m) * moving_var + m * unbiased * var.detach()).cast(moving_var.dtype()));
    batches += 1;
  }
  return x.batchnorm(weight, bias, mean, (var + options.eps).rsqrt());
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, bool affine)
    : Affine({channels}, affine), groups(groups), channels(channels), eps(eps) {
  if (groups < 1 || channels % groups != 0)
    value_error("{} channels cannot be split into {} groups", channels, groups);
}

Tensor GroupNorm::operator()(const Tensor& x) const {
  if (x.ndim() < 2 || !(x.shape()[1] == SInt(channels)))
    value_error("group norm of {} channels got an input of shape {}", channels, x.shape());
  const Tensor normal = x.reshape({x.shape()[0], groups, -1}).layernorm(-1, eps).reshape(x.shape());
  if (!weight) return normal;
  Shape per_channel(static_cast<size_t>(x.ndim()), SInt(1));
  per_channel[1] = channels;
  return normal * weight->reshape(per_channel) + bias->reshape(per_channel);
}

LayerNorm::LayerNorm(const Ints& shape, double eps, bool elementwise_affine)
    : Affine(to_shape(shape), elementwise_affine), shape(shape), eps(eps) {}

Tensor LayerNorm::operator()(const Tensor& x) const {
  const Shape wanted = to_shape(shape);
  const Shape& given = x.shape();
  if (given.size() < wanted.size() ||
      !std::equal(wanted.begin(), wanted.end(), given.end() - static_cast<std::ptrdiff_t>(wanted.size())))
    value_error("layer norm over {} got an input of shape {}", wanted, given);
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

}  // namespace lathe::nn
