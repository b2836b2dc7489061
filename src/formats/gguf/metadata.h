// Keys and values of a GGUF file.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace lathe {

// Numbers as in files.
enum class GgufValueType : int32_t {
#define GGUF_VALUE_TYPE(id, number, name, bytes) id = number,
#include "formats/gguf/value_types.def"
#undef GGUF_VALUE_TYPE
};

// "u8" … "f64", "bool", "string", "array".
std::string_view gguf_type_name(GgufValueType type);
// Bytes of a value in a file, at least.
size_t gguf_type_bytes(GgufValueType type);
constexpr bool is_integer(GgufValueType t) {
  return t <= GgufValueType::Int32 || t == GgufValueType::UInt64 || t == GgufValueType::Int64;
}
constexpr bool is_real(GgufValueType t) { return t == GgufValueType::Float32 || t == GgufValueType::Float64; }

// One value with the type it has in the file. Held wide: integers and truth values in 64 bits (those of u64
// by their bits), floats as doubles, and so are arrays of them.
class GgufValue {
 public:
  using Held = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                            std::vector<std::string>, std::vector<GgufValue>>;

  template <class T>
    requires std::is_arithmetic_v<T>
  GgufValue(T v) : type_(type_of<T>()) {
    if constexpr (std::is_floating_point_v<T>)
      held_ = static_cast<double>(v);
    else
      held_ = static_cast<int64_t>(v);
  }
  GgufValue(std::string text) : type_(GgufValueType::String), held_(std::move(text)) {}
  GgufValue(std::string_view text) : GgufValue(std::string(text)) {}
  GgufValue(const char* text) : GgufValue(std::string(text)) {}
  // Arrays, whose elements have the type that T has as a single value.
  template <class T>
    requires std::is_arithmetic_v<T>
  GgufValue(const std::vector<T>& array) : type_(GgufValueType::Array), element_(type_of<T>()) {
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
    held_ = std::vector<Wide>(array.begin(), array.end());
  }
  GgufValue(std::vector<std::string> array)
      : type_(GgufValueType::Array), element_(GgufValueType::String), held_(std::move(array)) {}
  GgufValue(std::vector<GgufValue> arrays)
      : type_(GgufValueType::Array), element_(GgufValueType::Array), held_(std::move(arrays)) {}
  // What a file holds: `held` is what goes with the types.
  GgufValue(GgufValueType type, GgufValueType element, Held held)
      : type_(type), element_(element), held_(std::move(held)) {}

  GgufValueType type() const { return type_; }
  GgufValueType element_type() const { return element_; }  // of an array; u8 otherwise
  bool is_array() const { return type_ == GgufValueType::Array; }
  size_t size() const;  // elements of an array, 1 otherwise
  const Held& held() const { return held_; }
  // "array of 3 u32", "string".
  std::string type_text() const;
  // The value as text; of arrays at most `most` elements.
  std::string to_text(size_t most = 8) const;
  bool operator==(const GgufValue& other) const = default;

 private:
  template <class T>
  static constexpr GgufValueType type_of() {
    if constexpr (std::is_same_v<T, bool>) return GgufValueType::Bool;
    if constexpr (std::is_floating_point_v<T>)
      return sizeof(T) == 4 ? GgufValueType::Float32 : GgufValueType::Float64;
    constexpr GgufValueType kTypes[] = {GgufValueType::UInt8,  GgufValueType::Int8,   GgufValueType::UInt16,
                                        GgufValueType::Int16,  GgufValueType::UInt32, GgufValueType::Int32,
                                        GgufValueType::UInt64, GgufValueType::Int64};
    return kTypes[(sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6) + std::is_signed_v<T>];
  }
  GgufValueType type_;
  GgufValueType element_ = GgufValueType::UInt8;
  Held held_;
};

// The keys of a file, in its order.
class GgufMetadata {
 public:
  // `where` names the file in errors.
  explicit GgufMetadata(std::string where = "GGUF metadata") : where_(std::move(where)) {}

  const std::vector<std::pair<std::string, GgufValue>>& entries() const { return entries_; }
  const GgufValue* value(std::string_view key) const;
  bool has(std::string_view key) const { return value(key) != nullptr; }
  const std::string& where() const { return where_; }

  // The value of a key, nothing where there is none, and a ValueError that names file, key and types where
  // it is something else. int64_t takes every integer type, double these and floats, bool and std::string
  // their own; std::vector<int64_t> takes arrays of integers or truth values, std::vector<double> of floats,
  // std::vector<std::string> of strings. Numbers come as an optional, the others as a pointer to what lives
  // as long as this object.
  template <class T>
  auto find(std::string_view key) const {
    if constexpr (std::is_arithmetic_v<T>) {
      return find_number<T>(key);
    } else {
      const GgufValue* v = value(key);
      const T* held = v ? std::get_if<T>(&v->held()) : nullptr;
      if (v && !held) wrong_type(key, *v, kind_name<T>());
      return held;
    }
  }
  // The same for keys that have to be there: a ValueError names a missing one.
  template <class T>
  T at(std::string_view key) const {
    const auto v = find<T>(key);
    if (!v) missing(key);
    return *v;
  }
  template <class T>
  T get_or(std::string_view key, std::type_identity_t<T> otherwise) const {
    const auto v = find<T>(key);
    return v ? *v : std::move(otherwise);
  }

  // Takes the place of the value of that key, or goes to the end.
  void set(std::string_view key, GgufValue value);
  void erase(std::string_view key);

 private:
  template <class T>
  std::optional<T> find_number(std::string_view key) const;
  template <class T>
  static constexpr std::string_view kind_name() {
    if constexpr (std::is_same_v<T, std::string>) return "a string";
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) return "an array of integers";
    if constexpr (std::is_same_v<T, std::vector<double>>) return "an array of floats";
    if constexpr (std::is_same_v<T, std::vector<std::string>>) return "an array of strings";
    return "an array of arrays";
  }
  [[noreturn]] void wrong_type(std::string_view key, const GgufValue& value, std::string_view wanted) const;
  [[noreturn]] void missing(std::string_view key) const;

  std::string where_;
  std::vector<std::pair<std::string, GgufValue>> entries_;
  std::unordered_map<std::string, size_t> index_;
};

template <>
std::optional<int64_t> GgufMetadata::find_number(std::string_view key) const;
template <>
std::optional<double> GgufMetadata::find_number(std::string_view key) const;
template <>
std::optional<bool> GgufMetadata::find_number(std::string_view key) const;

}  // namespace lathe
