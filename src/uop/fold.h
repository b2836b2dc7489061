// Rule functions of the simplifier that need more than a pattern.
#pragma once
#include "uop/pattern.h"
#include "uop/uop.h"

namespace lathe {

// ---- fold.cpp: constants ----
UOp fold_scalars(const UOp& u);      // an op over Consts as a Const; null where it is none or does not fold
UOp fold_constants(const Match& m);  // an op over Consts and Stacks of Consts
UOp fold_cast_of_constant(const Match& m);
UOp fold_bitcast_of_constant(const Match& m);
UOp fold_single_value(const Match& m);  // an integer or bool whose bounds meet
UOp constant_to_the_right(const Match& m);
UOp order_operands(const Match& m);  // weakint: by structure

// ---- fold_select.cpp: Where, Invalid, casts ----
UOp push_op_into_gate(const Match& m);     // op(g ? x : Invalid, …) -> g ? op(x, …) : Invalid
UOp merge_selects(const Match& m);         // op(c ? a : b, c ? d : e) -> c ? op(a, d) : op(b, e)
UOp merge_selects_in_sum(const Match& m);  // (y + (c ? …)) + (c ? …) -> y + ((c ? …) + (c ? …))
UOp merge_select_terms(const UOp& sum);    // the same for two terms of a weakint sum; null where none merge
UOp assume_condition(const Match& m);      // uses of c below c ? t : f
UOp fold_cast_chain(const Match& m);       // x -> a -> b
UOp lift_to_index(const Match& m);  // op(cast(x), cast(y)) of weakints -> cast(op(x, y)), where nothing wraps
UOp select_by_gate(const Match& m);   // g ? load(gated by h) : 0 -> the load, gated by clauses of g as well
UOp conjoin_by_gate(const Match& m);  // the same for g & load(gated by h) of bools

}  // namespace lathe
