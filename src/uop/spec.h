// What a legal graph is, at each stage of docs/ir.md.
#pragma once
#include "uop/uop.h"

#include <optional>
#include <span>
#include <string_view>

namespace lathe {

enum class SpecLevel : uint8_t {
  Tensor,   // stage 1, and what `schedule` makes of it on the way to kernels
  Kernel,   // stages 2 and 3: the body of one kernel
  Program,  // stage 4: what renderers and the interpreter take
};
std::string_view spec_level_name(SpecLevel level);  // "tensor", …

// The first rule that this node, taken alone, breaks; empty when it is legal.
std::string_view broken_rule(const UOp& u, SpecLevel level);

struct SpecViolation {
  size_t position;  // in toposort(root), or in the list
  UOp node;
  std::string_view rule;  // what should hold, in words
};
// The first violation in the graph of `root`; bodies of Calls are not entered.
std::optional<SpecViolation> find_violation(const UOp& root, SpecLevel level);
// Of a linear program: the rules of SpecLevel::Program, and those of its order.
std::optional<SpecViolation> find_violation(std::span<const UOp> linear);

// InternalError "UOp verification failed at <position> on <op> …" that names the rule, the node and `pass`,
// which made it.
void verify(const UOp& root, SpecLevel level, std::string_view pass);
void verify(std::span<const UOp> linear, std::string_view pass);

// What SPEC=2 asks of every new node: it is legal at some level, and its dtype and shape follow from its
// sources. InternalError "UOp verification failed on <op> …" as above; the open ErrorContext names the pass.
void verify_node(const UOp& u);

}  // namespace lathe
