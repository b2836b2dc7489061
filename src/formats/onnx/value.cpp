#include "formats/onnx/value.h"

#include "engine/realize.h"
#include "runtime/device.h"
#include "tensor/place.h"
#include "uop/number_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

namespace lathe::onnx {
namespace {

constexpr FloatLayout kE2M1{2, 1, 1, 7, 7, 7, 7, false};

// A power of two, of which the last one stands for no number.
double decode_e8m0(uint8_t code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

// Elements of fewer than eight bits stand low bits first; each becomes one of the type that holds it.
std::vector<std::byte> widen(std::span<const std::byte> packed, int64_t count, ElementType type) {
  const auto bits = static_cast<size_t>(element_info(type)->bits);
  const unsigned mask = (1U << bits) - 1, sign = 1U << (bits - 1);
  std::vector<std::byte> out;
  for (size_t i = 0; i < static_cast<size_t>(count); i++) {
    const unsigned v = std::to_integer<unsigned>(packed[i * bits / 8]) >> (i * bits % 8) & mask;
    if (element_info(type)->dtype == DType::Float32) {
      const auto code = static_cast<uint8_t>(v);
      const auto x = static_cast<float>(type == ElementType::Float8E8M0 ? decode_e8m0(code)
                                                                        : decode_narrow(code, kE2M1));
      const auto raw = std::as_bytes(std::span(&x, 1));
      out.insert(out.end(), raw.begin(), raw.end());
    } else {
      const bool is_negative = type != ElementType::UInt4 && type != ElementType::UInt2 && v & sign;
      out.push_back(static_cast<std::byte>(is_negative ? v | ~mask : v));
    }
  }
  return out;
}

// The part of another file that holds the elements.
std::span<const std::byte> external_elements(const TensorData& data, const MappedFile& file) {
  const auto number = [&](const char* key, uint64_t otherwise) {
    const auto it = data.external.find(key);
    if (it == data.external.end()) return otherwise;
    if (it->second.empty() || it->second.size() > 18 ||
        !std::ranges::all_of(it->second, [](char c) { return c >= '0' && c <= '9'; }))
      value_error("tensor `{}`: the {} `{}` of its external data is no number", data.name, key, it->second);
    return static_cast<uint64_t>(std::stoull(it->second));
  };
  const int bits = element_info(data.type)->bits;
  const auto needed = static_cast<uint64_t>((data.count() * bits + 7) / 8);
  const uint64_t offset = number("offset", 0), length = number("length", needed);
  if (length != needed || offset > file.size() || length > file.size() - offset)
    value_error("tensor `{}` needs {} bytes; its external data is {} bytes from {} of the {} bytes of {}",
                data.name, needed, length, offset, file.size(), file.path());
  return file.bytes().subspan(static_cast<size_t>(offset), static_cast<size_t>(length));
}

// Copying less than this costs less than the pages that it would keep.
constexpr size_t kMinMapped = 1 << 14;

Tensor stored_tensor(std::span<const std::byte> bytes, const std::shared_ptr<const MappedFile>& file,
                     const Shape& shape, DType dtype, const std::string& device) {
  const bool is_aligned =
      reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<size_t>(item_size(dtype)) == 0;
  const std::string where = place(device);
  if (!file || bytes.size() < kMinMapped || !is_aligned ||
      !lathe::device(where).memory().allocator().is_host_visible())
    return Tensor::from_bytes(bytes, shape, dtype, where);
  // Nothing writes to the memory of a constant.
  return Tensor(buffer_over(const_cast<std::byte*>(bytes.data()), shape, dtype, where, file));
}

}  // namespace

Value Value::sequence(Values items, ElementType type) {
  Value out;
  out.type_ = items.empty() ? type : items[0].type();
  out.content_ = std::make_shared<const Values>(std::move(items));
  return out;
}

std::vector<int64_t> Value::shape() const { return is_strings() ? strings().shape : sizes_of(tensor()); }

std::string Value::to_string() const {
  if (!has_value()) return "nothing";
  if (is_sequence()) return fmt::format("sequence of {}", items().size());
  std::vector<std::string> sizes;
  if (is_strings())
    for (int64_t d : strings().shape) sizes.push_back(std::to_string(d));
  else
    for (const SInt& d : tensor().shape()) sizes.push_back(expression(d.uop()));
  return fmt::format("{}[{}]", element_name(type()), fmt::join(sizes, ", "));
}

std::vector<int64_t> sizes_of(const Tensor& t) {
  std::vector<int64_t> out;
  for (const SInt& d : t.shape()) {
    if (!d.is_const()) user_runtime_error("the symbolic shape {} is not a number yet", to_string(t.shape()));
    out.push_back(d.value());
  }
  return out;
}

Shape to_shape(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

std::shared_ptr<const MappedFile> DataFiles::external(const TensorData& data) {
  const auto location = data.external.find("location");
  if (location == data.external.end()) value_error("tensor `{}`: external data without location", data.name);
  const std::filesystem::path relative = std::filesystem::path(location->second).lexically_normal();
  if (relative.empty() || relative.is_absolute() || *relative.begin() == "..")
    value_error("tensor `{}`: external data `{}` is outside of the model's folder", data.name,
                location->second);
  auto& file = others_[relative.string()];
  if (!file) file = std::make_shared<const MappedFile>((std::filesystem::path(folder_) / relative).string());
  return file;
}

Value to_value(const TensorData& data) {
  DataFiles none;
  return to_value(data, none);
}

Value to_value(const TensorData& data, DataFiles& files, const std::string& device) {
  if (data.type == ElementType::String) return Strings{data.dims, data.strings};
  const ElementInfo& info = *element_info(data.type);
  auto file = data.external.empty() ? files.own() : files.external(data);
  std::span<const std::byte> bytes = data.external.empty() ? data.elements() : external_elements(data, *file);
  std::vector<std::byte> wide;
  if (info.bits < 8 || data.type == ElementType::Float8E8M0) {
    wide = widen(bytes, data.count(), data.type);
    bytes = wide;
  }
  // Bytes that were put together here are in no file.
  if (!wide.empty() || (data.external.empty() && !data.typed.empty())) file = nullptr;
  const Shape shape = to_shape(data.dims);
  if (data.count() == 1 && info.bits >= 8) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), bytes.size());
    return {Tensor::constant_of(shape, decode(bits, info.dtype), info.dtype), data.type};
  }
  return {stored_tensor(bytes, file, shape, info.dtype, device), data.type};
}

