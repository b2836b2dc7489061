// From a tensor graph to an ordered list of kernels.
#pragma once
#include "schedule/memory_plan.h"
#include "uop/uop.h"

#include <optional>
#include <vector>

namespace lathe {

// One kernel launch, or a copy between devices.
struct ScheduledKernel {
  UOp body;                  // Sink of a kernel graph (docs/ir.md stage 2); empty for a copy
  std::vector<UOp> buffers;  // Buffer nodes, position = Param slot. A copy: {to, from}
  std::string device;
  size_t n_written = 1;  // the first buffers are written
  bool is_copy() const { return !body; }
};

struct Schedule {
  std::vector<ScheduledKernel> kernels;  // in an order that respects every read and write
  std::vector<std::pair<UOp, UOp>>
      becomes;                // computed node → the (view of a) Buffer that holds it from now on
  std::vector<Arena> arenas;  // for the Buffers that only the kernels use
};

// Schedules everything the roots need. Roots are tensor graphs; views of Buffers need nothing. Errors:
// UserError when operands are on several devices or assignments form a cycle.
Schedule make_schedule(std::span<const UOp> roots);

// Movement ops, Detach, and Bitcasts between equal element sizes.
bool is_view(const UOp& u);
// What a view looks at.
UOp strip_views(const UOp& u);

// A Buffer of its own for values of `shape`, as a view of that shape: symbolic sizes are at their largest in
// the Buffer.
UOp new_memory(const Shape& shape, DType dtype, const std::string& device);

// The Buffer or Param behind a state of memory, or behind a view of one.
const UOp& strip_states(const UOp& state);

// Elements of memory in row-major order without gaps: `first` and those behind it.
struct MemoryRun {
  UOp storage;  // a Buffer or Param, or the After of an assignment to one
  int64_t first;
};
// The run that a view shows; nothing where it is another kind of view, or of a value.
std::optional<MemoryRun> memory_run(const UOp& view);

}  // namespace lathe
