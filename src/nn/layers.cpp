#include "nn/layers.h"

#include <cmath>
#include <string_view>

namespace lathe::nn {
namespace {

Tensor uniform_weight(const Shape& shape, int64_t fan_in) {
  if (fan_in == 0) return Tensor::zeros(shape);  // no bound is small enough
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return Tensor::uniform(shape, -bound, bound);
}

int64_t checked_groups(int64_t in_channels, int64_t out_channels, int64_t groups) {
  if (groups < 1 || in_channels % groups != 0 || out_channels % groups != 0)
    value_error("{} input and {} output channels cannot be split into {} groups", in_channels, out_channels,
                groups);
  return groups;
}

// One size stands for all axes.
Ints one_per_axis(const char* name, int64_t axes, const Ints& sizes) {
  if (sizes.size() != 1 && static_cast<int64_t>(sizes.size()) != axes)
    value_error("a {} of {} sizes for {} axes", name, sizes.size(), axes);
  Ints out;
  for (size_t i = 0; i < static_cast<size_t>(axes); i++) out.push_back(sizes[sizes.size() == 1 ? 0 : i]);
  return out;
}

Ints kernel_sizes(int64_t axes, const Ints& kernel) { return one_per_axis("kernel", axes, kernel); }

// Before and after for each axis, last axis first. Where the total is odd the end gets one more.
Ints same_padding(const Ints& kernel, const Ints& dilation) {
  Ints out;
  for (size_t i = kernel.size(); i-- > 0;) {
    const int64_t total = dilation[i] * (kernel[i] - 1);
    out.push_back(total / 2);
    out.push_back(total - total / 2);
  }
  return out;
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias)
    : weight(uniform_weight({out_features, in_features}, in_features)) {
  if (with_bias) bias = uniform_weight({out_features}, in_features);
}

Tensor Linear::operator()(const Tensor& x) const { return x.linear(weight.transpose(), bias); }

ConvPadding::ConvPadding(const char* name) : is_same(std::string_view(name) == "same") {
  if (!is_same) value_error("Invalid padding string '{}', only 'same' is supported", name);
}

ConvWeights::ConvWeights(Shape channels, int64_t out_channels, const Ints& kernel, int64_t in_channels,
                         bool with_bias) {
  Shape shape = std::move(channels);
  int64_t fan_in = in_channels;
  for (int64_t size : kernel) {
    shape.push_back(size);
    fan_in *= size;
  }
  weight = uniform_weight(shape, fan_in);
  if (with_bias) bias = uniform_weight({out_channels}, fan_in);
}

Conv::Conv(int64_t axes, int64_t in_channels, int64_t out_channels, const Ints& kernel,
           const ConvLayerOptions& given)
    : ConvWeights({out_channels, in_channels / checked_groups(in_channels, out_channels, given.groups)},
                  out_channels, kernel_sizes(axes, kernel), in_channels, given.bias),
      options{.stride = given.stride,
              .padding = given.padding.amounts,
              .dilation = given.dilation,
              .groups = given.groups,
              .dtype = std::nullopt} {
  if (!given.padding.is_same) return;
  for (int64_t s : given.stride)
    if (s != 1) value_error("padding='same' is not supported for strided convolutions");
  options.padding = same_padding(kernel_sizes(axes, kernel), one_per_axis("dilation", axes, given.dilation));
}

Tensor Conv::operator()(const Tensor& x) const { return x.conv2d(weight, bias, options); }

ConvTranspose::ConvTranspose(int64_t axes, int64_t in_channels, int64_t out_channels, const Ints& kernel,
                             const ConvTransposeLayerOptions& given)
    : ConvWeights({in_channels, out_channels / checked_groups(in_channels, out_channels, given.groups)},
                  out_channels, kernel_sizes(axes, kernel), in_channels, given.bias),
      options{.stride = given.stride,
              .padding = given.padding,
              .dilation = given.dilation,
              .groups = given.groups,
              .output_padding = given.output_padding} {}

Tensor ConvTranspose::operator()(const Tensor& x) const { return x.conv_transpose2d(weight, bias, options); }

Embedding::Embedding(int64_t vocabulary, int64_t dim) : weight(Tensor::glorot_uniform({vocabulary, dim})) {}

Tensor Embedding::operator()(const Tensor& index) const {
  if (!is_int(index.dtype()))
    type_error("Expected integer dtype for index in embedding, got dtypes.{}", index.dtype());
  // A sum over the rows with one that counts: an index that no row has gives zeros. The scheduler makes it a
  // load.
  const Tensor rows = Tensor::arange(weight.shape()[0].value());
  const Tensor is_row = rows.eq(index.unsqueeze(-1)).unsqueeze(-1);
  return is_row.where(weight, 0).sum(-2);
}

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, bool with_bias)
    : hidden_size(hidden_size),
      weight_ih(uniform_weight({4 * hidden_size, input_size}, hidden_size)),
      weight_hh(uniform_weight({4 * hidden_size, hidden_size}, hidden_size)) {
  if (!with_bias) return;
  bias_ih = Tensor::zeros({4 * hidden_size});
  bias_hh = Tensor::zeros({4 * hidden_size});
}

LSTMCell::State LSTMCell::operator()(const Tensor& x, const std::optional<State>& before) const {
  Tensor gates = x.linear(weight_ih.transpose(), bias_ih);
  if (before) gates = gates + before->h.linear(weight_hh.transpose(), bias_hh);
  // Without a state h is 0, and only the bias is left of its product.
  else if (bias_hh)
    gates = gates + *bias_hh;
  const std::vector<Tensor> part = gates.chunk(4, -1);
  const Tensor added = part[0].sigmoid() * part[2].tanh();
  const Tensor c = (before ? part[1].sigmoid() * before->c + added : added).contiguous();
  return {.h = (part[3].sigmoid() * c.tanh()).contiguous(), .c = c};
}

MultiheadAttention::MultiheadAttention(int64_t dim, int64_t heads, bool with_bias)
    : heads(heads), in_proj_weight(Tensor::glorot_uniform({3 * dim, dim})), out_proj(dim, dim, with_bias) {
  if (heads < 1 || dim % heads != 0) value_error("{} features cannot be split into {} heads", dim, heads);
  if (with_bias) in_proj_bias = Tensor::zeros({3 * dim});
}

Tensor MultiheadAttention::operator()(const Tensor& x, const Options& options) const {
  if (x.ndim() != 3) value_error("attention wants (batch, length, features), got {}", x.shape());
  const std::vector<Tensor> weights = in_proj_weight.chunk(3);
  const std::vector<Tensor> biases = in_proj_bias ? in_proj_bias->chunk(3) : std::vector<Tensor>();
  auto projected = [&](size_t i, const Tensor& source) {
    const auto bias = biases.empty() ? std::nullopt : std::optional(biases[i]);
    return source.linear(weights[i].transpose(), bias).unflatten(-1, {heads, -1}).transpose(1, 2);
  };
  const Tensor& other = options.context ? *options.context : x;
  const Tensor mixed = projected(0, x).scaled_dot_product_attention(
      projected(1, other), projected(2, other), options.mask,
      {.dropout_p = options.dropout, .is_causal = options.is_causal});
  return out_proj(mixed.transpose(1, 2).flatten(2));
}

}  // namespace lathe::nn
