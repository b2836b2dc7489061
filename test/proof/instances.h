// The graphs that a rule applies to, one for each choice of ops, orders and dtypes, found by asking the
// matcher itself.
#pragma once
#include "proof/semantics.h"
#include "uop/matcher.h"
#include "uop/spec.h"

#include <functional>
#include <string_view>
#include <vector>

namespace lathe::proof {

struct RuleList {
  std::string_view name;
  RuleView<UOp> rules;
  SpecLevel level;                   // where they apply
  std::vector<ContextRef> contexts;  // of the conditions; one that accepts a graph is enough
};

// A left side with dtypes. Variables are variables; a Number variable is some constant of its dtype.
struct Instance {
  const RuleInfo* rule;
  const pat::PatNode* nodes;  // of both sides
  PatternForm form;
  std::vector<UOp> steps;  // the graph of each step of the form; the first is the whole
  // Constants for which the rule was seen to apply, a tuple of the steps `numbers`; empty where it does for
  // any.
  std::vector<int> numbers;
  std::vector<std::vector<Scalar>> accepted;
};

// Calls `f` for each, where integers have the dtype `typed` if they have a width and floats if it is one;
// Void: only weak ones. Alternatives that do not say how many sources a node has are left out.
struct InstanceCount {
  int made = 0;
  std::string left_out;  // why, where some were
};
InstanceCount for_each_instance(const RuleList& list, size_t rule, DType typed,
                                const std::function<void(const Instance&)>& f);

// The right side, over the values of the steps, with the dtype of the whole.
Value right_side(const Instance& instance, std::span<const Value> steps, Semantics& semantics);

}  // namespace lathe::proof
