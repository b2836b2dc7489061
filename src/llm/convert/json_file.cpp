#include "llm/convert/json_file.h"

#include "base/mmap.h"
#include "llm/json_text.h"

#include <limits>

namespace lathe {

JsonFile::JsonFile(const std::string& path) : where_(path) {
  // Values are copied and written recursively; keys are sorted, and vocabularies have many.
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  constexpr JsonLimits kLimits{.depth = 100, .values = kAny, .keys = kAny, .searched = kAny};
  try {
    const std::string text = read_file(path);
    if (!check_json(text, path, kLimits))
      value_error("{}: values are nested more than {} deep", path, kLimits.depth);
    json_ = nlohmann::json::parse(text);
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
