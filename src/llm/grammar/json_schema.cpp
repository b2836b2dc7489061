#include "llm/grammar/json_schema.h"

#include "archive/parsing.h"
#include "base/error.h"
#include "formats/utf8.h"
#include "llm/grammar/json_rules_table.h"
#include "llm/json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostDepth = 64;            // of schemas in schemas
constexpr size_t kMostName = 500;         // bytes of a property name
constexpr int kMostSchemas = 20000;       // that are looked at, references and mergers included
constexpr size_t kMostWork = 10'000'000;  // values that mergers copy and compare
constexpr int64_t kMostLength = 100000;   // of strings and arrays, where a schema counts

constexpr const char* kObjectKeys[] = {"properties", "required", "additionalProperties"};
constexpr const char* kArrayKeys[] = {"items", "prefixItems", "minItems", "maxItems"};
constexpr const char* kStringKeys[] = {"pattern", "format", "minLength", "maxLength"};
constexpr const char* kNumberKeys[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};

bool has_any(const Json& schema, const auto& keys) {
  return std::any_of(std::begin(keys), std::end(keys), [&](const char* key) { return schema.contains(key); });
}

bool is_of_type(const Json& value, std::string_view type) {
  return type == value.type_name() || (type == "number" && value.is_number()) ||
         (type == "integer" &&
          (value.is_number_integer() ||
           (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()))));
}

size_t size_of(const Json& value) {
  size_t out = 1;
  if (value.is_structured())
    for (const Json& part : value) out += size_of(part);
  return out;
}

// Text, a character each.
size_t length_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Others mean nothing.
bool is_known_format(const Json& format) {
  return format == "date" || format == "time" || format == "date-time" || format == "uuid";
}

bool is_anything(const Json& schema) { return schema == true || (schema.is_object() && schema.empty()); }

// Whether a value satisfies a keyword; nothing where that is not worked out.
std::optional<bool> satisfies(const Json& value, const std::string& key, const Json& wanted) {
  const auto is = [&](const auto& keys) {
    return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
  };
  if (key == "format" && !is_known_format(wanted)) return true;
  if (key == "const") return value == wanted;
  if (key == "enum") return std::find(wanted.begin(), wanted.end(), value) != wanted.end();
  if (key == "type") {
    const auto is_one = [&](const Json& t) {
      return t.is_string() && is_of_type(value, t.get<std::string>());
    };
    return wanted.is_array() ? std::any_of(wanted.begin(), wanted.end(), is_one) : is_one(wanted);
  }
  if ((value.is_object() && is(kObjectKeys)) || (value.is_string() && is(kStringKeys)) ||
      (value.is_array() && is(kArrayKeys)) || (value.is_number() && is(kNumberKeys))) {
    if (!wanted.is_number()) return std::nullopt;
    const Json size = value.is_string()  ? Json(length_of(value.get<std::string>()))
                      : value.is_array() ? Json(value.size())
                                         : value;
    if (key.starts_with("min")) return size >= wanted;
    if (key.starts_with("max")) return size <= wanted;
    return key == "exclusiveMinimum" ? size > wanted : size < wanted;
  }
  return true;
}

class Converter {
 public:
  explicit Converter(const Json& root) : root_(root) {}

  std::string convert() {
    const std::string expression = visit(root_, "#", 0);
    return fmt::format("root ::= {}\n{}{}", expression, rules_, kJsonRules);
  }

 private:
  template <class... T>
  [[noreturn]] static void fail(const std::string& path, fmt::format_string<T...> format, T&&... args) {
    throw_parse_error("JSON schema", 0, "{}: {}", path, fmt::format(format, std::forward<T>(args)...));
  }
  std::string new_name() { return fmt::format("r{}", ++names_); }
  void add_rule(const std::string& name, const std::string& body) { rules_ += name + " ::= " + body + "\n"; }
  std::string as_rule(const std::string& body) {
    const std::string name = new_name();
    add_rule(name, body);
    return name;
  }

  std::string choice_of(const std::vector<std::string>& options) {
    return options.size() == 1 ? options[0] : as_rule(fmt::format("{}", fmt::join(options, " | ")));
  }

