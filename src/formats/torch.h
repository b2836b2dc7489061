// Checkpoints of PyTorch, read only: zip archives (torch.save since 1.6), the stream of pickles before, and
// the tar archives before that. No code of theirs runs.
#pragma once
#include "base/result.h"
#include "formats/file_data.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// A view of a storage's elements, all of which lie in it.
struct TorchTensor {
  std::string name;
  DType dtype = DType::Float32;
  std::vector<int64_t> shape, strides;    // strides in elements, none of them negative
  int64_t offset = 0;                     // of the first element, in elements
  std::span<const std::byte> storage;     // part of the file, or of `unpacked`
  std::shared_ptr<std::string> unpacked;  // where the storage is deflated
};

struct TorchCheckpoint {
  std::vector<TorchTensor> tensors;
  Metadata metadata;  // numbers and texts in dicts, by name
  bool is_big_endian = false;
};

bool is_torch(std::span<const std::byte> file);

// Finds the tensors in nested dicts, lists and modules; a name joins keys, positions and the names of
// attributes by dots, as in a state dict, and is "" for a file that is one tensor. Of objects of unknown
// classes only the attributes are looked at; where a tensor is an argument of an unknown class or function,
// it cannot be rebuilt, and that is an error with both names. `where` names the file.
Result<TorchCheckpoint> parse_torch(std::span<const std::byte> file, std::string_view where);

// The tensors on `device`, sharing the file's memory where they can. UserErrors name the file and the tensor.
NamedTensors torch_load(const std::string& path, const std::string& device = "");
NamedTensors torch_load(const FileData& file, const TorchCheckpoint& checkpoint, const std::string& device);

}  // namespace lathe
