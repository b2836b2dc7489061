// GGUF, the files of llama.cpp's models: keys, a directory of tensors, and their data. Versions 2 and 3, in
// one file or split into several.
#pragma once
#include "base/result.h"
#include "formats/file_data.h"
#include "formats/gguf/ggml_type.h"
#include "formats/gguf/metadata.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lathe {

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // row-major: the last axis is a row; at most four axes
  GgmlType type = GgmlType::F32;
  uint64_t offset = 0;  // of its data in the file
  uint64_t bytes = 0;
  size_t part = 0;  // which file of a split model

  int64_t elements() const;
  // Bytes along the last axis.
  int64_t row_bytes() const { return *lathe::row_bytes(type, shape.empty() ? 1 : shape.back()); }
};

// What stands before the data of one file.
struct GgufHeader {
  uint32_t version = 3;
  uint64_t alignment = 32;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;
};

inline constexpr size_t kMaxGgufAxes = 4, kMaxGgufName = 64, kMaxGgufKey = 65535;

// Reads and checks the header of a file's bytes: keys and tensors are unique, types known, rows whole blocks,
// and the data of each tensor is aligned and inside of the file, beside that of others. `where` names the
// file in errors.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, std::string_view where);

class GgufFile {
 public:
  // Maps the file, and those that belong to it where it is the first part of a split model. RuntimeError
  // where it cannot be opened.
  static Result<GgufFile> open(const std::string& path);
  // A model in memory, which `owner` holds or which outlives all tensors; a split one is an error.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name,
                                std::shared_ptr<const void> owner = nullptr);

  const std::string& name() const { return parts_.front().name(); }
  uint32_t version() const { return version_; }
  size_t parts() const { return parts_.size(); }
  const GgufMetadata& metadata() const { return metadata_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }  // as listed, part by part
  const GgufTensor* find(std::string_view name) const;
  // ValueError that names the file where there is none.
  const GgufTensor& at(std::string_view name) const;
  std::span<const std::byte> data(const GgufTensor& tensor) const;

  // Blocks as they are: uint8 of shape (rows…, bytes of a row), sharing the file's memory where the device
  // sees it. Also of plain types.
  Tensor packed(const GgufTensor& tensor, const std::string& device = "") const;
  Tensor packed(std::string_view name, const std::string& device = "") const {
    return packed(at(name), device);
  }
  // Plain numbers in their dtype, sharing memory likewise; quantised ones as the float32 expression over
  // their blocks (dequantize.h).
  Tensor tensor(const GgufTensor& tensor, const std::string& device = "") const;
  Tensor tensor(std::string_view name, const std::string& device = "") const {
    return tensor(at(name), device);
  }

 private:
  GgufFile() = default;
  void add_part(FileData data, GgufHeader header);
  void open_other_parts(const std::string& path);

  std::vector<FileData> parts_;
  uint32_t version_ = 3;
  GgufMetadata metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

// "<prefix>-00002-of-00003.gguf" for part 1 (counted from 0) of 3.
std::string gguf_part_name(std::string_view prefix, int64_t part, int64_t count);

}  // namespace lathe