  const Json* target_of(const Json& ref, const std::string& path) const {
    const std::string text = ref.is_string() ? ref.get<std::string>() : "";
    if (!text.starts_with("#")) fail(path, "$ref {} is not local (\"#/...\")", ref.dump());
    try {
      return &root_.at(Json::json_pointer(text.substr(1)));
    } catch (const Json::exception&) {
      fail(path, "$ref \"{}\" leads nowhere", text);
    }
  }

  // An expression that may stand in a sequence.
  std::string visit(const Json& schema, const std::string& path, int depth) {
    if (++visits_ > kMostSchemas) fail(path, "more than {} schemas to look at", kMostSchemas);
    if (depth > kMostDepth) fail(path, "schemas are more than {} deep", kMostDepth);
    if (schema.is_boolean() && !schema.get<bool>()) fail(path, "nothing satisfies false");
    if (schema.is_boolean()) return "value";
    if (!schema.is_object()) fail(path, "{} is no schema", schema.type_name());
    for (const char* key : kUnsupportedKeywords)
      if (schema.contains(key) && schema[key] != false) fail(path, "keyword \"{}\" is not supported", key);
    if (schema.contains("$ref") && !has_constraints_beside_ref(schema))
      return visit_ref(schema["$ref"], path, depth);
    for (const char* key : {"$ref", "allOf"})
      if (schema.contains(key)) return visit(without(schema, key, path), path, depth + 1);
    for (const char* key : {"anyOf", "oneOf"})
      if (schema.contains(key)) return visit_choice(schema, key, path, depth);
    if (schema.contains("const")) return visit_values(schema, Json::array({schema["const"]}), path);
    if (schema.contains("enum")) return visit_values(schema, schema["enum"], path);
    return visit_types(schema, path, depth);
  }

  static bool has_constraints_beside_ref(const Json& schema) {
    constexpr const char* kOthers[] = {"type", "enum", "const", "allOf", "anyOf", "oneOf"};
    return has_any(schema, kOthers) || has_any(schema, kObjectKeys) || has_any(schema, kArrayKeys) ||
           has_any(schema, kStringKeys) || has_any(schema, kNumberKeys);
  }

  // One rule a target, made once: so schemas may contain themselves.
  std::string visit_ref(const Json& ref, const std::string& path, int depth) {
    const Json* target = target_of(ref, path);
    const auto [at, fresh] = refs_.try_emplace(target, "");
    if (!fresh) return at->second;
    const std::string name = at->second = new_name();
    add_rule(name, visit(*target, ref.get<std::string>(), depth + 1));
    return name;
  }

  bool is_too_much(size_t work) { return (work_ += work) > kMostWork; }

  // The schema with what stands under $ref or allOf merged in.
  Json without(const Json& schema, const char* key, const std::string& path) {
    if (is_too_much(size_of(schema))) fail(path, "there is too much to merge");
    Json out = schema;
    out.erase(key);
    if (std::string_view(key) == "$ref") return merge(std::move(out), *target_of(schema[key], path), path);
    if (!schema[key].is_array()) fail(path, "allOf is not an array");
    for (const Json& part : schema[key]) out = merge(std::move(out), part, path);
    return out;
  }

  // What `a` says of all that it does not name would have to be merged with what only `b` names.
  void check_open(const Json& a, const Json& b, const std::string& path) {
    const auto restricts = [&](const char* key) { return a.contains(key) && !is_anything(a[key]); };
    if (restricts("items") && !a.contains("prefixItems") && b.contains("prefixItems"))
      fail(path, "prefixItems of one part beside items of another are not supported");
    if (!restricts("additionalProperties") || !b.contains("properties")) return;
    const Json named = a.value("properties", Json::object());
    for (const auto& [name, value] : b["properties"].items())
      if (is_too_much(named.size() + 1) || !named.contains(name))
        fail(path, "property \"{}\" of one part is ruled out by additionalProperties of another", name);
  }

  // A schema of what satisfies both.
  Json merge(Json a, const Json& b, const std::string& path, int depth = 0) {
    if (++visits_ > kMostSchemas || depth > kMostDepth || is_too_much(size_of(b)))
      fail(path, "there is too much to merge");
    if (b == true || a == b) return a;
    if (a == true) return b;
    if (!a.is_object() || !b.is_object()) fail(path, "cannot merge {} with {}", a.type_name(), b.type_name());
    check_open(a, b, path);
    check_open(b, a, path);
    for (const auto& [key, value] : b.items())
      a[key] = a.contains(key) ? merge_values(key, std::move(a[key]), value, path, depth) : value;
    return a;
  }

