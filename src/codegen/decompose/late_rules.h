// The last rewriting of arithmetic before the program is put in order: ops that graphs do without come back.
#pragma once
#include "renderer/target.h"
#include "uop/pattern.h"

namespace lathe {

// Brings Sub, Neg, FDiv, CmpEq, MulAcc and Shl back where the target has them and takes Sub, Neg, CmpEq and
// Max away where it does not. MulAcc is made of floats only, and only on targets that round it once in one
// instruction. A product with a reciprocal becomes a division only where both are computed equally often: one
// reciprocal outside a loop is cheaper than a division inside. Shown by test/unit/decompose_late_rules.cpp.
UOp use_native_ops(const UOp& sink, const Target& target);

// The rules of it, and what their conditions ask for as Match::ctx.
RuleView<UOp> native_op_rule_set();
struct LateContext {
  const Target& target;
};

}  // namespace lathe
