// Memory for the buffers that live only inside a list of kernels.
#pragma once
#include "base/function_ref.h"
#include "uop/uop.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lathe {

inline constexpr size_t kPlanAlign = 256;  // of every offset

// A buffer that is in use from step `first` to step `last`, both included.
struct Lifetime {
  size_t first, last, bytes;
};
struct MemoryPlan {
  std::vector<size_t> offsets;  // as the buffers were given
  size_t bytes = 0;             // of the whole
};
// Places buffers so that those in use at the same step are apart, the largest first, each in the lowest gap
// that holds it (Pisarchyk and Lee, Efficient memory management for deep neural net inference).
MemoryPlan plan_memory(std::span<const Lifetime> buffers);

// One piece of memory of a device, and what lies where in it.
struct Arena {
  struct Place {
    UOp buffer;
    size_t offset;
  };
  std::string device;
  size_t bytes = 0;
  size_t separate_bytes = 0;  // the sum of its buffers
  std::vector<Place> places;
};
// An arena for each device, over the buffers for which `is_planned`. `steps` lists the buffers of each
// kernel, in the order in which the kernels run.
std::vector<Arena> plan_arenas(std::span<const std::vector<UOp>* const> steps,
                               FunctionRef<bool(const UOp&)> is_planned);

// Bytes of a Buffer or Param; symbolic sizes at their largest.
size_t storage_bytes(const UOp& buffer);

}  // namespace lathe
