#include "formats/tensor_file.h"

#include "archive/little_endian.h"
#include "archive/zip.h"
#include "base/log.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "formats/tensor_index.h"
#include "formats/torch.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace lathe {
namespace {

std::string stem(const std::string& path) { return std::filesystem::path(path).stem().string(); }

std::string_view text_of(const FileData& file) { return lathe::text_of(file.bytes()); }

// ---- formats, each with how its files begin

bool is_npy(const FileData& file) { return text_of(file).starts_with("\x93NUMPY"); }
TensorFile read_npy(const FileData& file, const std::string& device) {
  const std::string name = stem(file.name());
  return {"npy", {{name, load_npy(file, name, device)}}, {}};
}

bool is_npz(const FileData& file) {
  if (!is_zip(file.bytes())) return false;
  const auto entries = parse_zip(file.bytes(), file.name());
  return entries.ok() && std::none_of(entries.value().begin(), entries.value().end(), [](const ZipEntry& e) {
           return ("/" + e.name).ends_with("/data.pkl");
         });
}
TensorFile read_npz(const FileData& file, const std::string& device) {
  return {"npz", load_npz(file, parse_zip(file.bytes(), file.name()).or_throw(), device), {}};
}

bool is_checkpoint(const FileData& file) { return is_torch(file.bytes()); }
TensorFile read_checkpoint(const FileData& file, const std::string& device) {
  TorchCheckpoint checkpoint = parse_torch(file.bytes(), file.name()).or_throw();
  for (TorchTensor& t : checkpoint.tensors)
    if (t.name.empty()) t.name = stem(file.name());
  return {"PyTorch", torch_load(file, checkpoint, device), std::move(checkpoint.metadata)};
}

// A length of less than 2^32 in eight bytes, and JSON behind it.
bool is_safetensors(const FileData& file) {
  const std::string_view text = text_of(file);
  return text.size() > 8 && text.substr(4, 4) == std::string_view("\0\0\0\0", 4) && text[8] == '{';
}
TensorFile read_safetensors(const FileData& file, const std::string& device) {
  SafetensorsHeader header = parse_safetensors_header(file.bytes(), file.name()).or_throw();
  return {"safetensors", safe_load(file, header, device), std::move(header.metadata)};
}

bool is_index(const FileData& file) {
  const std::string_view text = text_of(file);
  const size_t start = text.find_first_not_of(" \t\r\n");
  return start != text.npos && text[start] == '{';
}
TensorFile read_index(const FileData& file, const std::string& device);

struct Format {
  bool (*begins)(const FileData& file);
  TensorFile (*read)(const FileData& file, const std::string& device);
};
constexpr Format kFormats[] = {
    {is_safetensors, read_safetensors},
    {is_npz, read_npz},
    {is_checkpoint, read_checkpoint},
    {is_npy, read_npy},
    {is_index, read_index},
};

const Format& format_of(const FileData& file) {
  const auto format =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Format& f) { return f.begins(file); });
  if (format == std::end(kFormats))
    value_error("{}: no file of tensors that can be read: safetensors and its index, PyTorch, npz or npy",
                file.name());
  return *format;
}

TensorFile read_index(const FileData& file, const std::string& device) {
  ShardIndex index = parse_shard_index(text_of(file), file.name()).or_throw();
  std::unordered_map<std::string, std::string> shard_of(index.weight_map.begin(), index.weight_map.end());
  const auto path_of = [&](const std::string& shard) {
    return (std::filesystem::path(file.name()).parent_path() / shard).string();
  };
  std::vector<std::string> shards;
  std::unordered_set<std::string_view> seen;
  for (const auto& [name, shard] : index.weight_map)
    if (seen.insert(shard).second) shards.push_back(shard);
  TensorFile out{"", {}, std::move(index.metadata)};
  for (const std::string& shard : shards) {
    ErrorContext context([&] { return fmt::format("loading `{}` of {}", shard, file.name()); });
    const FileData data(path_of(shard));
    const Format& format = format_of(data);
    if (format.read == read_index) value_error("{}: a shard is an index itself", data.name());
    TensorFile part = format.read(data, device);
    out.format = part.format + " index";
    for (auto& [name, tensor] : part.tensors) {
      const auto listed = shard_of.find(name);
      if (listed == shard_of.end()) {
        log_warn("{}: tensor `{}` is not in the index {}", data.name(), name, file.name());
      } else if (listed->second != shard) {
        value_error("{}: tensor `{}` is here, but the index says `{}`", data.name(), name, listed->second);
      } else {
        out.tensors.emplace_back(name, std::move(tensor));
        listed->second.clear();  // found
      }
    }
  }
  for (const auto& [name, shard] : index.weight_map)
    if (!shard_of.at(name).empty())
      value_error("{}: tensor `{}` is missing, which the index says is here", path_of(shard), name);
  return out;
}

void save_single(const NamedTensors& tensors, const std::string& path) {
  if (tensors.size() != 1)
    value_error("{}: npy holds one tensor, not {}; npz holds more", path, tensors.size());
  save_npy(tensors[0].second, path);
}

struct Writer {
  std::string_view ending;
  void (*write)(const NamedTensors& tensors, const std::string& path);
};
constexpr Writer kWriters[] = {
    {".safetensors", [](const NamedTensors& t, const std::string& path) { safe_save(t, path); }},
    {".safetensors.index.json",
     [](const NamedTensors& t, const std::string& path) { save_sharded(t, path); }},
    {".npz", [](const NamedTensors& t, const std::string& path) { save_npz(t, path); }},
    {".npy", save_single},
};

}  // namespace

TensorFile load_tensor_file(const std::string& path, const std::string& device) {
  const FileData file(path);
  return format_of(file).read(file, device);
}

NamedTensors load_tensors(const std::string& path, const std::string& device) {
  return load_tensor_file(path, device).tensors;
}

void save_tensors(const NamedTensors& tensors, const std::string& path) {
  for (const Writer& w : kWriters)
    if (path.ends_with(w.ending)) return w.write(tensors, path);
  value_error("{}: tensors are saved as .safetensors, .safetensors.index.json, .npz or .npy", path);
}

}  // namespace lathe
