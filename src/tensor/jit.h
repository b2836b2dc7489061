// Functions of tensors that are captured once and replayed.
#pragma once
#include "base/function_ref.h"
#include "tensor/visit_tensors.h"
#include "uop/variable.h"

#include <any>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lathe {

class Recording;

// The part of a Jit that knows no types.
class JitState {
 public:
  JitState();
  ~JitState();
  JitState(JitState&&) noexcept;
  JitState& operator=(JitState&&) noexcept;

  // Replays and returns the results; nothing when it called `function`, which returns them, instead.
  std::optional<std::vector<Tensor>> call(const std::vector<Tensor>& inputs,
                                          const std::vector<UOp>& variables,
                                          FunctionRef<std::vector<Tensor>()> function);
  bool is_captured() const { return captured_ != nullptr; }
  void reset();
  void free_intermediates();

 private:
  struct Captured;
  struct Expected;
  void capture(const std::vector<Tensor>& inputs, const UOp& given,
               FunctionRef<std::vector<Tensor>()> function);
  // The first run of what was recorded.
  void run_captured(const Recording& recording, const std::vector<Tensor>& inputs,
                    const std::vector<Tensor>& outputs, Expected expected);
  std::vector<Tensor> replay(const std::vector<Tensor>& inputs, const UOp& given);

  bool has_run_ = false;
  std::unique_ptr<Captured> captured_;
};

// A function whose arguments are Tensors, or containers or structs of them (visit_tensors.h), or bound
// Variables, and that returns tensors or nothing. The first call runs it, the second captures the kernels it
// runs, and from then on a call runs those kernels over the memory of its own arguments, without the
// function. So
//   - returned tensors are realised, in memory of their own: the next call writes there only after the last
//     tensor over it is gone;
//   - what the function assigns in place (parameters, statistics, caches, the counters of random numbers) is
//     assigned in every call. Other tensors that it leaves outside, gradients among them, keep what the
//     capture gave them: an expression its value, memory that the function made real what each call writes;
//   - Variables have the values that the arguments and the sizes and places of their views are bound to;
//   - all else is as it was in the capture: values of other Variables, branches, numbers and host data, which
//     tensors a name stands for, knobs such as TRAINING. What depends on nothing that changes is computed
//     once, and again after its inputs were assigned.
// A call refuses arguments that do not fit: RuntimeError unless each is memory of its own, with the shape,
// dtype, device and the view of its memory that were captured. Reading a tensor's data during the capture is
// a RuntimeError, too. After an error of the function the tensors are as if it had run plainly up to it;
// after one of the kernels, such as too little memory, or after cancel(), as before the call. The next call
// captures anew. One Jit that calls another captures it as a part. With JIT=0 each call runs the function.
// Not for several threads at a time.
template <class F>
class Jit {
 public:
  explicit Jit(F function) : function_(std::move(function)) {}

  template <class... A>
  auto operator()(A&&... arguments) {
    using R = std::invoke_result_t<F&, A&...>;
    std::vector<Tensor> inputs;
    std::vector<UOp> variables;
    (add_inputs(arguments, inputs, variables), ...);
    if constexpr (std::is_void_v<R>) {
      state_.call(inputs, variables, [&] {
        function_(arguments...);
        return std::vector<Tensor>();
      });
    } else {
      if (state_.is_captured() && !std::any_cast<R>(&shape_))
        type_error("args mismatch in JIT: arguments of these types give another result than was captured");
      std::optional<R> returned;
      const std::optional<std::vector<Tensor>> results = state_.call(inputs, variables, [&] {
        returned.emplace(function_(arguments...));
        check_apart(*returned, "JIT results");
        std::vector<Tensor> tensors;
        visit_tensors(*returned, "", [&](const std::string&, const Tensor& t) { tensors.push_back(t); });
        return tensors;
      });
      if (!results) {
        if (state_.is_captured()) shape_ = with_tensors(*returned, {});
        return std::move(*returned);
      }
      return with_tensors(*std::any_cast<R>(&shape_), *results);
    }
  }

  bool is_captured() const { return state_.is_captured(); }
  // Forgets the capture: the next call runs the function, the one after it captures.
  void reset() { state_.reset(); }
  // Gives the memory of intermediate values back until the next call.
  void free_intermediates() { state_.free_intermediates(); }

 private:
  template <class T>
  static void add_inputs(const T& argument, std::vector<Tensor>& inputs, std::vector<UOp>& variables) {
    if constexpr (std::is_same_v<T, Variable>) {
      argument.unbind();  // RuntimeError where it has no value
      variables.push_back(argument.uop());
    } else {
      visit_tensors(argument, "", [&](const std::string&, const Tensor& t) { inputs.push_back(t); });
    }
  }

  F function_;
  JitState state_;
  std::any shape_;  // what the function returns, without its tensors
};

// `auto step = jit([&](const Tensor& x, const Tensor& y) { …; return loss; });`
template <class F>
Jit<F> jit(F function) {
  return Jit<F>(std::move(function));
}

}  // namespace lathe
