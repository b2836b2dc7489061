// The algebraic simplifier: rule sets over integers, booleans, floats and gates.
//
// Index arithmetic (weakint) is exact. Sums of weakints come out in one normal form: like terms combined,
// operands in structural order, associated to the left, constant last, constant factors distributed. In every
// dtype a constant stands on the right of a commutative op. Typed integers wrap, so only rules that hold
// modulo 2^n apply to them. Floats keep their IEEE value except for the sign of a zero and for overflow in
// between; they are never reassociated otherwise.
//
// Shown by test/golden/symbolic and test/unit/simplify_test.cpp.
#pragma once
#include "uop/matcher.h"
#include "uop/uop.h"

namespace lathe {

// Simplified form of any graph; sound for every value the variables and ranges may take.
UOp simplify(const UOp& u);
// The same for kernels whose values have lanes: where a value turns out to be one scalar for all lanes it
// becomes a Stack of it, as kernels hold no Expand.
UOp simplify_lanes(const UOp& u);

// What simplify applies, as a matcher and as data.
const Matcher<UOp>& symbolic_rules();
RuleView<UOp> symbolic_rule_set();
// The symbolic rules and then `more`, rules that are functions of the node alone: fixed points are noted.
Matcher<UOp> make_symbolic_matcher(std::initializer_list<RuleView<UOp>> more = {});

// Kernel-level reductions over Ranges: factors leave, ranges that are not used drop, one-hot selections
// become gated loads and counts of a comparison become arithmetic. reduce_rules() includes the symbolic
// rules, the rule set does not.
const Matcher<UOp>& reduce_rules();
RuleView<UOp> reduce_rule_set();

}  // namespace lathe
