// Optimiser actions: they change how the axes of a kernel run, never what it computes.
//
//   Upcast(axis, n)   n iterations of an output axis side by side in one pass of the loop
//   Unroll(axis, n)   the same inside a reduction
//   Vector(axis, n)   n iterations of an axis become the lanes of vectors; one such axis a loop nest, or
//   several
//                     that are closed together (lanes.h)
//   Thread(axis, n)   an output axis in n parts that may run on several threads; up to two axes a kernel
//   Local(axis, n)    n iterations of an output axis are work items of one group
//   Group(axis, n)    a reduction in n parts, each the share of a work item; the group folds them at the end
//   Tile(axis, n)     split an axis into an outer and an inner loop of n; where n does not divide an output
//                     axis the last tile overlaps the one before
//   Block(axis, n)    a reduction in blocks of n steps, added up in scratch: the innermost output loop runs
//                     through for each block
//   PadTo(axis, n)    the axis up to the next multiple of n; nothing is read or written beyond its end
//   Merge(axis, 0)    an axis and the next one become one; what is upcast, unrolled or a vector in between
//                     stays
//   Swap(axis, other) exchange two output loops, or two loops of the same reductions
//   Stage(load, n)    a load reads from a contiguous scratch copy (stage.h), which spans n sliding loops
//   TensorCore(axis, n)  n neighbours of an axis that sums products are summed by one dot instruction, where
//                     the target has it (tensor_core.h)
//
// A schedule is a list of actions.
#pragma once
#include "base/result.h"
#include "uop/uop.h"

#include <string>
#include <vector>

namespace lathe {

// Ranges of a kernel body: output loops from the outside in, then the loops of each reduction in the order
// they appear. Actions name axes by their position here.
std::vector<UOp> kernel_axes(const UOp& body);

// The body after one action. UserError (Runtime) when the action is illegal; the body is unchanged then.
UOp apply_action(const UOp& body, const Action& action);
// The body that it made, noting the action in the kernel's list.
UOp record(const UOp& body, const Action& action);

// Whether two axes are closed together everywhere, the second right after the first but for iterations side
// by side.
bool always_adjacent(const UOp& body, const UOp& r0, const UOp& r1);

// Replaces Ranges by expressions over new ranges, also in the lists of End and Reduce.
struct RangeChange {
  UOp from;
  UOp to;                  // an expression over `loops`
  std::vector<UOp> loops;  // what takes the place of `from` in range lists, from the outside in
};
UOp change_ranges(const UOp& body, const std::vector<RangeChange>& changes);
// Lowest range id that no axis of the body uses.
int next_range_id(const UOp& body);

std::string print_actions(std::span<const Action> actions);        // "Upcast(0, 8) Vector(1, 32)"
Result<std::vector<Action>> parse_actions(std::string_view text);  // and back

}  // namespace lathe
