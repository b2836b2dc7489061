#include "formats/tensor_index.h"

#include "base/mmap.h"
#include "formats/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kSuffix = ".safetensors.index.json";

bool stays_below(const std::string& file) {
  const std::filesystem::path path(file);
  return !file.empty() && path.is_relative() && path.has_filename() && file.find('\0') == file.npos &&
         std::none_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view where) {
  const auto error = [&](std::string problem, size_t at = 0) {
    return ParseError{std::move(problem), std::min(at, text.size()), std::string(where)};
  };
  std::unordered_set<std::string> names;
  std::string twice;
  // A document keeps one value of a key only.
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    constexpr int kNameDepth = 2;
    if (event == Json::parse_event_t::key && depth == 1) names.clear();
    if (event == Json::parse_event_t::key && depth == kNameDepth &&
        !names.insert(value.get_ref<const std::string&>()).second)
      twice = value.get<std::string>();
    return true;
  };
  Json document;
  try {
    document = Json::parse(text, check);
  } catch (const Json::parse_error& e) {
    return error("the index is not valid JSON", e.byte);
  }
  if (!twice.empty()) return error(fmt::format("the tensor `{}` occurs twice", twice));
  const auto map = document.is_object() ? document.find("weight_map") : document.end();
  if (map == document.end() || !map->is_object()) return error("the index has no weight_map");
  ShardIndex out;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) return error(fmt::format("tensor `{}`: its file is no text", name));
    out.weight_map.emplace_back(name, file.get<std::string>());
    if (!stays_below(out.weight_map.back().second))
      return error(fmt::format("tensor `{}`: `{}` is not a file below the index's folder", name,
                               out.weight_map.back().second));
  }
  if (const auto metadata = document.find("metadata"); metadata != document.end() && metadata->is_object())
    for (const auto& [key, value] : metadata->items())
      if (value.is_primitive())
        out.metadata[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return out;
}

void save_sharded(const NamedTensors& tensors, const std::string& path, uint64_t max_bytes,
                  const Metadata& metadata) {
  if (!path.ends_with(kSuffix)) value_error("{}: the name of an index ends in {}", path, kSuffix);
  const std::filesystem::path base = path.substr(0, path.size() - kSuffix.size());
  std::vector<NamedTensors> shards;
  uint64_t total = 0, held = 0;
  for (const auto& [name, t] : tensors) {
    const SInt size = t.nbytes();
    if (!size.is_const())
      value_error("tensor `{}`: cannot save the symbolic shape {}", name, to_string(t.shape()));
    const auto bytes = static_cast<uint64_t>(size.value());
    if (shards.empty() || (held > 0 && bytes > max_bytes - std::min(held, max_bytes))) {
      shards.emplace_back();
      held = 0;
    }
    shards.back().emplace_back(name, t);
    held += bytes;
    total += bytes;
  }
  Json map = Json::object();
  for (size_t i = 0; i < shards.size(); i++) {
    const std::string suffix = fmt::format("-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const auto& [name, t] : shards[i]) {
      if (map.contains(name)) value_error("{}: cannot save two tensors as `{}`", path, name);
      map[name] = base.filename().string() + suffix;
    }
    safe_save(shards[i], base.string() + suffix, metadata);
  }
  const Json document{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_file_atomically(path, document.dump(2) + "\n");
}

}  // namespace lathe
