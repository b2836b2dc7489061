// A Vector axis becomes the lanes of vector values.
#pragma once
#include "uop/uop.h"

#include <optional>

namespace lathe {

// After this pass no Vector range is left: what depended on it has shape (n,). Accesses that move by one
// element a lane become contiguous vector accesses (Shrink), others gather or scatter. Shown by
// test/golden/codegen/vectorize.txt.
UOp vectorize(const UOp& body);

// index = base + r * stride with `base` free of `r`; nothing when the index is not linear in `r`.
struct Linear {
  UOp base;
  int64_t stride;
};
std::optional<Linear> linear_in(const UOp& index, const UOp& r);

}  // namespace lathe