  Json merge_values(const std::string& key, Json a, const Json& b, const std::string& path, int depth) {
    const auto is = [&](auto... names) { return ((key == names) || ...); };
    if (a == b || is("title", "description", "default", "examples", "$comment", "$id", "$schema", "$defs",
                     "definitions"))
      return a;
    if (is("minimum", "exclusiveMinimum", "minLength", "minItems")) return std::max(a, b);
    if (is("maximum", "exclusiveMaximum", "maxLength", "maxItems")) return std::min(a, b);
    if (is("items", "additionalProperties"))
      return a == false || b == false ? Json(false) : merge(std::move(a), b, path, depth + 1);
    if (key == "properties" && a.is_object() && b.is_object()) {
      for (const auto& [name, value] : b.items()) {
        const size_t before = a.size();
        if (is_too_much(before)) fail(path, "there is too much to merge");
        Json& mine = a[name];
        mine = a.size() > before ? value : merge(std::move(mine), value, path, depth + 1);
      }
      return a;
    }
    if (is("allOf", "required") && a.is_array() && b.is_array()) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    }
    if (is("enum", "type")) {
      if (is_too_much(a.size() * b.size())) fail(path, "there is too much to merge");
      Json out = Json::array();
      for (const Json& x : a.is_array() ? a : Json::array({a}))
        for (const Json& y : b.is_array() ? b : Json::array({b}))
          if (x == y || (key == "type" && x == "integer" && y == "number"))
            out.push_back(x);
          else if (key == "type" && x == "number" && y == "integer")
            out.push_back(y);
      if (out.empty()) fail(path, "nothing satisfies both \"{}\": {} and {}", key, a.dump(), b.dump());
      return out;
    }
    fail(path, "two different values of \"{}\" cannot be merged", key);
  }

  std::string visit_choice(const Json& schema, const char* key, const std::string& path, int depth) {
    if (!schema[key].is_array() || schema[key].empty()) fail(path, "{} is not an array of schemas", key);
    Json base = schema;
    base.erase(key);
    std::vector<std::string> options;
    for (const Json& option : schema[key]) {
      const std::string at = fmt::format("{}/{}/{}", path, key, options.size());
      if (is_too_much(size_of(base))) fail(at, "there is too much to merge");
      options.push_back(visit(merge(base, option, at), at, depth + 1));
    }
    return choice_of(options);
  }

  std::string visit_values(const Json& schema, const Json& values, const std::string& path) {
    std::vector<std::string> options;
    if (!values.is_array()) fail(path, "enum is not an array");
    for (const Json& value : values) {
      bool fits = true;
      for (const auto& [key, wanted] : schema.items()) {
        if (&wanted == &values) continue;
        if (is_too_much(wanted.size())) fail(path, "there are too many values to compare");
        const auto verdict = satisfies(value, key, wanted);
        if (!verdict) fail(path, "{} beside the value {} is not supported", key, value.dump());
        fits = fits && *verdict;
      }
      if (fits) options.push_back(gbnf_literal(value.dump()));
    }
    if (options.empty()) fail(path, "no value of the enum satisfies what stands beside it");
    return choice_of(options);
  }

  std::string visit_types(const Json& schema, const std::string& path, int depth) {
    if (!schema.contains("type")) {
      if (has_any(schema, kObjectKeys)) return visit_object(schema, path, depth);
      if (has_any(schema, kArrayKeys)) return visit_array(schema, path, depth);
      if (has_any(schema, kStringKeys)) return visit_string(schema, path);
      if (has_any(schema, kNumberKeys)) return visit_number(schema, "number", path);
      return "value";
    }
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    std::vector<std::string> options;
    for (const Json& type : types) options.push_back(visit_type(schema, type, path, depth));
    if (options.empty()) fail(path, "\"type\" is empty");
    return choice_of(options);
  }

  std::string visit_type(const Json& schema, const Json& type, const std::string& path, int depth) {
    if (type == "object") return visit_object(schema, path, depth);
    if (type == "array") return visit_array(schema, path, depth);
    if (type == "string") return visit_string(schema, path);
    if (type == "integer" || type == "number") return visit_number(schema, type.get<std::string>(), path);
    if (type == "boolean" || type == "null") return type.get<std::string>();
    fail(path, "\"type\": {} is not known", type.dump());
  }

  // A whole number ≥ 0 under a key.
  std::optional<int64_t> count(const Json& schema, const char* key, const std::string& path) const {
    if (!schema.contains(key)) return std::nullopt;
    const Json& value = schema[key];
    if (!is_of_type(value, "integer") || value < 0 || value > kMostLength)
      fail(path, "\"{}\": {} is not a whole number from 0 to {}", key, value.dump(), kMostLength);
    return value.get<int64_t>();
  }

  std::string visit_string(const Json& schema, const std::string& path) {
    const auto least = count(schema, "minLength", path);
    const auto most = count(schema, "maxLength", path);
    if (least && most && *least > *most) fail(path, "minLength {} is above maxLength {}", *least, *most);
    const Json given = schema.value("format", Json());
    const std::string format = is_known_format(given) ? given.get<std::string>() : "";
    if ((least || most) + schema.contains("pattern") + !format.empty() > 1)
      fail(path, "pattern, format and the bounds of the length are not supported together");
    if (schema.contains("pattern")) {
      if (!schema["pattern"].is_string()) fail(path, "\"pattern\" is no string");
      return as_rule(
          fmt::format("\"\\\"\" ({}) \"\\\"\"",
                      pattern_to_gbnf(schema["pattern"].get<std::string>(), "JSON schema: " + path)));
    }
    if (format == "date-time") return "\"\\\"\" date \"T\" time \"\\\"\"";
    if (!format.empty()) return fmt::format("\"\\\"\" {} \"\\\"\"", format);
    if (!least && !most) return "string";
    return fmt::format("\"\\\"\" char{{{},{}}} \"\\\"\"", least.value_or(0),
                       most ? std::to_string(*most) : "");
  }

  // The bound of a key and of its exclusive form, whichever is closer; `closer` is 1 for lower bounds.
  struct Bound {
    std::optional<int64_t> value;
    bool exclusive = false;
  };
  Bound bound(const Json& schema, const char* key, const char* exclusive_key, int closer,
              const std::string& path) const {
    Bound out;
    for (const char* name : {key, exclusive_key}) {
      if (!schema.contains(name)) continue;
      const Json& value = schema[name];
      if (!is_of_type(value, "integer") || std::abs(value.get<double>()) > 1e15)
        fail(path, "\"{}\": {} is not supported: bounds have to be whole numbers up to 10^15", name,
             value.dump());
      const auto v = value.get<int64_t>();
      const bool exclusive = name == exclusive_key;
      if (!out.value || closer * v > closer * *out.value || (v == *out.value && exclusive))
        out = {v, exclusive};
    }
    return out;
  }

  std::string visit_number(const Json& schema, const std::string& type, const std::string& path) {
    Bound low = bound(schema, "minimum", "exclusiveMinimum", 1, path),
          high = bound(schema, "maximum", "exclusiveMaximum", -1, path);
    if (!low.value && !high.value) return type;
    std::vector<std::string> parts;
    if (type == "integer") {
      if (low.exclusive) low = {*low.value + 1, false};
      if (high.exclusive) high = {*high.value - 1, false};
    }
    add_side("", low, high, type == "number", parts);
    const auto negative = [](const Bound& b) {
      return Bound{b.value ? std::optional(-*b.value) : std::nullopt, b.exclusive};
    };
    add_side("\"-\" ", negative(high), negative(low), type == "number", parts);
    if (parts.empty()) fail(path, "no {} is between the bounds", type);
    return choice_of(parts);
  }

  // Numbers x ≥ 0 between two bounds, behind a sign. With fractions: a whole part below the upper bound and
  // any fraction, or the bound itself.
  static void add_side(const std::string& sign, const Bound& low, const Bound& high, bool fractions,
                       std::vector<std::string>& parts) {
    if (high.value && (*high.value < 0 || (*high.value == 0 && high.exclusive))) return;
    const bool cut_low = low.value && *low.value >= 0;
    const int64_t from = cut_low ? *low.value : 0;
    const bool open = cut_low && low.exclusive;  // `from` itself is out
    if (!fractions) {
      if (!high.value || from <= *high.value) parts.push_back(sign + digits_between(from, high.value));
      return;
    }
    const auto whole = high.value ? std::optional(*high.value - 1) : std::nullopt;
    if (!whole || from + open <= *whole)
      parts.push_back(sign + digits_between(from + open, whole) + " fraction?");
    if (open && (!whole || from <= *whole))
      parts.push_back(sign + digits_between(from, from) + " \".\" [0-9]{0,15} [1-9] [0-9]{0,15}");
    if (high.value && !high.exclusive && (*high.value > from || (*high.value == from && !open)))
      parts.push_back(sign + digits_between(*high.value, high.value) + " (\".\" \"0\"{1,16})?");
  }

  std::string visit_array(const Json& schema, const std::string& path, int depth) {
    const auto min_items = count(schema, "minItems", path);
    const auto max_items = count(schema, "maxItems", path);
    const int64_t least = min_items.value_or(0);
    std::vector<std::string> prefix;
    if (schema.contains("prefixItems")) {
      if (!schema["prefixItems"].is_array()) fail(path, "prefixItems is not an array");
      for (const Json& item : schema["prefixItems"]) {
        if (max_items && static_cast<int64_t>(prefix.size()) >= *max_items) break;
        prefix.push_back(visit(item, fmt::format("{}/prefixItems/{}", path, prefix.size()), depth + 1));
      }
    }
    const auto given = static_cast<int64_t>(prefix.size());
    // After a prefix that says nothing of what follows, nothing follows unless minItems wants it.
    bool more = schema.contains("items") ? schema["items"] != false : prefix.empty() || least > given;
    int64_t most = max_items ? *max_items - given : -1;
    if (!schema.contains("items") && !prefix.empty() && more) most = least - given;
    more = more && most != 0;
    if (least > given && (!more || (most >= 0 && most < least - given)))
      fail(path, "no array has {} items as minItems wants", least);
    std::string item = "value";
    if (more && schema.contains("items")) item = visit(schema["items"], path + "/items", depth + 1);
    std::string body = fmt::format("{}", fmt::join(prefix, " \",\" ws "));
    if (more) {
      // Behind a prefix each item brings its comma; else the first has none.
      const int64_t first = prefix.empty() ? 1 : 0, needed = std::max<int64_t>(least - given - first, 0);
      body += fmt::format("{} (\",\" ws {}){{{},{}}}", first ? item : "", item, needed,
                          most < 0 ? "" : std::to_string(most - first));
    }
    if (!body.empty()) body = fmt::format("({} ws){}", body, prefix.empty() && least == 0 ? "?" : "");
    return as_rule(fmt::format("\"[\" ws {} \"]\"", body));
  }

  std::string visit_object(const Json& schema, const std::string& path, int depth) {
    const Json properties = schema.value("properties", Json::object());
    const Json required = schema.value("required", Json::array());
    const Json further =
        schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(properties.empty());
    if (!properties.is_object()) fail(path, "properties is not an object");
    if (!required.is_array()) fail(path, "required is not an array");
    std::set<std::string> wanted;
    for (const Json& name : required)
      if (name.is_string()) wanted.insert(name.get<std::string>());
    std::vector<std::string> pairs;
    std::vector<bool> needed;
    std::set<std::string> names;
    const auto add_pair = [&](const Json& name, const Json& value, const std::string& at) {
      const std::string expression = visit(value, at, depth + 1);
      pairs.push_back(as_rule(fmt::format("{} \":\" ws {}", gbnf_literal(name.dump()), expression)));
    };
    for (const auto& [name, value] : properties.items()) {
      add_pair(name, value, fmt::format("{}/properties/{}", path, name));
      needed.push_back(wanted.contains(name));
      names.insert(name);
    }
    for (const Json& name : required) {
      if (!name.is_string()) fail(path, "a name in required is no string");
      if (!names.insert(name.get<std::string>()).second) continue;
      if (further == false) fail(path, "required property {} is not declared", name.dump());
      add_pair(name, further, path + "/additionalProperties");
      needed.push_back(true);
    }
    for (const std::string& name : names)
      if (name.size() > kMostName) fail(path, "a property name is longer than {} bytes", kMostName);
    std::string others;
    if (further != false) {
      const std::string expression = visit(further, path + "/additionalProperties", depth + 1);
      others = as_rule(fmt::format("\"\\\"\" {} \"\\\"\" \":\" ws {}", other_names(names), expression));
    }
    const std::string body = members(pairs, needed, others);
    return as_rule(body.empty() ? "\"{\" ws \"}\"" : fmt::format("\"{{\" ws {} \"}}\"", body));
  }

  // The pairs in their order, optional ones left out or not, then any number of `others`. rest[i]: what may
  // follow when the pairs before i are done and there was one.
  std::string members(const std::vector<std::string>& pairs, const std::vector<bool>& needed,
                      const std::string& others) {
    std::vector<std::string> rest(pairs.size() + 1);
    if (!others.empty()) rest[pairs.size()] = as_rule(fmt::format("(\",\" ws {})*", others));
    for (size_t i = pairs.size(); i-- > 0;)
      rest[i] = as_rule(fmt::format("(\",\" ws {}){} {}", pairs[i], needed[i] ? "" : "?", rest[i + 1]));
    std::vector<std::string> firsts;
    size_t i = 0;
    for (; i < pairs.size(); i++) {
      firsts.push_back(fmt::format("{} {}", pairs[i], rest[i + 1]));
      if (needed[i]) break;
    }
    const bool may_be_empty = i == pairs.size();
    if (may_be_empty && !others.empty()) firsts.push_back(fmt::format("{} {}", others, rest[pairs.size()]));
    if (firsts.empty()) return "";
    return fmt::format("(({}) ws){}", fmt::join(firsts, " | "), may_be_empty ? "?" : "");
  }

  // Names without escapes that are none of those: by the tree of their characters.
  std::string other_names(const std::set<std::string>& names) {
    std::vector<std::u32string> spelled;
    for (const std::string& name : names) {
      std::u32string codes;
      for (size_t at = 0; at < name.size();) {
        const Utf8Step step = decode_utf8(name, at);
        codes += step.code;
        at += step.length;
      }
      const auto is_escaped = [](char32_t c) { return c < 0x20 || c == '"' || c == '\\' || c == 0x7F; };
      if (std::none_of(codes.begin(), codes.end(), is_escaped)) spelled.push_back(codes);
    }
    std::sort(spelled.begin(), spelled.end());
    return unlike(spelled, 0);
  }
  std::string unlike(std::span<const std::u32string> names, size_t at) {
    const std::vector<CodePointRange> kEscaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}};
    const std::string any = gbnf_class(complement(kEscaped)) + "*";
    if (names.empty()) return any;
    std::vector<CodePointRange> taken = kEscaped;
    std::vector<std::string> options;
    bool ends_here = false;
    for (size_t i = 0; i < names.size();) {
      if (names[i].size() == at) {
        ends_here = true;
        i++;
        continue;
      }
      const char32_t c = names[i][at];
      size_t last = i;
      while (last < names.size() && names[last].size() > at && names[last][at] == c) last++;
      taken.emplace_back(c, c);
      options.push_back(gbnf_class({{c, c}}) + " " + unlike(names.subspan(i, last - i), at + 1));
      i = last;
    }
    options.push_back(gbnf_class(complement(taken)) + " " + any);
    return as_rule(fmt::format("({}){}", fmt::join(options, " | "), ends_here ? "" : "?"));
  }

  const Json& root_;
  std::string rules_;
  std::map<const Json*, std::string> refs_;
  int names_ = 0, visits_ = 0;
  size_t work_ = 0;
};

}  // namespace

Result<std::string> json_schema_to_gbnf(std::string_view schema) {
  constexpr JsonLimits kLimits{.depth = 2 * kMostDepth, .keys = 20'000, .searched = 400'000'000};
  try {
    if (!check_json(schema, "the schema", kLimits))
      return ParseError{fmt::format("more than {} levels", kLimits.depth), 0, "JSON schema"};
    const Json root = Json::parse(schema);
    return parsed([&] { return Converter(root).convert(); });
  } catch (const UserError& problem) {
    return ParseError{problem.what(), 0, "JSON schema"};
  } catch (const Json::parse_error& problem) {
    return ParseError{problem.what(), problem.byte, "JSON schema"};
  } catch (const Json::exception& problem) {
    return ParseError{problem.what(), 0, "JSON schema"};
  }
}

}  // namespace lathe
