// Vector axes where sums are nested.
#pragma once
#include "uop/uop.h"

namespace lathe {

// The Vector range that is closed wherever `r` is, and nowhere else; null where there is none.
UOp lanes_beside(const UOp& body, const UOp& r);

// Two Vector ranges that are closed together become one: `outer` steps over all of `inner`.
UOp merge_lanes(const UOp& body, const UOp& outer, const UOp& inner);

// Sums over lanes inside other sums are folded once at the end instead of in each step of these: where a sum
// over a Vector range is scaled and summed again, the range moves to the outer Reduce,
//   Σ_b s(b) · (Σ_v x(b, v) + c(b)) = Σ_b,v s(b) · (x(b, v) + (v = 0 ? c(b) : 0)).
// Integer sums that may wrap stay as they are, and so do those in a sum that has lanes of its own.
UOp hoist_lanes(const UOp& body);

}  // namespace lathe
