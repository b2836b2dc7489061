// The memory accesses of a kernel body, as optimiser decisions see them.
#pragma once
#include "uop/uop.h"

#include <initializer_list>
#include <optional>
#include <vector>

namespace lathe {

struct KernelAccess {
  UOp index;  // flat element index, without its gate
  DType dtype;
  bool is_store;
  double trips;  // how often it runs: product of the sizes of the loops around it
};
std::vector<KernelAccess> kernel_accesses(const UOp& body);

// Elements the index moves by for one step of `r`; 0 when it does not depend on it, nothing when it is not
// linear in it.
std::optional<int64_t> stride_of(const KernelAccess& a, const UOp& r);

// Whether `r0` steps over whole runs of `r1` in every access.
bool step_as_one(const std::vector<KernelAccess>& accesses, const UOp& r0, const UOp& r1);

// The first axis of these types whose quotient and remainder by one number address memory, as the action that
// makes two axes of it.
std::optional<Action> divided_axis(const UOp& body, std::initializer_list<AxisType> types);

// Whether every load that depends on `r` goes through memory element by element with it.
bool runs_along(const UOp& body, const UOp& r);

}  // namespace lathe
