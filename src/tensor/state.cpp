#include "tensor/state.h"

#include "tensor/promote.h"
#include "tensor/view.h"

namespace lathe {

std::shared_ptr<TensorState> TensorState::make(UOp node) {
  auto out = std::make_shared<TensorState>(std::move(node));
  LiveTensors::instance().add(*out);  // not before it has an owner, whom other threads ask for
  return out;
}
TensorState::~TensorState() { LiveTensors::instance().remove(*this); }

void TensorState::stale_error() const {
  if (!is_gradient)
    user_runtime_error(
        "this tensor was made by a call of a captured function that failed before its kernels ran; call it "
        "again");
  user_runtime_error(
      "this gradient was never realized and a tensor it depends on has been overwritten since; call "
      "realize() on "
      "it before the parameters change, or use detach() of the tensor if it is data, which needs no "
      "gradient");
}

bool is_lazy(const UOp& u) {
  if (u.device().empty() || is_weak(u.dtype())) return false;
  return !is_in_memory(view_base(u));
}

LiveTensors& LiveTensors::instance() {
  static auto* const live = new LiveTensors;  // leaked: tensors may be static objects
  return *live;
}

void LiveTensors::index(TensorState& state) {
  if (is_lazy(state.uop)) state.lazy_number = ++last_lazy_number_;
  const UOp base = view_base(state.uop);
  if (!is_storage(base)) return;
  state.indexed_ = base.node();
  by_storage_.emplace(base.node(), &state);
}

void LiveTensors::unindex(TensorState& state) {
  if (!state.indexed_) return;
  auto [begin, end] = by_storage_.equal_range(state.indexed_);
  for (auto it = begin; it != end; ++it) {
    if (it->second != &state) continue;
    by_storage_.erase(it);
    break;
  }
  state.indexed_ = nullptr;
}

void LiveTensors::add(TensorState& state) {
  std::lock_guard lock(mutex_);
  state.next_ = first_;
  if (first_) first_->previous_ = &state;
  first_ = &state;
  count_++;
  index(state);
}

void LiveTensors::remove(TensorState& state) {
  std::lock_guard lock(mutex_);
  unindex(state);
  (state.previous_ ? state.previous_->next_ : first_) = state.next_;
  if (state.next_) state.next_->previous_ = state.previous_;
  count_--;
}

void LiveTensors::set_if(TensorState& state, const UOp& expected, UOp node) {
  UOp old = std::move(node);  // dies after the lock is gone: it may free memory of a device
  std::lock_guard lock(mutex_);
  if (expected && !(state.uop == expected)) return;
  unindex(state);
  std::swap(state.uop, old);
  state.is_stale = false;
  index(state);
}

std::vector<LiveTensor> LiveTensors::all() {
  std::vector<LiveTensor> out;
  std::lock_guard lock(mutex_);
  out.reserve(count_);
  // A state whose last handle is going away waits for the lock in remove(): it has no owner any more.
  for (TensorState* s = first_; s; s = s->next_)
    if (auto owner = s->weak_from_this().lock()) out.push_back({std::move(owner), s->uop});
  return out;
}

std::vector<LiveTensor> LiveTensors::views_of(const UOp& storage) {
  std::vector<LiveTensor> out;
  std::lock_guard lock(mutex_);
  auto [begin, end] = by_storage_.equal_range(storage.node());
  for (auto it = begin; it != end; ++it)
    if (auto owner = it->second->weak_from_this().lock()) out.push_back({std::move(owner), it->second->uop});
  return out;
}

std::vector<LiveTensor> LiveTensors::lazy(uint64_t after, uint64_t until) {
  std::vector<LiveTensor> out;
  std::lock_guard lock(mutex_);
  for (TensorState* s = first_; s; s = s->next_)
    if (s->lazy_number > after && s->lazy_number <= until && !s->is_stale && is_lazy(s->uop))
      if (auto owner = s->weak_from_this().lock()) out.push_back({std::move(owner), s->uop});
  return out;
}

uint64_t LiveTensors::last_lazy_number() {
  std::lock_guard lock(mutex_);
  return last_lazy_number_;
}

size_t LiveTensors::count() {
  std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace lathe
