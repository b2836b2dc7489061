// Graphs that the left sides of rules match.
#pragma once
#include "uop/pattern.h"
#include "uop/uop.h"

#include <vector>

namespace lathe::test {

struct RuleInstance {
  size_t rule;  // position in the set
  UOp graph;
  std::vector<UOp> variables;  // fresh ones in it, where another instance may stand
};

// For every form of every left side and every dtype its variables may take, one graph with fresh variables
// (bounded, so that bounds decide little), for ops of which a pattern takes several, several graphs.
// Constants take a few values. Forms that no graph has are left out.
std::vector<RuleInstance> rule_instances(const RuleView<UOp>& set);

}  // namespace lathe::test