Value to_value(const SparseData& data, DataFiles& files, const std::string& device) {
  const Value values = to_value(data.values, files, device);
  if (!values.is_tensor()) type_error("sparse tensor `{}` of strings", data.values.name);
  const std::vector<int64_t> at = integers(to_value(data.indices, files, device).tensor());
  const std::vector<Scalar> stored = elements(values.tensor());
  // Dense, it stands on the host for a while: what a model of any use stores this way is small.
  constexpr int64_t kMaxDense = int64_t{1} << 24;
  int64_t total = 1;
  for (int64_t d : data.dims)
    if (d < 0 || __builtin_mul_overflow(total, d, &total) || total > kMaxDense)
      value_error("sparse tensor `{}` has a size of {}", data.values.name, d);
  std::vector<Scalar> dense(static_cast<size_t>(total), cast_scalar(Scalar(0), values.tensor().dtype()));
  // Positions are flat, or a row of coordinates for each value.
  const size_t rank = data.indices.dims.size() == 2 ? data.dims.size() : 1;
  if (at.size() != stored.size() * rank)
    value_error("sparse tensor `{}` has {} values and {} indices", data.values.name, stored.size(),
                at.size());
  for (size_t i = 0; i < stored.size(); i++) {
    int64_t flat = 0;
    for (size_t k = 0; k < rank; k++) {
      const int64_t size = rank == 1 ? total : data.dims[k], place = at[i * rank + k];
      if (place < 0 || place >= size)
        value_error("sparse tensor `{}` has the index {}", data.values.name, place);
      flat = flat * size + place;
    }
    dense[static_cast<size_t>(flat)] = stored[i];
  }
  return {from_elements(dense, to_shape(data.dims), values.tensor().dtype(), device), values.type()};
}

Value to_value(const NestedTensors& data) {
  Values items;
  for (const TensorData& t : data.tensors) items.push_back(to_value(t));
  for (const NestedTensors& n : data.nested) items.push_back(to_value(n));
  if (data.is_sequence) return Value::sequence(std::move(items));
  return items.empty() ? Value() : items[0];
}

std::vector<Scalar> decode_elements(std::span<const std::byte> raw, DType d) {
  const auto width = static_cast<size_t>(item_size(d));
  std::vector<Scalar> out;
  out.reserve(raw.size() / width);
  for (size_t at = 0; at < raw.size(); at += width) {
    uint64_t bits = 0;
    std::memcpy(&bits, raw.data() + at, width);
    out.push_back(decode(bits, d));
  }
  return out;
}

std::vector<Scalar> elements(const Tensor& t) {
  if (auto small = small_elements(t)) return std::move(*small);
  ReadLog::note_run(t.uop());
  return decode_elements(t.bytes(), strong(t.dtype()));
}

std::vector<int64_t> integers(const Tensor& t) {
  std::vector<int64_t> out;
  for (const Scalar& v : elements(t)) out.push_back(v.as_i64());
  return out;
}

Tensor along(const Tensor& list, int64_t axis, int64_t rank) {
  Shape to(static_cast<size_t>(rank), SInt(1));
  to.at(static_cast<size_t>(axis < 0 ? axis + rank : axis)) = list.numel();
  return list.reshape(to);
}

Tensor positions(int64_t n) { return Tensor::arange(0, n, 1, {DType::Int64}); }

Tensor picked(const Tensor& x, int64_t axis, TensorIndex at) {
  std::vector<TensorIndex> index(static_cast<size_t>(axis), TensorIndex(Slice{}));
  index.push_back(std::move(at));
  return x.index(index);
}

Ints axes_between(int64_t first, int64_t last) {
  Ints out;
  for (int64_t i = first; i < last; i++) out.push_back(i);
  return out;
}

int64_t product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

Value moved(const Value& v, FunctionRef<Tensor(const Tensor&)> move) {
  if (v.is_tensor()) return {move(v.tensor()), v.type()};
  const Strings& s = v.strings();
  const Tensor to = move(positions(static_cast<int64_t>(s.items.size())).reshape(to_shape(s.shape)));
  Strings out{sizes_of(to), {}};
  for (int64_t i : integers(to)) out.items.push_back(s.items.at(static_cast<size_t>(i)));
  return out;
}

Tensor from_elements(const std::vector<Scalar>& elements, const Shape& shape, DType dtype,
                     const std::string& device) {
  if (elements.empty()) return Tensor::constant_of(shape, 0, dtype);
  if (std::ranges::all_of(elements, [&](const Scalar& v) { return v == elements[0]; }))
    return Tensor::constant_of(shape, elements[0], dtype);
  const auto width = static_cast<size_t>(item_size(dtype));
  std::vector<std::byte> bytes(elements.size() * width);
  for (size_t i = 0; i < elements.size(); i++) {
    const uint64_t bits = encode(cast_scalar(elements[i], dtype), dtype);
    std::memcpy(bytes.data() + i * width, &bits, width);
  }
  return Tensor::from_bytes(bytes, shape, dtype, device);
}

}  // namespace lathe::onnx
