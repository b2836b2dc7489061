// Reverse-mode differentiation as rules over graph nodes.
#pragma once
#include "uop/uop.h"

#include <span>
#include <vector>

namespace lathe {

// The gradient of sum(root * root_grad) with respect to each target, of the target's dtype and shape; an
// empty handle where the root does not depend on a target through differentiable ops. RuntimeError "failed to
// compute gradient for OP" on the way to a target through an op without a rule. test/unit/tensor_gradient.cpp
// shows every rule.
std::vector<UOp> gradients(const UOp& root, const UOp& root_grad, std::span<const UOp> targets);

// How an op takes part.
enum class GradientKind : uint8_t {
  Rule,     // has a gradient rule
  None,     // passes no gradient: integers, comparisons, leaves, Detach
  Refused,  // never part of a tensor graph
};
GradientKind gradient_kind(Op op);

}  // namespace lathe
