// Copies of reused parts of an input in contiguous scratch: packing.
#pragma once
#include "uop/uop.h"

#include <functional>
#include <span>

namespace lathe {

// Load number `access` (its position in stageable_loads) reads from a scratch copy of what the loops inside
// its outermost ones touch; the copy is made once for each step of those outer loops. What is computed of the
// load alone is copied instead. With `slides` > 0 the copy also spans that many of the output loops, from the
// inside out, that a reduction's steps slide along (output + step, a convolution), so that elements which
// several outputs touch are there once; gates of the outer loops stay as gates of what is read of the copy,
// which is 0 there. UserError (Runtime) where that is illegal.
UOp stage_load(const UOp& body, int access, int slides = 0);

// Of a copy of a load that slides along 1, 2, … loops, as many as there are: its elements, how often it is
// made, its bytes, and what makes the body with it.
struct SlidePlan {
  double elements = 0, times = 1;
  int64_t bytes = 0;
  std::function<UOp()> stage;
};
std::vector<SlidePlan> plan_slides(const UOp& body, const UOp& load);

// The reduction over `r` in blocks of `amount` steps: the loop over blocks is outside of the innermost output
// loop, whose running values lie in scratch meanwhile. Where several reductions share `r`, all of them.
// UserError (Runtime) where no output loop is inside every one.
UOp block_reduce(const UOp& body, const UOp& r, int64_t amount);

// Bytes of the copy of a load, and how many loop steps share one; {0, 0} where staging is illegal.
struct StagePlan {
  int64_t bytes = 0;
  double uses = 0;
};
StagePlan plan_stage(const UOp& body, const UOp& load);
// Operations on a loaded element that a copy of it would hold the result of.
int64_t operations_on(const UOp& body, const UOp& load);
// Clauses without which the value is 0, and that leave out so many steps of one of the loops, for each step
// of the others, that shorten_sums does.
std::vector<UOp> shortening_clauses(const UOp& value, std::span<const UOp> loops);
// The Loads that can be named, in order.
std::vector<UOp> stageable_loads(const UOp& body);

}  // namespace lathe
