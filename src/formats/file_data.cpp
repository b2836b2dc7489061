#include "formats/file_data.h"

#include "base/mmap.h"
#include "runtime/device.h"
#include "tensor/place.h"

#include <algorithm>
#include <limits>

namespace lathe {

std::optional<uint64_t> data_bytes(DType dtype, const std::vector<int64_t>& shape) {
  // A product that overflows on its way is 0 all the same if a later size is.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  auto bytes = static_cast<uint64_t>(item_size(dtype));
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  return bytes;
}

FileData::FileData(const std::string& path) : name_(path) {
  auto file = std::make_shared<const MappedFile>(path, MappedFile::Mode::CopyOnWrite);
  bytes_ = file->bytes();
  owner_ = std::move(file);
}

FileData FileData::with(std::shared_ptr<std::string> content) const {
  FileData out;
  out.name_ = name_;
  out.bytes_ = std::as_bytes(std::span(*content));
  out.owner_ = std::move(content);
  return out;
}

void swap_bytes(std::string& elements, size_t width) {
  for (auto at = elements.begin(); at != elements.end(); at += static_cast<std::ptrdiff_t>(width))
    std::reverse(at, at + static_cast<std::ptrdiff_t>(width));
}

FileData FileData::part(size_t at, size_t bytes) const {
  FileData out = *this;
  out.bytes_ = bytes_.subspan(at, bytes);
  out.offset_ += at;
  return out;
}

Tensor FileData::tensor(std::span<const std::byte> part, const std::vector<int64_t>& shape, DType dtype,
                        const std::string& device_name, const std::string& tensor) const {
  if (dtype == DType::Bool) {
    const auto odd = std::ranges::find_if(part, [](std::byte b) { return std::to_integer<int>(b) > 1; });
    if (odd != part.end())
      value_error("{}: offset {}: tensor `{}`: a truth value is {}", name_,
                  offset_ + static_cast<size_t>(&*odd - bytes_.data()), tensor, std::to_integer<int>(*odd));
  }
  ErrorContext context([&] { return fmt::format("loading tensor `{}` of {}", tensor, name_); });
  const Shape sizes(shape.begin(), shape.end());
  // Sizes are multiplied in 64 bits, those beside a 0, too.
  std::vector<int64_t> others = shape;
  std::erase(others, 0);
  constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();
  if (data_bytes(dtype, others).value_or(kMaxBytes + 1) > kMaxBytes)
    value_error("{}: tensor `{}`: shape {} is too large", name_, tensor, to_string(sizes));
  const bool is_aligned =
      reinterpret_cast<uintptr_t>(part.data()) % static_cast<uintptr_t>(item_size(dtype)) == 0;
  if (!is_aligned || !device(place(device_name)).memory().allocator().is_host_visible())
    return Tensor::from_bytes(part, sizes, dtype, device_name);
  // A private mapping or a string, which may be written to, or memory of a caller who promised not to.
  return Tensor::from_blob(const_cast<std::byte*>(part.data()), sizes, dtype, device_name, owner_);
}

}  // namespace lathe
