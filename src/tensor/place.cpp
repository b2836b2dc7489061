#include "tensor/place.h"

#include "engine/realize.h"
#include "runtime/device.h"
#include "schedule/schedule.h"
#include "tensor/promote.h"

namespace lathe {

std::string place(const std::string& device) {
  return device.empty() ? default_device_name() : canonical_device_name(device);
}

UOp uninitialized(const Shape& shape, DType dtype, const std::string& device) {
  if (is_weak(dtype)) user_runtime_error("cannot create storage for weak dtype {}", dtype_text(dtype));
  return new_memory(shape, dtype, device);
}

UOp stored(const UOp& value, const std::string& device) {
  const UOp target = uninitialized(value.shape(), strong(value.dtype()), device);
  const UOp& buffer = strip_views(target);
  const UOp written = UOp::make(Op::After, {buffer, store(target, cast(value, target.dtype()))});
  return shrink(written, Shape(value.shape().size(), SInt(0)), value.shape());
}

}  // namespace lathe
