// The safetensors format: a JSON header, then raw data.
#pragma once
#include "base/result.h"
#include "formats/file_data.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// What the header says of one tensor.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::Float32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes of the file
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // as listed
  Metadata metadata;
};

// Reads the header of a file's bytes and checks it against their number: names are unique, dtypes known, each
// tensor has the bytes that its shape needs, and together they fill the rest of the file without gap or
// overlap. `where` names the file in errors.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file, std::string_view where);

// The tensors of a file, in the order of its header, on `device` (the default device for ""), sharing the
// file's memory where they can (FileData). UserErrors name the file and the tensor.
NamedTensors safe_load(const std::string& path, const std::string& device = "");
NamedTensors safe_load(const FileData& file, const SafetensorsHeader& header, const std::string& device);
Metadata safe_load_metadata(const std::string& path);

// Writes the tensors in the given order, realising them. ValueError for weak dtypes, for dtypes that the
// format lacks and for a name that occurs twice. The file appears whole or not at all.
void safe_save(const NamedTensors& tensors, const std::string& path, const Metadata& metadata = {});

}  // namespace lathe
