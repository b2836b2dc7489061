// What the copies of a Tensor share, and the registry of all that are alive.
#pragma once
#include "tensor/tensor.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace lathe {

// Its thread may change `uop` while others look; those ask LiveTensors.
struct TensorState : std::enable_shared_from_this<TensorState> {
  static std::shared_ptr<TensorState> make(UOp node);
  explicit TensorState(UOp node) : uop(std::move(node)) {}  // for make()
  ~TensorState();
  TensorState(const TensorState&) = delete;
  TensorState& operator=(const TensorState&) = delete;

  // The handle's node; RuntimeError when the value can no longer be computed.
  const UOp& node() const {
    if (is_stale) stale_error();
    return uop;
  }
  static Tensor handle(std::shared_ptr<TensorState> state) { return Tensor(std::move(state)); }
  static const std::shared_ptr<TensorState>& of(const Tensor& t) { return t.state_; }

  UOp uop;  // changed only through LiveTensors::set
  std::shared_ptr<TensorState> grad;
  bool is_param = true;
  std::atomic<bool> is_gradient{false};  // held in some tensor's `grad`
  std::atomic<bool> is_stale{
      false};  // an expression whose input was overwritten, or never filled, before it ran
  std::atomic<uint64_t> lazy_number{
      0};  // grows with every lazy value that a tensor takes; 0 where it never took one

 private:
  friend class LiveTensors;
  [[noreturn]] void stale_error() const;
  TensorState* previous_ = nullptr;
  TensorState* next_ = nullptr;
  const Node* indexed_ = nullptr;  // the storage this is a view of
};

// Whether a kernel has to run before the value is in memory. Constants have no device and weak values no
// storage: nothing to run. A view of memory is there already.
bool is_lazy(const UOp& u);

// A live state, with what it stood for when it was asked for.
struct LiveTensor {
  std::shared_ptr<TensorState> state;
  UOp uop;
  TensorState* operator->() const { return state.get(); }
};

// All live states, and which of them are views of which storage. One mutex guards both.
class LiveTensors {
 public:
  static LiveTensors& instance();
  void add(TensorState& state);
  void remove(TensorState& state);
  void set(TensorState& state, UOp node) { set_if(state, {}, std::move(node)); }
  // Unless the state stands for something else than `expected`, if that is not null.
  void set_if(TensorState& state, const UOp& expected, UOp node);
  std::vector<LiveTensor> all();
  std::vector<LiveTensor> views_of(const UOp& storage);
  size_t count();
  // The lazy states whose number is in (after, until], stale ones left out.
  std::vector<LiveTensor> lazy(uint64_t after, uint64_t until = UINT64_MAX);
  uint64_t last_lazy_number();

 private:
  void index(TensorState& state);
  void unindex(TensorState& state);

  std::mutex mutex_;
  TensorState* first_ = nullptr;
  size_t count_ = 0;
  uint64_t last_lazy_number_ = 0;
  std::unordered_multimap<const Node*, TensorState*> by_storage_;
};

}  // namespace lathe
