// Tensors from data, values and number sequences.
#include "base/mmap.h"
#include "engine/realize.h"
#include "tensor/place.h"
#include "tensor/promote.h"
#include "tensor/select.h"
#include "tensor/shard.h"
#include "tensor/tensor.h"

#include <cmath>
#include <limits>

namespace lathe {
namespace {

// Sizes of the nesting; every branch has to agree.
void nested_shape(const NestedData& data, const NestedData& whole, Shape& shape, size_t depth,
                  std::vector<Scalar>& flat) {
  if (!data.is_list()) {
    if (depth != shape.size()) value_error("inhomogeneous shape from {}", whole.to_string());
    flat.push_back(data.scalar());
    return;
  }
  const SInt size(static_cast<int64_t>(data.items().size()));
  const bool first_branch = flat.empty() && depth == shape.size();
  if (first_branch) shape.push_back(size);
  if (depth >= shape.size() || !(shape[depth] == size))
    value_error("inhomogeneous shape from {}", whole.to_string());
  for (const NestedData& item : data.items()) nested_shape(item, whole, shape, depth + 1, flat);
}

DType data_dtype(const std::vector<Scalar>& flat) {
  if (flat.empty()) return default_float();
  DType d = DType::Bool;
  for (const Scalar& v : flat) d = join(d, weak_dtype(v));
  return strong(d);
}

}  // namespace

std::string NestedData::to_string() const {
  if (!is_list_) return scalar_.to_string();
  std::string out = "[";
  for (const NestedData& item : items_) out += (out.size() > 1 ? ", " : "") + item.to_string();
  return out + "]";
}

Tensor Tensor::from_bytes(std::span<const std::byte> data, const Shape& shape, DType dtype,
                          const std::string& device) {
  if (is_weak(dtype)) user_runtime_error("cannot create storage for weak dtype dtypes.{}", dtype);
  const int64_t expected = lathe::prod(shape).value() * item_size(dtype);
  if (expected != static_cast<int64_t>(data.size()))
    value_error("shape {} of dtypes.{} needs {} bytes, got {}", shape, dtype, expected, data.size());
  if (data.empty()) return constant_of(shape, 0, dtype);
  if (names_several(device)) return from_bytes(data, shape, dtype, split_devices(device)[0]).to(device);
  return Tensor(buffer_from_host(data.data(), data.size(), shape, dtype, place(device)));
}

Tensor Tensor::from_blob(void* memory, const Shape& shape, DType dtype, const std::string& device,
                         std::shared_ptr<const void> owner) {
  if (is_weak(dtype)) user_runtime_error("cannot create storage for weak dtype dtypes.{}", dtype);
  if (lathe::prod(shape) == SInt(0)) return constant_of(shape, 0, dtype);
  return Tensor(buffer_over(memory, shape, dtype, place(device), std::move(owner)));
}

Tensor Tensor::from_file(const std::string& path, DType dtype) {
  if (is_weak(dtype)) user_runtime_error("cannot create storage for weak dtype dtypes.{}", dtype);
  const auto file = std::make_shared<MappedFile>(path, MappedFile::Mode::Shared);
  const size_t width = static_cast<size_t>(item_size(dtype)), n = file->size() / width;
  if (n * width != file->size())
    value_error("{} has {} bytes, which is no multiple of the {} of dtypes.{}", path, file->size(), width,
                dtype);
  return from_blob(const_cast<std::byte*>(file->bytes().data()), {SInt(static_cast<int64_t>(n))}, dtype,
                   "DISK:" + path, file);
}

Tensor Tensor::from(const NestedData& data, const TensorOptions& options) {
  Shape shape;
  std::vector<Scalar> flat;
  nested_shape(data, data, shape, 0, flat);
  const DType dtype = options.dtype.value_or(data_dtype(flat));
  if (is_weak(dtype)) user_runtime_error("cannot create storage for weak dtype dtypes.{}", dtype);
  const size_t width = static_cast<size_t>(item_size(dtype));
  std::vector<std::byte> bytes;
  bytes.reserve(flat.size() * width);
  for (const Scalar& v : flat) {
    const uint64_t bits = encode(cast_scalar(v, dtype), dtype);
    for (size_t i = 0; i < width; i++) bytes.push_back(static_cast<std::byte>(bits >> (8 * i) & 255));
  }
  return from_bytes(bytes, shape, dtype, options.device);
}

Tensor Tensor::empty(const Shape& shape, const TensorOptions& options) {
  return Tensor(uninitialized(shape, options.dtype.value_or(default_float()), place(options.device)));
}

Tensor Tensor::constant_of(const Shape& shape, const Scalar& value, std::optional<DType> dtype) {
  return Tensor(broadcast_to(Tensor(value, dtype.value_or(strong(weak_dtype(value)))).uop(), shape));
}

Tensor Tensor::full(const Shape& shape, const Scalar& value, const TensorOptions& options) {
  for (const SInt& d : shape)
    if (d.is_const() && d.value() < 0) value_error("cannot have negative size in shape {}", shape);
  const Tensor constant = constant_of(shape, value, options.dtype);
  if (is_weak(constant.dtype()))
    user_runtime_error("cannot create storage for weak dtype dtypes.{}", constant.dtype());
  if (lathe::prod(shape) == SInt(0)) return constant;
  return Tensor(stored(constant.uop(), place(options.device)));
}

Tensor Tensor::empty_like(const TensorOptions& options) const {
  return per_shard(*this, options.device, [&](const Shape& shape, const std::string& where) {
    return empty(shape, {options.dtype.value_or(strong(dtype())), where});
  });
}
Tensor Tensor::full_like(const Scalar& value, const TensorOptions& options) const {
  return per_shard(*this, options.device, [&](const Shape& shape, const std::string& where) {
    return full(shape, value, {options.dtype.value_or(strong(dtype())), where});
  });
}
Tensor Tensor::const_like(const Scalar& value) const { return constant_of(shape(), value, dtype()); }

namespace {

bool fits(const Scalar& v, DType d) { return !v.less(min_value(d)) && !max_value(d).less(v); }

// How many steps fit into [start, stop).
int64_t step_count(const Scalar& start, const Scalar& stop, const Scalar& step) {
  if (step.is_float() || start.is_float() || stop.is_float()) {
    const double n = std::ceil((stop.as_double() - start.as_double()) / step.as_double());
    if (std::isnan(n))
      value_error("arange [{}, {}) by {} has no length", start.to_string(), stop.to_string(),
                  step.to_string());
    if (n >= 9e18)
      overflow_error("arange [{}, {}) by {} is too long", start.to_string(), stop.to_string(),
                     step.to_string());
    return n > 0 ? static_cast<int64_t>(n) : 0;
  }
  const int128 span = stop.as_int() - start.as_int(), by = step.as_int();
  if ((span <= 0) == (by > 0) || span == 0) return 0;
  const int128 n = by > 0 ? (span + by - 1) / by : (-span - by - 1) / -by;
  if (n > std::numeric_limits<int64_t>::max())
    overflow_error("arange [{}, {}) by {} is too long", start.to_string(), stop.to_string(),
                   step.to_string());
  return static_cast<int64_t>(n);
}

}  // namespace

Tensor Tensor::arange(const Scalar& start, const Scalar& stop, const Scalar& step,
                      const TensorOptions& options) {
  if (step.equals(Scalar(0))) value_error("arange step must not be zero");
  const bool any_float = start.is_float() || stop.is_float() || step.is_float();
  const int64_t n = step_count(start, stop, step);
  Scalar last = start;
  if (n > 0 && !any_float) last = Scalar(start.as_int() + step.as_int() * (n - 1));
  DType dtype = any_float ? default_float() : default_int();
  if (!any_float && !(fits(start, dtype) && fits(last, dtype))) dtype = DType::Int64;
  if (options.dtype) dtype = *options.dtype;
  if (n == 0) return constant_of({0}, 0, dtype);
  if (is_int(dtype) && !(fits(start, dtype) && fits(any_float ? stop : last, dtype)))
    overflow_error("arange [{}, {}) is not representable in dtype dtypes.{}", start.to_string(),
                   stop.to_string(), dtype);

  // Running sums of a constant: the scheduler turns the reduction into the index itself.
  if (!any_float && !is_float(dtype) && !is_bool(dtype)) {
    const Tensor sums = constant_of({SInt(n)}, step, dtype).cumulative(Running::Sum, 0);
    const Scalar before(start.as_int() - step.as_int());
    return sums.add(Tensor(before)).cast(dtype);
  }
  const DType index_dtype = n > std::numeric_limits<int32_t>::max() ? DType::Int64 : DType::Int32;
  const Tensor i = constant_of({SInt(n)}, 1, index_dtype).cumulative(Running::Sum, 0).sub(1);
  const DType computed = join(dtype, default_float());
  return (i.cast(computed) * Tensor(Scalar(step.as_double())) + Tensor(Scalar(start.as_double())))
      .cast(dtype);
}

Tensor Tensor::linspace(const Scalar& start, const Scalar& stop, int64_t steps,
                        const TensorOptions& options) {
  if (steps < 0) value_error("number of steps must be non-negative, got {}", steps);
  const DType dtype = options.dtype.value_or(default_float());
  if (is_bool(dtype)) value_error("linspace with bool dtype is not supported");
  if (steps == 1) return constant_of({1}, start, dtype);
  if (steps == 0) return constant_of({0}, 0, dtype);
  const double step = (stop.as_double() - start.as_double()) / static_cast<double>(steps - 1);
  const Tensor i = arange(0, steps).cast(join(dtype, default_float()));
  return (i * step + start.as_double()).cast(dtype);
}

Tensor Tensor::eye(int64_t n, std::optional<int64_t> m, const TensorOptions& options) {
  const int64_t columns = m.value_or(n);
  if (n < 0 || columns < 0) value_error("cannot have negative n={}, m={}", n, columns);
  const DType dtype = options.dtype.value_or(default_float());
  return arange(0, n).unsqueeze(-1).eq(arange(0, columns)).cast(dtype);
}

}  // namespace lathe
