// Tensors over the bytes of files.
#pragma once
#include "tensor/named_tensors.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lathe {

// What a file says beside its tensors.
using Metadata = std::map<std::string, std::string>;

// Bytes that elements of this type and shape take; none where they are 2^64 or more. Sizes are not negative.
std::optional<uint64_t> data_bytes(DType dtype, const std::vector<int64_t>& shape);

// Turns elements of `width` bytes around, from big- to little-endian.
void swap_bytes(std::string& elements, size_t width);

// A file or other memory that tensors may share, to the last of which it lives.
class FileData {
 public:
  // Maps the file: what is not read is not loaded, and writing to a tensor leaves the file as it is.
  explicit FileData(const std::string& path);
  // Memory that `owner` holds, or that outlives all tensors where it is null; nobody may write to tensors
  // over memory that is read-only.
  FileData(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, std::string name)
      : name_(std::move(name)), bytes_(bytes), owner_(std::move(owner)) {}

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& name() const { return name_; }
  // Other memory in the place of the bytes, under the same name.
  FileData with(std::shared_ptr<std::string> content) const;

  // Some of the bytes, which have to be there.
  FileData part(size_t at, size_t bytes) const;

  // `part` of the bytes as a tensor: shared where the device sees this memory and elements are aligned in it,
  // copied otherwise. `part` has the size that dtype and shape need; truth values other than 0 and 1, and
  // sizes beside a 0 whose product is 2^63 bytes or more, are ValueErrors, which name the file and `tensor`.
  Tensor tensor(std::span<const std::byte> part, const std::vector<int64_t>& shape, DType dtype,
                const std::string& device, const std::string& tensor) const;

 private:
  FileData() = default;
  std::string name_;
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;  // of the bytes in the file
  std::shared_ptr<const void> owner_;
};

}  // namespace lathe
