// Makes values real.
#pragma once
#include "uop/uop.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lathe {

struct Becomes {
  UOp from, to;
};
// Runs what is needed so that the base of each root (what its movement ops look at) is in memory, and every
// assignment below the roots has happened. Returns the nodes that are memory now, and the (view of a) Buffer
// that stands for each from now on. Constants stay as they are.
std::vector<Becomes> realize(std::span<const UOp> roots);

// A realised Buffer with a copy of `bytes` bytes in row-major order.
UOp buffer_from_host(const void* data, size_t bytes, const Shape& shape, DType dtype,
                     const std::string& device);
// A realised Buffer over memory of the caller, which outlives it, or lives as long as `owner`.
UOp buffer_over(void* memory, const Shape& shape, DType dtype, const std::string& device,
                std::shared_ptr<const void> owner = nullptr);
// A Buffer takes the memory of a realised value of the same size, elements in row-major order without gaps;
// or has none.
void lend_memory(const UOp& buffer, const std::optional<UOp>& value);
// The bytes of a realised value: a Buffer, or a view of its elements in row-major order without gaps.
// UserError when it is anything else.
void read_buffer(const UOp& value, void* out, size_t bytes);
// Name of the device that DEV selects.
const std::string& default_device_name();

}  // namespace lathe
