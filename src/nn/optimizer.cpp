#include "nn/optimizer.h"

#include "nn/training.h"

#include <algorithm>

namespace lathe::nn {
namespace {

void add_once(std::vector<Tensor>& list, const Tensor& t) {
  if (std::ranges::none_of(list, [&](const Tensor& other) { return other.is_same(t); })) list.push_back(t);
}

// A value in memory, on the device of `like`.
Tensor in_memory(const Shape& shape, double value, const Tensor& like) {
  return Tensor::full(shape, value, {.dtype = DType::Float32, .device = like.device()}).set_param(false);
}

void realize_all(std::vector<Tensor> todo, std::span<const Tensor> others) {
  todo.insert(todo.end(), others.begin(), others.end());
  Tensor::realize(todo);
}

// Squares of narrower floats overflow or vanish.
Tensor wide(const Tensor& t) { return t.element_size() < 4 ? t.to_float() : t; }

Tensor norm(const Tensor& t) { return wide(t).square().sum().sqrt(); }

// x where both norms are above 0, else 1.
Tensor or_one(const Tensor& a, const Tensor& b, const Tensor& x) { return ((a > 0) & (b > 0)).where(x, 1.0); }

// b = momentum·b + g, and what a step takes of it.
Tensor with_momentum(Tensor& b, const Tensor& g, double momentum, bool nesterov) {
  b.assign((momentum * b + g).reshape(b.shape()).cast(b.dtype()));
  return nesterov ? g + momentum * b : b;
}

}  // namespace

Optimizer::Optimizer(const std::vector<Tensor>& tensors, double lr) {
  if (!(lr >= 0)) value_error("Invalid learning rate: {}", lr);
  for (const Tensor& t : tensors) add_once(t.is_param() ? params_ : buffers_, t);
  if (params_.empty())
    value_error("optimizer must have at least one param, got {} tensors that are none", tensors.size());
  this->lr = in_memory({1}, lr, params_[0]);
}

void Optimizer::set_lr(double rate) {
  if (!(rate >= 0)) value_error("Invalid learning rate: {}", rate);
  lr.assign(in_memory({1}, rate, lr)).realize();
}

std::vector<Tensor> Optimizer::make_state(std::string_view name) {
  std::vector<Tensor> out;
  for (const Tensor& p : params_) {
    state_.emplace_back(fmt::format("{}.{}", name, out.size()),
                        p.full_like(0, {DType::Float32}).set_param(false));
    out.push_back(state_.back().second);
  }
  return out;
}

Tensor Optimizer::make_state(std::string_view name, double value) {
  return state_.emplace_back(name, in_memory({1}, value, params_[0])).second;
}

void Optimizer::shard_state() {
  for (auto& [name, t] : state_) {
    const std::vector<std::string> devices = split_devices(t.device());
    const auto n = static_cast<int64_t>(devices.size());
    if (n == 1 || t.shard_axis()) continue;
    const auto axis = std::ranges::find_if(t.shape(), [&](const SInt& d) { return d.value() % n == 0; });
    if (axis != t.shape().end()) t.replace(t.to(devices[0]).shard(devices, axis - t.shape().begin()));
  }
}

void Optimizer::zero_grad() {
  for (Tensor& p : params_) p.set_grad(std::nullopt);
}

void Optimizer::check_ready() const {
  if (!is_training())
    user_runtime_error(
        "an optimizer steps only in training mode (the TRAINING knob): open an nn::TrainingScope first");
  for (size_t i = 0; i < params_.size(); i++)
    if (!params_[i].grad())
      user_runtime_error(
          "parameter {} of shape {} has no gradient: call backward() on a loss that depends on it", i,
          params_[i].shape());
}

std::vector<Tensor> Optimizer::schedule_step() {
  check_ready();
  begin_step();
  for (size_t i = 0; i < params_.size(); i++) {
    Tensor& p = params_[i];
    Tensor change = update(i, wide(*p.grad())).cast(p.dtype());
    // The learning rate has one axis, so that a parameter without axes needs its own back.
    if (change.ndim() != p.ndim()) change = change.reshape(p.shape());
    p.assign(p.detach() - change);
  }
  std::vector<Tensor> out;
  for (const auto& [name, t] : state_) out.push_back(t);
  out.insert(out.end(), params_.begin(), params_.end());
  out.insert(out.end(), buffers_.begin(), buffers_.end());
  return out;
}

void Optimizer::step(std::span<const Tensor> others) { realize_all(schedule_step(), others); }

void OptimizerGroup::zero_grad() {
  for (Optimizer& optimizer : list_) optimizer.zero_grad();
}

std::vector<Tensor> OptimizerGroup::schedule_step() {
  for (const Optimizer& optimizer : list_) optimizer.check_ready();
  std::vector<Tensor> out;
  for (Optimizer& optimizer : list_)
    for (Tensor& t : optimizer.schedule_step()) out.push_back(std::move(t));
  return out;
}

void OptimizerGroup::step(std::span<const Tensor> others) { realize_all(schedule_step(), others); }

SGD::SGD(const std::vector<Tensor>& tensors, const Options& options)
    : Optimizer(tensors, options.lr), options_(options) {
  if (options.momentum != 0) momentum_ = make_state("momentum");
}

Tensor SGD::update(size_t i, const Tensor& grad) {
  const Tensor own_rate = rate(i, grad);
  Tensor g = grad;
  if (options_.weight_decay > 0) g = g + options_.weight_decay * params()[i].detach();
  if (options_.classic) g = g * own_rate;
  if (options_.momentum != 0) g = with_momentum(momentum_[i], g, options_.momentum, options_.nesterov);
  return options_.classic ? g : g * own_rate;
}

LARS::LARS(const std::vector<Tensor>& tensors, const Options& o)
    : SGD(tensors, {.lr = o.lr,
                    .momentum = o.momentum,
                    .weight_decay = o.weight_decay,
                    .nesterov = o.nesterov,
                    .classic = o.classic}),
      weight_decay_(o.weight_decay),
      trust_(o.trust) {}

Tensor LARS::rate(size_t i, const Tensor& grad) const {
  const Tensor p = norm(params()[i].detach()), g = norm(grad);
  return lr * or_one(p, g, trust_ * p / (g + weight_decay_ * p));
}

Muon::Muon(const std::vector<Tensor>& tensors, const Options& options)
    : Optimizer(tensors, options.lr), options_(options), momentum_(make_state("momentum")) {}

Tensor Muon::update(size_t i, const Tensor& grad) {
  const Tensor g = with_momentum(momentum_[i], grad, options_.momentum, options_.nesterov);
  const Tensor matrix = g.reshape({g.ndim() > 0 ? g.shape()[0] : SInt(1), -1});
  Tensor change = matrix.newton_schulz(options_.ns_steps, options_.ns_params).reshape(g.shape());
  if (options_.weight_decay > 0) change = change + options_.weight_decay * params()[i].detach();
  return lr * change;
}

Adam::Adam(const std::vector<Tensor>& tensors, const AdamOptions& options)
    : Optimizer(tensors, options.lr),
      options_(options),
      b1_power_(make_state("b1_power", 1)),
      b2_power_(make_state("b2_power", 1)),
      m_(make_state("m")),
      v_(make_state("v")) {}

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
  return lr * scaled(i, change);
}

Tensor LAMB::scaled(size_t i, const Tensor& change) const {
  const Tensor p = norm(params()[i].detach()), c = norm(change);
  return change * or_one(p, c, p / c);
}

}  // namespace lathe::nn
