#include "nn/optimizer.h"

#include "nn/training.h"

#include <algorithm>

namespace lathe::nn {
namespace {

void add_once(std::vector<Tensor>& list, const Tensor& t) {
  if (std::none_of(list.begin(), list.end(), [&](const Tensor& other) { return other.is_same(t); }))
    list.push_back(t);
}

// A value in memory, on the device of `like`.
Tensor in_memory(const Shape& shape, double value, const Tensor& like) {
  return Tensor::full(shape, value, {.dtype = DType::Float32, .device = like.device()}).set_param(false);
}

}  // namespace

Optimizer::Optimizer(const std::vector<Tensor>& tensors, double lr) {
  if (!(lr >= 0)) value_error("Invalid learning rate: {}", lr);
  for (const Tensor& t : tensors) add_once(t.is_param() ? params_ : buffers_, t);
  if (params_.empty())
    value_error("optimizer must have at least one param, got {} tensors that are none", tensors.size());
  this->lr = in_memory({1}, lr, params_[0]);
}

std::vector<Tensor> Optimizer::make_state() const {
  std::vector<Tensor> out;
  for (const Tensor& p : params_) out.push_back(in_memory(p.shape(), 0, p));
  return out;
}

void Optimizer::zero_grad() {
  for (Tensor& p : params_) p.set_grad(std::nullopt);
}

std::vector<Tensor> Optimizer::schedule_step() {
  if (!is_training())
    user_runtime_error(
        "an optimizer steps only in training mode (the TRAINING knob): open an nn::TrainingScope first");
  for (size_t i = 0; i < params_.size(); i++)
    if (!params_[i].grad())
      user_runtime_error(
          "parameter {} of shape {} has no gradient: call backward() on a loss that depends on it", i,
          to_string(params_[i].shape()));
  begin_step();
  for (size_t i = 0; i < params_.size(); i++) {
    Tensor& p = params_[i];
    Tensor change = update(i, *p.grad()).cast(p.dtype());
    // The learning rate has one axis, so that a parameter without axes needs its own back.
    if (change.ndim() != p.ndim()) change = change.reshape(p.shape());
    p.assign(p.detach() - change);
  }
  std::vector<Tensor> out = state();
  out.insert(out.end(), params_.begin(), params_.end());
  out.insert(out.end(), buffers_.begin(), buffers_.end());
  return out;
}

void Optimizer::step(std::span<const Tensor> others) {
  std::vector<Tensor> todo = schedule_step();
  todo.insert(todo.end(), others.begin(), others.end());
  Tensor::realize(todo);
}

SGD::SGD(const std::vector<Tensor>& tensors, const Options& options)
    : Optimizer(tensors, options.lr), options_(options) {
  if (options.momentum != 0) momentum_ = make_state();
}

Tensor SGD::update(size_t i, const Tensor& grad) {
  Tensor g = grad;
  if (options_.weight_decay > 0) g = g + options_.weight_decay * params()[i].detach();
  if (options_.classic) g = g * lr;
  if (options_.momentum != 0) {
    Tensor& b = momentum_[i];
    b.assign((options_.momentum * b + g).reshape(b.shape()).cast(b.dtype()));
    g = options_.nesterov ? g + options_.momentum * b : b;
  }
  return options_.classic ? g : g * lr;
}

Adam::Adam(const std::vector<Tensor>& tensors, const AdamOptions& options)
    : Optimizer(tensors, options.lr),
      options_(options),
      b1_power_(in_memory({1}, 1, params()[0])),
      b2_power_(in_memory({1}, 1, params()[0])),
      m_(make_state()),
      v_(make_state()) {}

std::vector<Tensor> Adam::state() const {
  std::vector<Tensor> out{b1_power_, b2_power_};
  out.insert(out.end(), m_.begin(), m_.end());
  out.insert(out.end(), v_.begin(), v_.end());
  return out;
}

void Adam::begin_step() {
  b1_power_ *= options_.b1;
  b2_power_ *= options_.b2;
}

Tensor Adam::update(size_t i, const Tensor& grad) {
  Tensor &m = m_[i], &v = v_[i];
  m.assign((options_.b1 * m + (1 - options_.b1) * grad).cast(m.dtype()));
  v.assign((options_.b2 * v + (1 - options_.b2) * (grad * grad)).cast(v.dtype()));
  const Tensor m_hat = m / (1 - b1_power_);
  const Tensor v_hat = v / (1 - b2_power_);
  Tensor change = m_hat / (v_hat.sqrt() + options_.eps);
  if (options_.weight_decay != 0) change = change + options_.weight_decay * params()[i].detach();
  return lr * change;
}

}  // namespace lathe::nn
