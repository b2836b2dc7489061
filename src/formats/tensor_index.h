// Checkpoints in several files: an index says which file (shard) holds which tensor, as Hugging Face writes
// it beside safetensors files and checkpoints of PyTorch.
#pragma once
#include "base/result.h"
#include "formats/file_data.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe {

// {"metadata": {"total_size": 8}, "weight_map": {"name": "model-00001-of-00002.safetensors", …}}
struct ShardIndex {
  std::vector<std::pair<std::string, std::string>> weight_map;  // tensor and file
  Metadata metadata;
};

// Names are unique, and files lie in the index's folder or below it. `where` names the index.
Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view where);

// Writes safetensors files of up to `max_bytes` of data each (more where one tensor has more) beside the
// index, `path`, which is called NAME.safetensors.index.json; the files are NAME-00001-of-00002.safetensors
// and so on. Each file appears whole or not at all, the index last. ValueError as for safe_save, and for
// other names.
void save_sharded(const NamedTensors& tensors, const std::string& path, uint64_t max_bytes = 5'000'000'000,
                  const Metadata& metadata = {});

}  // namespace lathe
