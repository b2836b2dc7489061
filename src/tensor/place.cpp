#include "tensor/place.h"

#include "base/mmap.h"
#include "engine/realize.h"
#include "runtime/device.h"
#include "schedule/schedule.h"
#include "schedule/shard.h"
#include "tensor/promote.h"

#include <algorithm>

namespace lathe {
namespace {

// The first bytes of the file that a device "DISK:PATH" names; it is made, and grows, where it has to.
UOp in_file(const Shape& shape, DType dtype, const std::string& device) {
  const int64_t bytes = prod(shape).value() * item_size(dtype);
  if (bytes == 0) return new_buffer(shape, dtype, device);
  const auto file = std::make_shared<MappedFile>(device.substr(device.find(':') + 1),
                                                 MappedFile::Mode::Shared, static_cast<size_t>(bytes));
  return buffer_over(const_cast<std::byte*>(file->bytes().data()), shape, dtype, device, file);
}

}  // namespace

std::string place(const std::string& device) {
  if (device.empty()) return default_device_name();
  std::vector<std::string> names = split_devices(device);
  for (std::string& name : names) {
    name = canonical_device_name(name);
    if (is_disk(name) && (names.size() > 1 || names_several(name)))
      value_error("\"{}\": a file is no part of several devices, and its path has no comma", device);
  }
  for (size_t i = 1; i < names.size(); i++)
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      value_error("device {} occurs twice in \"{}\"", names[i], device);
  return join_devices(names);
}

std::string memory_beside(const std::string& device) {
  return is_disk(device) ? default_device_name() : device;
}

UOp uninitialized(const Shape& shape, DType dtype, const std::string& device, std::optional<int> axis) {
  if (is_weak(dtype)) user_runtime_error("cannot create storage for weak dtype dtypes.{}", dtype);
  Shape most;
  for (const SInt& d : shape) most.push_back(SInt(d.vmax()));
  const std::vector<std::string> devices = split_devices(device);
  if (is_disk(device)) return shrink(in_file(most, dtype, device), Shape(most.size(), SInt(0)), shape);
  if (devices.size() == 1) return new_memory(shape, dtype, device);
  Shape local = most;
  if (axis) {
    SInt& size = local[static_cast<size_t>(*axis)];
    size = shard_size(size, devices.size());
  }
  std::vector<UOp> parts;
  for (const std::string& d : devices) parts.push_back(new_buffer(local, dtype, d));
  return shrink(multi(parts, axis), Shape(most.size(), SInt(0)), shape);
}

UOp stored(const UOp& value, const std::string& device) {
  const std::optional<int> axis = value.device() == device ? shard_axis(value) : std::nullopt;
  const UOp target = uninitialized(value.shape(), strong(value.dtype()), device, axis);
  const UOp& buffer = strip_views(target);
  const UOp written = UOp::make(Op::After, {buffer, store(target, cast(value, target.dtype()))});
  return shrink(written, Shape(value.shape().size(), SInt(0)), value.shape());
}

}  // namespace lathe
