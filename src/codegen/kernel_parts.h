// Pieces of kernel bodies that several passes build.
#pragma once
#include "uop/uop.h"

namespace lathe {

// Whether `u` depends on an open Range.
bool is_open(const UOp& u, const UOp& range);
// The open Range of `u` that is of type `t`, or null.
UOp open_axis(const UOp& u, AxisType t);
// How often `u` is computed: the product of the sizes of the loops around it.
double trips_of(const UOp& u);

// `x` once `deps` have happened; `x` itself where there are none.
UOp after(const UOp& x, std::span<const UOp> deps);
// `effect` inside `loops`; the effect itself where there are none.
UOp close_loops(const UOp& effect, std::span<const UOp> loops);
// Scratch private to a thread, of n elements.
UOp scratch_buffer(int64_t slot, DType dtype, int64_t n, std::string name = {});
// Address of the first `lanes` elements of `memory`, of its first element for 0; `zero` gives the index type.
UOp first_elements(const UOp& memory, int64_t lanes, const UOp& zero);
// Folds the lanes of a vector pairwise: halves while even, then lane by lane.
UOp fold_lanes(Op op, UOp v);
// Starting value of a reduction.
Scalar neutral_element(Op op, DType d);

}  // namespace lathe
