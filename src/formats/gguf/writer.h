// Writes GGUF files: version 3, data in the order of the directory.
#pragma once
#include "base/function_ref.h"
#include "formats/gguf/ggml_type.h"
#include "formats/gguf/metadata.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace lathe {

class GgufWriter {
 public:
  // Makes the data of a tensor when its turn to be written comes, so that not all of it has to be in memory.
  using Produce = std::function<std::vector<std::byte>()>;

  GgufWriter() = default;
  explicit GgufWriter(GgufMetadata metadata) : metadata_(std::move(metadata)) {}

  // What `general.alignment` says is kept to, 32 without it.
  GgufMetadata& metadata() { return metadata_; }
  void set(std::string_view key, GgufValue value) { metadata_.set(key, std::move(value)); }

  // `shape` is row-major. ValueError for names that are longer than 63 bytes or occur twice, more than four
  // axes, rows that are no whole blocks, and data that is not what type and shape need (of Produce: when it
  // is written).
  void add(std::string name, std::vector<int64_t> shape, GgmlType type, std::vector<std::byte> data);
  void add(std::string name, std::vector<int64_t> shape, GgmlType type, Produce produce);
  // Float32.
  void add(std::string name, std::vector<int64_t> shape, std::span<const float> values);
  size_t tensors() const { return tensors_.size(); }

  // The file appears whole or not at all.
  void write(const std::string& path) const;
  // What `write` puts into the file.
  std::string to_bytes() const;

 private:
  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
    GgmlType type;
    uint64_t bytes;
    Produce produce;
  };
  uint64_t alignment() const;
  std::string header() const;
  void emit(FunctionRef<void(std::string_view)> sink) const;

  GgufMetadata metadata_{"GGUF file to write"};
  std::vector<Entry> tensors_;
  std::unordered_set<std::string> names_;
};

}  // namespace lathe
