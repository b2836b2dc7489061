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

// ---- divmod.cpp: floor division and modulo of index expressions ----
// A simpler form of a weakint FloorDiv or FloorMod whose sources are simplified, or null. Exact for numbers
// of either sign; the quotient and the remainder of one pair always stay consistent. A divisor that is 0 for
// certain is a UserError. Rows in test/golden/symbolic show what each step does.
UOp fold_division(const UOp& u);

// `sum` (a weakint Add) with quotients and remainders of one division put together again, or null:
//   m*(b%d) + m*d*(b//d)        -> m*b
//   m*(b%d) + m*d*((b//d)%e)    -> m*(b%(d*e))      e > 0
// where b//d may have been simplified on its own.
UOp recombine_divmod(const UOp& sum);

// ---- periods.cpp: remainders that a gate pins to one period ----
// For Where(gate, x, y) whose gate has clauses `a % n < c`: windows cut out of a repeated axis. Where only
// one period of `a` can satisfy the clause, it becomes two linear bounds, and in `x` the quotient and the
// remainder of `a` become linear too: x counts only where the gate holds. Null when nothing changes.
UOp unwrap_periods(const UOp& where);

}  // namespace lathe
