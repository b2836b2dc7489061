// Reverse-mode differentiation as rules over graph nodes.
#pragma once
#include "uop/uop.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace lathe {

class Tensor;

// The gradient of the sum of all root * root_grad with respect to each target, of the target's dtype and
// shape; an empty handle where no root depends on a target through differentiable ops. RuntimeError "failed
// to compute gradient for OP" on the way to a target through an op without a rule.
// test/unit/tensor_gradient.cpp shows every rule.
std::vector<UOp> gradients(std::span<const UOp> roots, std::span<const UOp> root_grads,
                           std::span<const UOp> targets);

// A gradient that was given: that of each source of the Call from 1 on, an empty handle where none flows,
// from those of what it makes, which are the written arguments of a kernel or the values of a function.
struct CallGradient {
  std::function<std::vector<UOp>(const UOp& call, const std::vector<UOp>& grads)> of_arguments;
};

void set_gradient(
    CallArg& arg,
    std::function<std::vector<UOp>(const UOp& call, const std::vector<UOp>& grads)> of_arguments);

// As a user gives it: from the gradients of what was made and from the arguments to one gradient an argument,
// of its shape, or nothing where none flows.
using GradientFunction = std::function<std::vector<std::optional<Tensor>>(
    const std::vector<Tensor>& grads, const std::vector<Tensor>& arguments)>;

// How an op takes part.
enum class GradientKind : uint8_t {
  Rule,     // has a gradient rule
  None,     // passes no gradient: integers, comparisons, leaves, Detach
  Refused,  // never part of a tensor graph
};
GradientKind gradient_kind(Op op);

}  // namespace lathe
