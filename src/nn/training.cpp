#include "nn/training.h"

#include <algorithm>

namespace lathe::nn {
namespace {

bool is_in(const std::vector<Tensor>& list, const Tensor& t) {
  return std::ranges::any_of(list, [&](const Tensor& other) { return other.is_same(t); });
}

}  // namespace

std::vector<Tensor> with_gradient(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors)
    if (t.is_param() && t.grad() && !is_in(out, t)) out.push_back(t);
  return out;
}

std::vector<Tensor> gradients(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : with_gradient(tensors)) out.push_back(*t.grad());
  return out;
}

Tensor clip_grad_norm(const std::vector<Tensor>& tensors, double max_norm) {
  if (!(max_norm > 0)) value_error("the norm to clip gradients to must be above 0, got {}", max_norm);
  std::vector<Tensor> squares;
  for (const Tensor& g : gradients(tensors)) squares.push_back(g.to_float().square().sum());
  if (squares.empty())
    value_error("none of {} tensors is a parameter with a gradient to clip", tensors.size());
  const Tensor norm = Tensor::usum(squares).sqrt();
  const Tensor scale = (max_norm / (norm + 1e-6)).minimum(1);
  for (Tensor t : with_gradient(tensors)) t.set_grad((*t.grad() * scale).cast(t.dtype()));
  return norm;
}

void clip_grad_value(const std::vector<Tensor>& tensors, double limit) {
  if (!(limit > 0)) value_error("the value to clip gradients to must be above 0, got {}", limit);
  for (Tensor t : with_gradient(tensors)) t.set_grad(t.grad()->clamp(-limit, limit));
}

void update_average(const std::vector<Tensor>& average, const std::vector<Tensor>& values, double decay) {
  if (!(decay >= 0 && decay <= 1)) value_error("the decay of an average must be in [0, 1], got {}", decay);
  if (average.size() != values.size())
    value_error("an average of {} tensors cannot follow {}", average.size(), values.size());
  for (size_t i = 0; i < values.size(); i++)
    if (!(average[i].shape() == values[i].shape()))
      value_error("an average of shape {} cannot follow tensor {} of shape {}", average[i].shape(), i,
                  values[i].shape());
  std::vector<Tensor> moved;
  for (size_t i = 0; i < values.size(); i++) {
    Tensor mean = average[i];
    if (is_in(moved, mean)) continue;  // a tensor with two names
    moved.push_back(mean);
    const Tensor value = values[i].detach();
    const bool is_mean = decay > 0 && mean.is_param();
    mean.assign((is_mean ? decay * mean.detach() + (1 - decay) * value : value).cast(mean.dtype()));
  }
  Tensor::realize(average);
}

}  // namespace lathe::nn
