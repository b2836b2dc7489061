#include "tensor/place.h"

#include "engine/realize.h"
#include "runtime/device.h"
#include "tensor/promote.h"

namespace lathe {

std::string place(const std::string& device) {
  return device.empty() ? default_device_name() : canonical_device_name(device);
}

UOp uninitialized(const Shape& shape, DType dtype, const std::string& device) {
  if (is_weak(dtype)) user_runtime_error("cannot create storage for weak dtype {}", dtype_text(dtype));
  Shape most;
  for (const SInt& d : shape) most.push_back(SInt(d.vmax()));
  return shrink(new_buffer(most, dtype, device), Shape(most.size(), SInt(0)), shape);
}

UOp stored(const UOp& value, const std::string& device) {
  const UOp target = uninitialized(value.shape(), strong(value.dtype()), device);
  const UOp buffer = target.op() == Op::Shrink ? target.src(0) : target;
  const UOp written = UOp::make(Op::After, {buffer, store(target, cast(value, target.dtype()))});
  return shrink(written, Shape(value.shape().size(), SInt(0)), value.shape());
}

}  // namespace lathe
