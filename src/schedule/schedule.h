// From a tensor graph to an ordered list of kernels.
#pragma once
#include <vector>

#include "uop/uop.h"

namespace lathe {

// One kernel launch, or a copy between devices.
struct ScheduledKernel {
  UOp body;                    // Sink of a kernel graph (docs/ir.md stage 2); empty for a copy
  std::vector<UOp> buffers;    // Buffer nodes, position = Param slot; 0 is written. A copy: {to, from}
  std::string device;
  bool is_copy() const { return !body; }
};

struct Schedule {
  std::vector<ScheduledKernel> kernels;             // in an order that respects every read and write
  std::vector<std::pair<UOp, UOp>> becomes;         // computed node → the (view of a) Buffer that holds it from now on
};

// Schedules everything the roots need. Roots are tensor graphs; views of Buffers need nothing. Errors: UserError when operands are on
// several devices or assignments form a cycle.
Schedule make_schedule(std::span<const UOp> roots);

// What a view looks at: strips movement ops and Detach.
UOp strip_views(const UOp& u);

}  // namespace lathe
