// A kernel body to the linear program of a target.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

#include <string>
#include <vector>

namespace lathe {

// Work and memory of a kernel, for display and for choosing schedules.
struct Estimate {
  double flops = 0;  // arithmetic on data, index maths left out
  double bytes = 0;  // touched: loads and stores of a buffer counted apart, each at most the buffer's size
};
Estimate estimate(const UOp& body);

struct LoweredKernel {
  std::string name;             // from the axes: "r_128_32x1024_8u"
  std::string colored_name;     // the same with a colour per axis type
  std::vector<UOp> linear;      // docs/ir.md stage 4
  std::vector<Action> actions;  // what the optimiser did
  int n_cores = 1;              // values of core_id
  Estimate work;
};

// What the optimiser is given: `body` simplified, its loops no longer than gates let them be.
UOp prepare_kernel(const UOp& body, const Target& target);

// `body` is a kernel graph (docs/ir.md stage 2). Same body, target and knobs, same program. `actions`, for
// merge_ranges(prepare_kernel(…)), take the place of the heuristic's; UserError (Runtime) where one is
// illegal.
LoweredKernel lower(const UOp& body, const Target& target, const std::vector<Action>* actions = nullptr);

}  // namespace lathe
