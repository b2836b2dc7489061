// Normalisation, attention, dropout.
#include "base/knobs.h"
#include "tensor/promote.h"
#include "tensor/tensor.h"

#include <cmath>
#include <limits>

namespace lathe {

Tensor Tensor::layernorm(const Axes& axes, double eps) const {
  const Tensor y = sub(mean(axes, true));
  return y.mul(y.square().mean(axes, true).add(eps).rsqrt());
}

Tensor Tensor::batchnorm(const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                         const Tensor& mean, const Tensor& invstd, const Ints& axes) const {
  Shape along(static_cast<size_t>(ndim()), SInt(1));
  for (int64_t a : axes) {
    const size_t axis = static_cast<size_t>(resolve_dim(a));
    along[axis] = shape()[axis];
  }
  Tensor x = sub(mean.reshape(along));
  if (weight) x = x.mul(weight->reshape(along));
  x = x.mul(invstd.ndim() == static_cast<int64_t>(axes.size()) ? invstd.reshape(along) : invstd);
  return bias ? x.add(bias->reshape(along)) : x;
}

Tensor Tensor::scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                            const std::optional<Tensor>& mask,
                                            const AttentionOptions& options) const {
  if (options.is_causal && mask) user_runtime_error("cannot set attn_mask when is_causal=True");
  Tensor k = key, v = value;
  if (options.enable_gqa) {
    const int64_t heads = size(-3).value();
    for (Tensor* t : {&k, &v}) {
      const int64_t own = t->size(-3).value();
      if (heads % own) value_error("{} query heads are not a multiple of {} key or value heads", heads, own);
      *t = t->repeat_interleave(heads / own, -3);
    }
  }
  const DType wide = join(join(dtype(), key.dtype()), DType::Float32);
  Tensor scores = dot(k.transpose(-2, -1), wide).div(std::sqrt(static_cast<double>(size(-1).value())));
  std::optional<Tensor> bias = mask;
  if (options.is_causal) bias = constant_of(scores.shape(), true).tril();
  if (bias && is_bool(bias->dtype())) bias = bias->where(0.0, -std::numeric_limits<double>::infinity());
  if (bias) scores = scores.add(*bias);
  return scores.cast(dtype()).softmax(-1).dropout(options.dropout_p).dot(v);
}

Tensor Tensor::sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions) const {
  Tensor x = *this;
  for (const auto& f : functions) x = f(x);
  return x;
}

Tensor Tensor::dropout(double p) const {
  if (!(p >= 0 && p <= 1)) value_error("p={} is out of range [0, 1]", p);
  if (!knob(Knob::TRAINING) || p == 0) return *this;
  if (p == 1) return const_like(0);
  const Tensor keep = rand_like({default_float()}).ge(p);
  return keep.contiguous().where(*this, 0).div(1 - p);
}

}  // namespace lathe
