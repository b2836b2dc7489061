#pragma once

// Whether JSON satisfies a schema, by the definition of each keyword, and random schemas of these keywords.

#include "formats/utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <regex>
#include <string>

namespace lathe::test {

using Schema = nlohmann::ordered_json;

inline std::wstring wide(const std::string& text) {  // a code point each, on which patterns are defined
  std::wstring out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    out += static_cast<wchar_t>(step.code);
    i += step.length;
  }
  return out;
}

inline size_t code_points(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

inline bool has_type(const Schema& v, const std::string& type) {
  if (type == "integer") return v.is_number() && v.get<double>() == std::floor(v.get<double>());
  return (type == "number" && v.is_number()) || type == v.type_name();
}

inline bool satisfies(const Schema& v, const Schema& s, const Schema& root);

inline bool satisfies_object(const Schema& v, const Schema& s, const Schema& root) {
  for (const auto& name : s.value("required", Schema::array()))
    if (!v.contains(name.get<std::string>())) return false;
  const Schema properties = s.value("properties", Schema::object());
  for (const auto& [name, value] : v.items())
    if (properties.contains(name)
            ? !satisfies(value, properties[name], root)
            : s.contains("additionalProperties") && !satisfies(value, s["additionalProperties"], root))
      return false;
  return true;
}

inline bool satisfies_array(const Schema& v, const Schema& s, const Schema& root) {
  if (v.size() < s.value("minItems", size_t{0}) || v.size() > s.value("maxItems", v.size())) return false;
  const Schema prefix = s.value("prefixItems", Schema::array());
  for (size_t i = 0; i < v.size(); i++)
    if (i < prefix.size() ? !satisfies(v[i], prefix[i], root)
                          : s.contains("items") && !satisfies(v[i], s["items"], root))
      return false;
  return true;
}

inline bool satisfies_leaf(const Schema& v, const Schema& s) {
  if (v.is_string()) {
    const std::string text = v;
    if (code_points(text) < s.value("minLength", size_t{0}) ||
        code_points(text) > s.value("maxLength", text.size()))
      return false;
    if (s.contains("pattern") && !std::regex_search(wide(text), std::wregex(wide(s["pattern"]))))
      return false;
    if (s.value("format", "") == "date" && !std::regex_match(text, std::regex("\\d{4}-\\d\\d-\\d\\d")))
      return false;
  }
  if (!v.is_number()) return true;
  const double x = v;
  return x >= s.value("minimum", x) && x <= s.value("maximum", x) &&
         (!s.contains("exclusiveMinimum") || x > s["exclusiveMinimum"].get<double>()) &&
         (!s.contains("exclusiveMaximum") || x < s["exclusiveMaximum"].get<double>());
}

inline bool satisfies(const Schema& v, const Schema& s, const Schema& root) {
  if (s.is_boolean()) return s.get<bool>();
  if (s.contains("$ref") &&
      !satisfies(v, root.at(Schema::json_pointer(s["$ref"].get<std::string>().substr(1))), root))
    return false;
  for (const auto& part : s.value("allOf", Schema::array()))
    if (!satisfies(v, part, root)) return false;
  if (s.contains("anyOf") && std::none_of(s["anyOf"].begin(), s["anyOf"].end(),
                                          [&](auto& part) { return satisfies(v, part, root); }))
    return false;
  if (s.contains("const") && v != s["const"]) return false;
  if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), v) == s["enum"].end()) return false;
  if (s.contains("type")) {
    const Schema types = s["type"].is_array() ? s["type"] : Schema::array({s["type"]});
    if (std::none_of(types.begin(), types.end(), [&](auto& t) { return has_type(v, t); })) return false;
  }
  if (v.is_object()) return satisfies_object(v, s, root);
  if (v.is_array()) return satisfies_array(v, s, root);
  return satisfies_leaf(v, s);
}

inline Schema random_schema(std::mt19937& random, int depth) {
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const auto name = [&] { return std::string(1 + below(2), "abé"[below(2)]); };
  switch (below(depth > 2 ? 6 : 11)) {
    case 0:
      return below(2) ? Schema({{"type", {"boolean", "null"}}})
                      : Schema({{"enum", {1, "a\"b", nullptr, {1, 2}}}});
    case 1: {
      Schema s = {{"type", below(2) ? "integer" : "number"}};
      const int low = static_cast<int>(below(300)) - 150;
      if (below(2)) s[below(2) ? "minimum" : "exclusiveMinimum"] = low;
      if (below(2)) s[below(2) ? "maximum" : "exclusiveMaximum"] = low + 2 + static_cast<int>(below(200));
      return s;
    }
    case 2: return {{"type", "string"}, {"minLength", below(3)}, {"maxLength", 3 + below(20)}};
    case 3:
      return {{"type", "string"},
              {"pattern",
               std::vector<const char*>{"^[a-f]{2,4}$", "x\\d+|^y", "^\\w+@(a|b)\\.[^\"a-y]$"}[below(3)]}};
    case 4: return {{"type", "string"}, {"format", "date"}};
    case 5: return {{"const", {{"k", {1.5, "x"}}}}};
    case 6: {
      Schema s = {{"type", "array"}, {"items", random_schema(random, depth + 1)}};
      if (below(2)) s["minItems"] = below(3);
      if (below(2)) s["maxItems"] = 3 + below(3);
      if (below(2)) s["prefixItems"] = Schema::array({random_schema(random, depth + 1)});
      return s;
    }
    case 7: return {{"anyOf", {random_schema(random, depth + 1), random_schema(random, depth + 1)}}};
    case 8:
      return {
          {"type", "object"},
          {"allOf", {{{"properties", {{"p", random_schema(random, depth + 1)}}}}, {{"required", {"p"}}}}}};
    default: {
      Schema s = {{"type", "object"}, {"properties", Schema::object()}, {"required", Schema::array()}};
      for (size_t n = below(4); n > 0; n--) {
        const std::string key = name();
        s["properties"][key] = random_schema(random, depth + 1);
        if (below(2)) s["required"].push_back(key);
      }
      if (below(2)) s["additionalProperties"] = below(2) ? Schema(false) : random_schema(random, depth + 1);
      return s;
    }
  }
}

}  // namespace lathe::test
