#include "llm/convert/json_file.h"

#include "base/mmap.h"

namespace lathe {

JsonFile::JsonFile(const std::string& path) : where_(path) {
  // Values are copied and written recursively.
  constexpr int kMaxDepth = 100;
  const auto bounded = [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    if (depth > kMaxDepth) value_error("{}: values are nested more than {} deep", path, kMaxDepth);
    return true;
  };
  try {
    json_ = nlohmann::json::parse(read_file(path), bounded);
  } catch (const nlohmann::json::exception& error) {
    value_error("{}: this is no JSON: {}", path, error.what());
  }
  if (!json_.is_object()) value_error("{}: this is no JSON object", path);
}

const nlohmann::json* JsonFile::find(std::string_view key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFile::refuse(std::string_view key, std::string_view problem) const {
  const nlohmann::json* v = find(key);
  std::string text = v ? v->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) : "missing";
  constexpr size_t kMostText = 300;
  if (text.size() > kMostText) text = text.substr(0, kMostText) + "…";
  value_error("{}: key `{}` {}: {}", where_, key, problem, text);
}

}  // namespace lathe
