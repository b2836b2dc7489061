// Products, normalisation and losses.
#include "formats/onnx/call.h"
#include "formats/onnx/window.h"

namespace lathe::onnx {

Tensor gemm(const Call& c, Tensor a, Tensor b, const std::optional<Tensor>& bias) {
  if (c.attr_flag("transA")) a = a.transpose();
  if (c.attr_flag("transB")) b = b.transpose();
  const double alpha = c.attr_real("alpha", 1), beta = c.attr_real("beta", 1);
  Tensor y = a.matmul(b);
  if (alpha != 1) y = y.mul(alpha).cast(a.dtype());
  if (!bias || beta == 0) return y;
  return y.add(beta == 1 ? *bias : bias->mul(beta).cast(a.dtype()));
}

namespace {

// A list of numbers for each channel, aligned with axis 1.
Tensor per_channel(const Tensor& t, const Tensor& x) { return along(t, 1, x.ndim()); }

Values batch_normalization(const Call& c) {
  const Tensor& x = c[0];
  const double epsilon = c.attr_real("epsilon", 1e-5), momentum = c.attr_real("momentum", 0.9);
  Tensor mean = c[3], variance = c[4];
  Values running;
  if (c.attr_flag("training_mode")) {
    Ints axes = axes_between(1, x.ndim());
    axes[0] = 0;  // all but the channels
    mean = x.mean(axes);
    variance = x.var(axes, false, 0);
    running = {c[3].mul(momentum).add(mean.mul(1 - momentum)),
               c[4].mul(momentum).add(variance.mul(1 - momentum))};
  }
  const DType wide = join(x.dtype(), variance.dtype());
  const Tensor inverse = variance.cast(wide).add(epsilon).rsqrt();
  running.insert(running.begin(), x.cast(wide).batchnorm(c[1], c[2], mean, inverse).cast(x.dtype()));
  return running;
}

Tensor instance_normalization(const Call& c) {
  return c[0]
      .layernorm(axes_between(2, c[0].ndim()), c.attr_real("epsilon", 1e-5))
      .mul(per_channel(c[1], c[0]))
      .add(per_channel(c[2], c[0]));
}

Tensor group_normalization(const Call& c) {
  const Tensor& x = c[0];
  const int64_t groups = c.attr_int("num_groups");
  const DType computed = static_cast<ElementType>(c.attr_int("stash_type", 1)) == ElementType::Float
                             ? join(x.dtype(), DType::Float32)
                             : x.dtype();
  const Tensor split = x.cast(computed).reshape({x.size(0), SInt(groups), SInt(-1)});
  Tensor y = split.layernorm(2, c.attr_real("epsilon", 1e-5));
  // Opset 18 had a scale and a bias for each group, later ones for each channel.
  if (c.opset() < 21)
    return y.mul(c[1].unsqueeze(-1)).add(c[2].unsqueeze(-1)).reshape(x.shape()).cast(x.dtype());
  y = y.reshape(x.shape()).cast(x.dtype());
  return y.mul(per_channel(c[1], x)).add(per_channel(c[2], x));
}

// Layer and RMS normalisation are computed in the type that `stash_type` names.
Tensor stashed(const Call& c) {
  const ElementInfo& info = known_element(static_cast<ElementType>(c.attr_int("stash_type", 1)));
  return c[0].cast(join(info.dtype, c[0].dtype()));
}

Values layer_normalization(const Call& c) {
  const Tensor x = stashed(c);
  const Axes axes = axes_between(Call::axis(c.attr_int("axis", -1), x.ndim()), x.ndim());
  const Tensor mean = x.mean(axes, true), centred = x.sub(mean);
  const Tensor inverse = centred.square().mean(axes, true).add(c.attr_real("epsilon", 1e-5)).rsqrt();
  Tensor y = centred.mul(inverse).cast(c[0].dtype());
  if (c.has(1)) y = y.mul(c[1]);
  return {c.plus(2, y), mean, inverse};
}

Tensor rms_normalization(const Call& c) {
  const Tensor x = stashed(c);
  const Axes axes = axes_between(Call::axis(c.attr_int("axis", -1), x.ndim()), x.ndim());
  const Tensor inverse = x.square().mean(axes, true).add(c.attr_real("epsilon", 1e-5)).rsqrt();
  const Tensor y = x.mul(inverse).cast(c[0].dtype());
  return c.has(1) ? y.mul(c[1]) : y;
}

// Over a window of channels (Krizhevsky, Sutskever and Hinton 2012, section 3.3).
Tensor local_response_normalization(const Call& c) {
  const Tensor& x = c[0];
  const int64_t size = c.attr_int("size"), before = (size - 1) / 2;
  const Tensor channels_last = x.square().transpose(1, -1).pad({before, size - 1 - before});
  const Tensor sums = channels_last.pool(size).sum(-1).transpose(1, -1);
  const double alpha = c.attr_real("alpha", 1e-4) / static_cast<double>(size);
  return x.div(sums.mul(alpha).add(c.attr_real("bias", 1)).pow(c.attr_real("beta", 0.75)));
}

Tensor lp_normalization(const Call& c) {
  const auto axis = static_cast<int>(c.attr_int("axis", -1));
  const Tensor& x = c[0];
  const Tensor norm = c.attr_int("p", 2) == 1 ? x.abs().sum(axis, true) : x.square().sum(axis, true).sqrt();
  return norm.eq(0).where(Tensor(0).cast(x.dtype()), x.div(norm));
}

Tensor mean_variance_normalization(const Call& c) {
  const Axes axes = Ints(c.attr_ints("axes", {0, 2, 3}));
  const Tensor centred = c[0].sub(c[0].mean(axes, true));
  return centred.div(centred.square().mean(axes, true).sqrt().add(1e-9));
}

Values dropout(const Call& c) {
  const Tensor& x = c[0];
  const double ratio = c.has(1) ? c.real(1) : c.attr_real("ratio", 0.5);
  const bool trains = c.has(2) ? c.integer(2) != 0 : c.opset() < 7 && !c.attr_flag("is_test");
  const Tensor all = Tensor::constant_of(x.shape(), true);
  // The mask was of the type of the data before opset 10.
  if (!trains || ratio == 0) return {x, c.opset() < 10 ? all.cast(x.dtype()) : all};
  const Tensor keep = Tensor::rand(x.shape()).ge(ratio).realize();
  return {keep.where(x.div(1 - ratio), 0).cast(x.dtype()), keep};
}

// -log p of the target class, weighted; log probabilities have the classes along axis 1.
Tensor negative_log_likelihood(const Call& c, const Tensor& log_p) {
  const std::string name = c.attr_text("reduction", "mean");
  CrossEntropyOptions options{.reduction = name == "none"  ? Reduction::None
                                           : name == "sum" ? Reduction::Sum
                                                           : Reduction::Mean};
  if (c.attribute("ignore_index")) options.ignore_index = c.attr_int("ignore_index");
  return log_p.nll_loss(c[1].cast(DType::Int64), c.optional(2), options);
}

Values softmax_cross_entropy(const Call& c) {
  const Tensor log_p = c[0].log_softmax(1);
  return {negative_log_likelihood(c, log_p), log_p};
}

Tensor einsum(const Call& c) {
  std::string formula = c.attr_text("equation");
  std::erase(formula, ' ');
  return Tensor::einsum(formula, c.tensors());
}

// By cofactors along the first row, smaller and smaller: no division, so no pivots either.
Tensor determinant(const Tensor& x) {
  const int64_t n = x.size(-1).value();
  if (n > 6) value_error("determinants of {} rows are not supported", n);
  if (n == 1) return x.at(ellipsis, 0, 0);
  Tensor sum = Tensor(0.0, x.dtype());
  for (int64_t i = 0; i < n; i++) {
    const Tensor below = x.at(ellipsis, Slice{1, none}, Slice{});
    std::vector<Tensor> rest;
    if (i > 0) rest.push_back(below.at(ellipsis, Slice{none, i}));
    if (i + 1 < n) rest.push_back(below.at(ellipsis, Slice{i + 1, none}));
    const Tensor minor = determinant(Tensor::cat(rest, -1)).mul(x.at(ellipsis, 0, i));
    sum = i % 2 ? sum.sub(minor) : sum.add(minor);
  }
  return sum;
}

constexpr OpRow kRows[] = {
    {"BatchNormalization", of<batch_normalization>},
    {"Det", [](const Call& c) { return determinant(c[0]); }},
    OpRow{"Dropout", of<dropout>}.random(),
    {"Einsum", of<einsum>},
    {"Gemm", [](const Call& c) { return gemm(c, c[0], c[1], c.optional(2)); }},
    {"GroupNormalization", of<group_normalization>},
    {"InstanceNormalization", of<instance_normalization>},
    {"LRN", of<local_response_normalization>},
    {"LayerNormalization", of<layer_normalization>},
    {"LpNormalization", of<lp_normalization>},
    {"MatMul", [](const Call& c) { return c[0].matmul(c[1]); }},
    {"MeanVarianceNormalization", of<mean_variance_normalization>},
    {"NegativeLogLikelihoodLoss", [](const Call& c) { return negative_log_likelihood(c, c[0]); }},
    {"RMSNormalization", of<rms_normalization>},
    {"SoftmaxCrossEntropyLoss", of<softmax_cross_entropy>},
};

}  // namespace

std::span<const OpRow> neural_ops() { return kRows; }

}  // namespace lathe::onnx
