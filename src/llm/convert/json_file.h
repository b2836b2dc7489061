// A JSON file of a checkpoint, with errors that name it.
#pragma once
#include "base/error.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

class JsonFile {
 public:
  // UserError where it cannot be read or is no JSON object.
  explicit JsonFile(const std::string& path);
  // An object inside of a file; UserError where it is none.
  JsonFile(std::string where, nlohmann::json object) : where_(std::move(where)), json_(std::move(object)) {
    if (!json_.is_object()) value_error("{}: is no object", where_);
  }

  const std::string& where() const { return where_; }
  const nlohmann::json& json() const { return json_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  // Null where the key is missing or null.
  const nlohmann::json* find(std::string_view key) const;

  // Integers as int64_t, numbers as double, bool and std::string; none where the key is missing or null,
  // and a ValueError where it is something else.
  template <class T>
  std::optional<T> get(std::string_view key) const {
    const nlohmann::json* v = find(key);
    if (!v) return std::nullopt;
    bool fits = false;
    if constexpr (std::is_same_v<T, bool>)
      fits = v->is_boolean();
    else if constexpr (std::is_same_v<T, int64_t>)
      fits = v->is_number_integer();
    else if constexpr (std::is_same_v<T, double>)
      fits = v->is_number();
    else
      fits = v->is_string();
    if (!fits) refuse(key, "is of another type");
    return v->get<T>();
  }
  template <class T>
  T at(std::string_view key) const {
    std::optional<T> v = get<T>(key);
    if (!v) value_error("{}: key `{}` is missing", where_, key);
    return std::move(*v);
  }
  // Names the key and its value.
  [[noreturn]] void refuse(std::string_view key, std::string_view problem) const;

 private:
  std::string where_;
  nlohmann::json json_;
};

}  // namespace lathe
