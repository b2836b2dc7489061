// Kernels take a limited number of buffers.
#pragma once
#include "schedule/index_map.h"

#include <functional>
#include <string>

namespace lathe {

// The most buffers a kernel may have on a device; SIZE_MAX where there is no limit. MAX_KERNEL_BUFFERS
// overrides.
size_t max_kernel_buffers(const std::string& device);

// Fills a new buffer of `shape` with `value`, computed over Loop ranges `loops`.
using KeepValue = std::function<UOp(const UOp& value, const std::vector<UOp>& loops, const Shape& shape)>;

// `value`, an expression over loads, with parts of it moved into buffers of their own by `keep`, so that it
// reads at most `most` buffers.
UOp limit_buffers(const UOp& value, size_t most, const KeepValue& keep);

}  // namespace lathe
