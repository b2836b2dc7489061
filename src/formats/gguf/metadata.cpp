#include "formats/gguf/metadata.h"

#include "base/error.h"

namespace lathe {
namespace {

struct ValueType {
  std::string_view name;
  size_t bytes;
};
constexpr ValueType kTypes[] = {
#define GGUF_VALUE_TYPE(id, number, name, bytes) {name, bytes},
#include "formats/gguf/value_types.def"
#undef GGUF_VALUE_TYPE
};

std::string number_text(int64_t v, GgufValueType type) {
  if (type == GgufValueType::Bool) return v ? "true" : "false";
  return type == GgufValueType::UInt64 ? std::to_string(static_cast<uint64_t>(v)) : std::to_string(v);
}
std::string number_text(double v, GgufValueType type) {
  return type == GgufValueType::Float32 ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
}
std::string element_text(int64_t v, GgufValueType type, size_t) { return number_text(v, type); }
std::string element_text(double v, GgufValueType type, size_t) { return number_text(v, type); }
std::string element_text(const std::string& v, GgufValueType, size_t) { return "\"" + v + "\""; }
std::string element_text(const GgufValue& v, GgufValueType, size_t most) { return v.to_text(most); }

}  // namespace

std::string_view gguf_type_name(GgufValueType type) { return kTypes[static_cast<size_t>(type)].name; }
size_t gguf_type_bytes(GgufValueType type) { return kTypes[static_cast<size_t>(type)].bytes; }

size_t GgufValue::size() const {
  return std::visit(
      [](const auto& held) -> size_t {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
          return 1;
        else
          return held.size();
      },
      held_);
}

std::string GgufValue::type_text() const {
  if (!is_array()) return std::string(gguf_type_name(type_));
  return fmt::format("array of {} {}", size(), gguf_type_name(element_));
}

std::string GgufValue::to_text(size_t most) const {
  return std::visit(
      [&](const auto& held) -> std::string {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<T>) {
          return number_text(held, type_);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return held;
        } else {
          std::string out = "[";
          for (size_t i = 0; i < held.size() && i < most; i++)
            out += (i ? ", " : "") + element_text(held[i], element_, most);
          return out + (held.size() > most ? ", …]" : "]");
        }
      },
      held_);
}

const GgufValue* GgufMetadata::value(std::string_view key) const {
  const auto found = index_.find(std::string(key));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

void GgufMetadata::set(std::string_view key, GgufValue value) {
  const auto [at, is_new] = index_.emplace(key, entries_.size());
  if (is_new)
    entries_.emplace_back(key, std::move(value));
  else
    entries_[at->second].second = std::move(value);
}

void GgufMetadata::erase(std::string_view key) {
  const auto found = index_.find(std::string(key));
  if (found == index_.end()) return;
  const size_t at = found->second;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  index_.erase(found);
  for (auto& [name, i] : index_) i -= i > at;
}

template <>
std::optional<int64_t> GgufMetadata::find_number(std::string_view key) const {
  const GgufValue* v = value(key);
  if (!v) return std::nullopt;
  const auto* held = std::get_if<int64_t>(&v->held());
  if (!held || !is_integer(v->type())) wrong_type(key, *v, "an integer");
  if (v->type() == GgufValueType::UInt64 && *held < 0)
    value_error("{}: key `{}` is {}, more than 2^63 - 1", where_, key, v->to_text());
  return *held;
}

template <>
std::optional<double> GgufMetadata::find_number(std::string_view key) const {
  const GgufValue* v = value(key);
  if (!v) return std::nullopt;
  if (const auto* held = std::get_if<double>(&v->held())) return *held;
  if (!is_integer(v->type())) wrong_type(key, *v, "a number");
  return static_cast<double>(*find_number<int64_t>(key));
}

template <>
std::optional<bool> GgufMetadata::find_number(std::string_view key) const {
  const GgufValue* v = value(key);
  if (!v) return std::nullopt;
  if (v->type() != GgufValueType::Bool) wrong_type(key, *v, "a truth value");
  return std::get<int64_t>(v->held()) != 0;
}

void GgufMetadata::wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const {
  value_error("{}: key `{}` has to be {}, not {} {}", where_, key, wanted, value.type_text(),
              value.to_text(3));
}

void GgufMetadata::missing(std::string_view key) const {
  value_error("{}: key `{}` is missing", where_, key);
}

}  // namespace lathe
