#include "formats/tensor_index.h"

#include "base/mmap.h"
#include "formats/safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

namespace lathe {
namespace {

constexpr std::string_view kSuffix = ".safetensors.index.json";

bool stays_below(const std::string& file) {
  const std::filesystem::path path(file);
  return !file.empty() && path.is_relative() && path.has_filename() && file.find('\0') == file.npos &&
         std::ranges::none_of(path, [](const auto& part) { return part == ".."; });
}

// The document as events: a tree of it would take time quadratic in its length.
class IndexEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  ShardIndex index;
  bool has_map = false;
  std::string problem;
  size_t problem_at = 0;

  bool null() override { return value("null", false); }
  bool boolean(bool v) override { return value(v ? "true" : "false", false); }
  bool number_integer(number_integer_t v) override { return value(std::to_string(v), false); }
  bool number_unsigned(number_unsigned_t v) override { return value(std::to_string(v), false); }
  bool number_float(number_float_t, const string_t& text) override { return value(text, false); }
  bool binary(binary_t&) override { return value("", false); }
  bool string(string_t& text) override { return value(text, true); }
  bool start_object(size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(false); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      part_ = name == "weight_map" ? Part::Map : name == "metadata" ? Part::Metadata : Part::Other;
      if (part_ == Part::Map && has_map) return fail("weight_map occurs twice");
    } else if (depth_ == 2) {
      key_ = std::move(name);
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    problem_at = position;
    return fail("the index is not valid JSON");
  }

 private:
  enum class Part : uint8_t { Other, Map, Metadata };

  bool fail(std::string text) {
    problem = std::move(text);
    return false;
  }

  bool open(bool is_object) {
    if (depth_ == 1) {
      if (!is_object && part_ == Part::Metadata) part_ = Part::Other;
      if (is_object && part_ == Part::Map) has_map = true;
    }
    if (!is_object && (depth_ == 0 || (depth_ == 1 && part_ == Part::Map)))
      return fail("the index has no weight_map");
    if (depth_ == 2 && part_ == Part::Map) return value("", false);
    depth_++;
    return true;
  }

  bool close() {
    depth_--;
    return true;
  }

  // A text or another value without values inside.
  bool value(const std::string& text, bool is_text) {
    if (depth_ != 2) return true;
    if (part_ == Part::Metadata) index.metadata[key_] = text;
    if (part_ != Part::Map) return true;
    if (!is_text) return fail(fmt::format("tensor `{}`: its file is no text", key_));
    if (!names_.insert(key_).second) return fail(fmt::format("the tensor `{}` occurs twice", key_));
    if (!stays_below(text))
      return fail(fmt::format("tensor `{}`: `{}` is not a file below the index's folder", key_, text));
    index.weight_map.emplace_back(key_, text);
    return true;
  }

  int depth_ = 0;  // objects and lists around
  Part part_ = Part::Other;
  std::string key_;
  std::unordered_set<std::string> names_;
};

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view where) {
  IndexEvents events;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &events) && !events.has_map)
    events.problem = "the index has no weight_map";
  if (!events.problem.empty())
    return ParseError{std::move(events.problem), std::min(events.problem_at, text.size()),
                      std::string(where)};
  return std::move(events.index);
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
  nlohmann::json map = nlohmann::json::object();
  for (size_t i = 0; i < shards.size(); i++) {
    const std::string suffix = fmt::format("-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const auto& [name, t] : shards[i]) {
      if (map.contains(name)) value_error("{}: cannot save two tensors as `{}`", path, name);
      map[name] = base.filename().string() + suffix;
    }
    safe_save(shards[i], base.string() + suffix, metadata);
  }
  const nlohmann::json document{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  write_file_atomically(path, document.dump(2) + "\n");
}

}  // namespace lathe
