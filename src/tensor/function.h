// Functions of tensors as parts of the graph: traced once, called many times.
#pragma once
#include "base/function_ref.h"
#include "tensor/gradient.h"
#include "tensor/visit_tensors.h"

#include <any>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lathe {

struct FunctionOptions {
  std::string name = "function";
  // The body is scheduled once, by itself, and its kernels run in every call; otherwise it becomes part of
  // the graph around it, as if it had been written there. The gradient is precompiled, too.
  bool precompile = false;
  // The gradient computes what it needs of the body again, from the arguments, when it is its turn: only they
  // are kept until then.
  bool recompute = false;
  // Whether the function may use memory besides its arguments.
  bool allow_implicit = true;
  // From one gradient for each returned tensor. Without it the body is differentiated.
  GradientFunction gradient = nullptr;
};

// The part of a Function that knows no types.
class FunctionState {
 public:
  explicit FunctionState(FunctionOptions options);

  struct Traced {
    std::vector<UOp> params;       // of the arguments
    std::vector<Tensor> implicit;  // memory from outside, behind the arguments
    std::vector<Tensor> assigned;  // memory from outside that takes the last results
    UOp body;
    std::any shape;  // what the function returns, without its tensors
  };
  // The body for such arguments; calls `function`, which returns the tensors it makes of stand-ins, where it
  // is new. Sets `shape` of the entry by itself.
  const Traced& traced(
      const std::vector<Tensor>& arguments,
      FunctionRef<std::vector<Tensor>(const std::vector<Tensor>&, std::any& shape)> function);
  std::vector<Tensor> call(const Traced& traced, const std::vector<Tensor>& arguments) const;

 private:
  FunctionOptions options_;
  CallArg arg_;
  std::vector<std::unique_ptr<Traced>> all_;
};

// A function whose arguments are Tensors, or containers or structs of them (visit_tensors.h), and that
// returns the same. The first call with such shapes, dtypes and devices traces it, over stand-ins; every call
// is one node of the graph, lazy like others. Memory that it uses besides its arguments (weights) is
// that of the tensors of the trace, with what it holds at the call; C++ numbers, branches and knobs are as
// they were in the trace. What it assigns to such memory (statistics, the counters of random numbers) is
// assigned in every call. RuntimeErrors: it realizes or reads a value; it assigns to an argument; it uses
// memory from outside though allow_implicit is false. While one is traced no other thread changes tensors.
template <class F>
class Function {
 public:
  Function(F function, FunctionOptions options)
      : function_(std::move(function)), state_(std::move(options)) {}

  template <class... A>
  auto operator()(const A&... arguments) {
    using R = std::invoke_result_t<F&, A&...>;
    static_assert(!std::is_void_v<R>, "a function returns tensors");
    std::vector<Tensor> inputs;
    (visit_tensors(arguments, "", [&](const std::string&, const Tensor& t) { inputs.push_back(t); }), ...);
    const FunctionState::Traced& traced =
        state_.traced(inputs, [&](const std::vector<Tensor>& stand_ins, std::any& shape) {
          (check_apart(arguments, "arguments of functions"), ...);
          std::tuple<A...> inside(arguments...);
          size_t i = 0;
          visit_tensors(inside, "", [&](const std::string&, const Tensor& t) {
            const_cast<Tensor&>(t) = stand_ins[i++];  // `inside` is not const
          });
          const R returned = std::apply(function_, inside);
          check_apart(returned, "results of functions");
          std::vector<Tensor> tensors;
          visit_tensors(returned, "", [&](const std::string&, const Tensor& t) { tensors.push_back(t); });
          shape = with_tensors(returned, {});
          return tensors;
        });
    if (!std::any_cast<R>(&traced.shape))
      type_error("arguments of these types give another result than those that were traced");
    return with_tensors(*std::any_cast<R>(&traced.shape), state_.call(traced, inputs));
  }

 private:
  F function_;
  FunctionState state_;
};

// `auto block = function([&](const Tensor& x) { …; return y; }, {.recompute = true});`
template <class F>
Function<F> function(F f, FunctionOptions options = {}) {
  return Function<F>(std::move(f), std::move(options));
}

}  // namespace lathe
