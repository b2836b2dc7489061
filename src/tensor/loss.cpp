// Losses.
#include "tensor/promote.h"
#include "tensor/tensor.h"

namespace lathe {
namespace {

void require_fraction(double label_smoothing) {
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    value_error("label_smoothing must be in [0.0, 1.0], got {}", label_smoothing);
}

// The sum of losses over that of their weights, in at least float32: half-precision sums overflow early.
Tensor weighted_mean(const Tensor& losses, const Tensor& weights) {
  return in_float32(losses, [&](const Tensor& wide) {
    const Tensor total = is_float(weights.dtype()) ? weights.cast(wide.dtype()) : weights;
    return wide.sum().div(total.sum());
  });
}

}  // namespace

Tensor Tensor::reduce_loss(Reduction reduction) const {
  switch (reduction) {
    case Reduction::None: return *this;
    case Reduction::Sum: return sum();
    case Reduction::Mean: return mean();
  }
  value_error("reduction must be none, sum or mean");
}

Tensor Tensor::binary_crossentropy(const Tensor& target, Reduction reduction) const {
  const Tensor one(1);
  return target.neg().mul(log()).sub(one.sub(target).mul(one.sub(*this).log())).reduce_loss(reduction);
}

Tensor Tensor::binary_crossentropy_logits(const Tensor& target, Reduction reduction,
                                          const std::optional<Tensor>& pos_weight) const {
  const Tensor weighted = pos_weight ? pos_weight->mul(target) : target;
  const Tensor of_one = weighted.mul(logsigmoid()), of_zero = Tensor(1).sub(target).mul(neg().logsigmoid());
  return of_one.add(of_zero).neg().reduce_loss(reduction);
}

Tensor Tensor::sparse_categorical_crossentropy(const Tensor& target,
                                               const CrossEntropyOptions& options) const {
  require_fraction(options.label_smoothing);
  const Tensor log_probs = log_softmax();
  const Tensor counts =
      options.ignore_index ? target.ne(*options.ignore_index) : constant_of(target.shape(), true);
  const Tensor y = target.unsqueeze(-1).one_hot_along(size(-1), -1).bitwise_and(counts.unsqueeze(-1));
  const Tensor picked = y.where(log_probs, 0).sum(-1);
  const double s = options.label_smoothing;
  const Tensor smoothed = s == 0 ? picked : picked.mul(1 - s).add(log_probs.mean(-1).mul(counts).mul(s));
  if (options.reduction == Reduction::None) return smoothed.neg();
  if (options.reduction == Reduction::Sum) return smoothed.sum().neg();
  return weighted_mean(smoothed, counts).neg();
}

Tensor Tensor::cross_entropy(const Tensor& target, const CrossEntropyOptions& options) const {
  require_fraction(options.label_smoothing);
  const int axis = ndim() == 1 ? 0 : 1;
  const bool are_classes = !(shape() == target.shape());
  Tensor y = target;
  if (are_classes) {
    Shape without = shape();
    if (ndim() > 0) without.erase(without.begin() + axis);
    if (ndim() == 0 || !(without == target.shape()))
      user_runtime_error("shape mismatch: self.shape={}, Y.shape={}", shape(), target.shape());
    y = target.unsqueeze(axis).one_hot_along(size(axis), axis);
  }
  const double s = options.label_smoothing;
  if (s != 0) y = y.mul(1 - s).add(s / static_cast<double>(size(axis).value()));
  const Tensor loss = log_softmax(axis).mul(y).sum(axis).neg();
  if (!options.ignore_index) return loss.reduce_loss(options.reduction);
  if (!are_classes) value_error("ignore_index needs targets that are classes, not probabilities");
  const Tensor counts = target.ne(*options.ignore_index), counted = counts.where(loss, 0);
  if (options.reduction == Reduction::Mean) return weighted_mean(counted, counts);
  return counted.reduce_loss(options.reduction);
}

Tensor Tensor::nll_loss(const Tensor& target, const std::optional<Tensor>& weight,
                        const CrossEntropyOptions& options) const {
  if (options.label_smoothing != 0) value_error("nll_loss has no label_smoothing: cross_entropy has");
  Tensor w = weight ? weight->at(target)
                    : constant_of(target.shape(), 1, is_float(dtype()) ? strong(dtype()) : default_float());
  if (options.ignore_index) w = w.mul(target.ne(*options.ignore_index));
  const Tensor loss = gather(1, target.unsqueeze(1)).squeeze(1).neg().mul(w);
  if (options.reduction == Reduction::Mean) return weighted_mean(loss, w);
  return loss.reduce_loss(options.reduction);
}

}  // namespace lathe
