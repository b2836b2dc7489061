// Gradients of tensors.
#include "tensor/gradient.h"
#include "tensor/pending.h"
#include "tensor/promote.h"
#include "tensor/state.h"

#include <atomic>
#include <unordered_set>

namespace lathe {
namespace {

// What flows in at the root: the given gradient, or 1 for a scalar.
UOp root_gradient(const Tensor& root, const std::optional<Tensor>& given) {
  if (!is_float(root.dtype()))
    user_runtime_error("only float Tensors have gradient, got dtypes.{}", root.dtype());
  if (!given) {
    if (root.ndim() != 0)
      user_runtime_error(
          "when no gradient is provided, backward must be called on a scalar tensor, got shape {}",
          root.shape());
    return Tensor(1.0, root.dtype()).uop();
  }
  if (!(given->shape() == root.shape()))
    value_error("gradient shape must match tensor shape, {} != {}", given->shape(), root.shape());
  return promote(given->uop(), root.dtype());
}

}  // namespace

void set_gradient(
    CallArg& arg,
    std::function<std::vector<UOp>(const UOp& call, const std::vector<UOp>& grads)> of_arguments) {
  static std::atomic<int64_t> next{1};
  arg.gradient_id = next.fetch_add(1);
  arg.gradient = std::make_shared<const CallGradient>(CallGradient{std::move(of_arguments)});
}

const Tensor& Tensor::backward(const std::optional<Tensor>& gradient) const {
  const UOp root = uop(), seed = root_gradient(*this, gradient);
  std::unordered_set<const Node*> below;
  for (const UOp& u : toposort(root)) below.insert(u.node());
  std::vector<Tensor> tensors;
  std::vector<UOp> targets;
  {
    const auto lock = lock_tensors();
    for (auto& s : LiveTensors::instance().all()) {
      if (!is_float(s.uop.dtype()) || is_weak(s.uop.dtype()) || s.uop.device().empty()) continue;
      if (!below.count(s.uop.node())) continue;
      targets.push_back(s.uop);
      tensors.push_back(TensorState::handle(std::move(s.state)));
    }
  }
  const std::vector<UOp> found = gradients({&root, 1}, {&seed, 1}, targets);
  for (size_t i = 0; i < tensors.size(); i++) {
    if (!found[i]) continue;
    if (std::optional<Tensor> known = tensors[i].grad())
      *known += Tensor(found[i]);
    else
      tensors[i].set_grad(Tensor(found[i]));
  }
  return *this;
}

std::vector<Tensor> Tensor::gradient(const std::vector<Tensor>& targets,
                                     const std::optional<Tensor>& gradient) const {
  std::vector<UOp> nodes;
  for (const Tensor& t : targets) {
    if (!is_float(t.dtype()))
      user_runtime_error("only float Tensors have gradient, got dtypes.{}", t.dtype());
    if (is_weak(t.dtype())) user_runtime_error("cannot take gradient wrt a weak Tensor");
    nodes.push_back(t.uop());
  }
  const UOp root = uop(), seed = root_gradient(*this, gradient);
  const std::vector<UOp> found = gradients({&root, 1}, {&seed, 1}, nodes);
  std::vector<Tensor> out;
  for (size_t i = 0; i < found.size(); i++)
    out.push_back(found[i] ? Tensor(found[i]) : targets[i].const_like(0));
  return out;
}

std::optional<Tensor> Tensor::grad() const {
  if (!state_->grad) return std::nullopt;
  return Tensor(state_->grad);
}

void Tensor::set_grad(const std::optional<Tensor>& grad) {
  state_->grad = nullptr;
  if (!grad) return;
  // A state of its own: the mark must not stick to the tensor given.
  state_->grad = TensorState::make(grad->uop());
  state_->grad->is_gradient = true;
}

}  // namespace lathe
