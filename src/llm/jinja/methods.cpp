// Methods of strings, lists and mappings.
#include "base/error.h"
#include "formats/utf8.h"
#include "llm/jinja/evaluate.h"

#include <algorithm>
#include <unordered_map>

namespace lathe::jinja {
namespace {

using Method = Value (*)(Evaluator&, const Value&, const Arguments&);
using Table = std::unordered_map<std::string_view, Method>;

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c + 32) : c; }
char upper(char c) { return is_lower(c) ? static_cast<char>(c - 32) : c; }

const Value& needed(const Arguments& a, size_t place, std::string_view name) {
  const Value* v = a.find(place, name);
  if (!v) type_error("argument {} ('{}') is missing", place + 1, name);
  return *v;
}
const std::string& needed_text(const Arguments& a, size_t place, std::string_view name) {
  needed(a, place, name);
  const std::string* text = a.text(place, name);
  if (!text) type_error("argument '{}' is none", name);
  return *text;
}

template <bool kLeft, bool kRight>
Value strip_method(Evaluator& e, const Value& v, const Arguments& a) {
  e.charge_text(v.text()->size());
  return strip(*v.text(), a.text(0, "chars"), kLeft, kRight);
}

Value split(Evaluator& e, const Value& v, const Arguments& a) {
  const Text& text = *v.text();
  const std::string& s = text.bytes();
  const std::string* separator = a.text(0, "sep");
  int64_t left = a.integer(1, "maxsplit", -1);
  if (separator && separator->empty()) value_error("split at an empty string");
  e.charge_text(s.size());
  List out;
  const auto add = [&](Text part) {
    e.charge(4);
    out.emplace_back(std::move(part));
  };
  size_t at = 0;
  if (separator) {
    for (size_t end; left != 0 && (end = s.find(*separator, at)) != s.npos;
         at = end + separator->size(), left--)
      add(text.substr(at, end - at));
    add(text.substr(at));
  } else {
    for (;; left--) {
      while (at < s.size() && is_space(decode_utf8(s, at).code)) at += character_size(s, at);
      if (at == s.size()) break;
      size_t end = at;
      while (end < s.size() && (left == 0 || !is_space(decode_utf8(s, end).code)))
        end += character_size(s, end);
      add(text.substr(at, end - at));
      at = end;
    }
  }
  return out;
}

Value splitlines(Evaluator& e, const Value& v, const Arguments& a) {
  const Text& text = *v.text();
  e.charge_text(text.size());
  List out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.bytes().find_first_of("\n\r", at), text.size());
    const size_t size = text.bytes().compare(end, 2, "\r\n") == 0 ? 2 : end < text.size();
    e.charge(4);
    out.push_back(text.substr(at, end - at + (a.flag(0, "keepends") ? size : 0)));
    at = end + size;
  }
  return out;
}

// startswith and endswith, of one string or of any of several.
template <bool kStart>
Value has_affix(Evaluator& e, const Value& v, const Arguments& a) {
  const Value& affix = needed(a, 0, "prefix");
  const std::string& s = v.text()->bytes();
  const List list = affix.list() ? *affix.list() : List{affix};
  e.charge(static_cast<int64_t>(list.size()));
  return std::ranges::any_of(list, [&](const Value& part) {
    if (part.text()) e.charge_bytes(part.text()->size());
    if (!part.text())
      type_error("a {} of a string is a string, not {}", kStart ? "start" : "end", part.type_name());
    return kStart ? s.starts_with(part.text()->bytes()) : s.ends_with(part.text()->bytes());
  });
}

template <bool kLast>
Value find_text(Evaluator& e, const Value& v, const Arguments& a) {
  const std::string &s = v.text()->bytes(), &part = needed_text(a, 0, "sub");
  e.charge_text(s.size());
  const size_t at = kLast ? s.rfind(part) : s.find(part);
  return at == s.npos ? int64_t{-1} : count_characters(std::string_view(s).substr(0, at));
}

Value count_text(Evaluator& e, const Value& v, const Arguments& a) {
  const std::string &s = v.text()->bytes(), &part = needed_text(a, 0, "sub");
  e.charge_text(s.size());
  if (part.empty()) return count_characters(s) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = s.find(part, at)) != s.npos; at += part.size()) count++;
  return count;
}

Value replace_method(Evaluator& e, const Value& v, const Arguments& a) {
  const std::string &old = needed_text(a, 0, "old"), &by = needed_text(a, 1, "new");
  e.charge_text(v.text()->size() + (by.size() > old.size()
                                        ? v.text()->size() / std::max<size_t>(old.size(), 1) * by.size()
                                        : 0));
  return replace(*v.text(), old, *needed(a, 1, "new").text(), a.integer(2, "count", -1));
}

// {} {0} {name}; no conversions or format specifications.
Value format(Evaluator& e, const Value& v, const Arguments& a) {
  const Text& text = *v.text();
  const std::string& s = text.bytes();
  e.charge_text(s.size());
  Text out;
  int64_t next = 0;
  for (size_t at = 0; at < s.size();) {
    const size_t brace = std::min(s.find_first_of("{}", at), s.size());
    out.append(text, at, brace - at);
    at = brace;
    if (brace == s.size()) break;
    if (brace + 1 < s.size() && s[brace + 1] == s[brace]) {
      out.append(text, brace, 1);
      at += 2;
      continue;
    }
    const size_t end = s.find('}', brace);
    if (s[brace] == '}' || end == s.npos) value_error("format: a single '{}' at byte {}", s[brace], brace);
    const std::string field = s.substr(brace + 1, end - brace - 1);
    const bool is_number =
        !field.empty() && field.size() < 6 && field.find_first_not_of("0123456789") == field.npos;
    const size_t place = field.empty() ? static_cast<size_t>(next++)
                         : is_number   ? std::stoul(field)
                                       : a.positional.size();
    const Value* value = a.find(place, field);
    if (!value) value_error("format: no argument for '{{{}}}'", field);
    const Text part = to_text(e, *value);
    e.charge_text(out.size() + part.size());
    out.append(part);
    at = end + 1;
  }
  return out;
}

Value join(Evaluator& e, const Value& v, const Arguments& a) {
  return e.apply("join", needed(a, 0, "iterable"), {{v}, {}});
}

template <bool (*kIs)(char)>
Value all_of(Evaluator& e, const Value& v, const Arguments&) {
  const std::string& s = v.text()->bytes();
  e.charge_text(s.size());
  return !s.empty() && std::ranges::all_of(s, kIs);
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return is_lower(c) || is_upper(c) || static_cast<unsigned char>(c) >= 0x80; }
bool is_letter_or_digit(char c) { return is_letter(c) || is_digit(c); }

Text title(const Text& text) {
  return text.mapped([](const std::string& s, size_t i) {
    return i > 0 && is_letter(s[i - 1]) ? lower(s[i]) : upper(s[i]);
  });
}

template <Text (*kMap)(const Text&)>
Value mapped(Evaluator& e, const Value& v, const Arguments&) {
  e.charge_text(v.text()->size());
  return kMap(*v.text());
}

const Table& string_methods() {
  static const Table table = {
#define METHOD(name, ...) {#name, __VA_ARGS__},
#include "llm/jinja/string_methods.def"
#undef METHOD
  };
  return table;
}

Value append(Evaluator& e, const Value& v, const Arguments& a) {
  const Value& item = needed(a, 0, "object");
  if (item.list() || item.dict()) e.changed(v);
  v.list()->push_back(item);
  return None{};
}

Value pop(Evaluator& e, const Value& v, const Arguments& a) {
  List& list = *v.list();
  const auto size = static_cast<int64_t>(list.size());
  int64_t i = a.integer(0, "index", -1);
  if (i < 0) i += size;
  if (i < 0 || i >= size) index_error("pop({}) of a list of {}", a.integer(0, "index", -1), size);
  e.charge(size - i);
  Value out = list[static_cast<size_t>(i)];
  list.erase(list.begin() + i);
  return out;
}

Value index(Evaluator& e, const Value& v, const Arguments& a) {
  const List& list = *v.list();
  const Value& wanted = needed(a, 0, "value");
  const auto at = std::ranges::find_if(list, [&](const Value& item) { return equal(e, item, wanted); });
  if (at == list.end()) value_error("the list has no such value");
  return static_cast<int64_t>(at - list.begin());
}

const Table& list_methods() {
  static const Table table = {{"append", append}, {"pop", pop}, {"index", index}};
  return table;
}

Value values(Evaluator& e, const Value& v, const Arguments&) {
  List out;
  e.charge(static_cast<int64_t>(v.dict()->entries.size()));
  for (const auto& entry : v.dict()->entries) out.push_back(entry.second);
  return out;
}

Value get(Evaluator& e, const Value& v, const Arguments& a) {
  const Value& key = needed(a, 0, "key");
  const Value* found = key.text() ? e.find(*v.dict(), key.text()->bytes()) : nullptr;
  const Value* otherwise = a.find(1, "default");
  return found ? *found : otherwise ? *otherwise : Value(None{});
}

const Table& dict_methods() {
  static const Table table = {
      {"items", [](Evaluator& e, const Value& v, const Arguments&) { return e.apply("items", v, {}); }},
      {"keys", [](Evaluator& e, const Value& v, const Arguments&) -> Value { return e.items(v); }},
      {"values", values},
      {"get", get},
  };
  return table;
}

const Method* method_of(const Value& value, std::string_view name) {
  if (value.dict() && value.dict()->is_namespace) return nullptr;
  if (!value.text() && !value.list() && !value.dict()) return nullptr;
  const Table& table = value.text() ? string_methods() : value.list() ? list_methods() : dict_methods();
  const auto at = table.find(name);
  return at == table.end() ? nullptr : &at->second;
}

}  // namespace

bool has_method(const Value& value, std::string_view name) { return method_of(value, name) != nullptr; }

Value call_method(Evaluator& e, const Function& method, const Arguments& arguments) {
  return (*method_of(method.self, method.name))(e, method.self, arguments);
}

Text replace(const Text& text, std::string_view old, const Text& by, int64_t count) {
  const std::string& s = text.bytes();
  Text out;
  size_t at = 0;
  if (old.empty()) {  // between all characters, and at both ends
    for (; count != 0; count--) {
      out.append(by);
      if (at == s.size()) break;
      const size_t size = character_size(s, at);
      out.append(text, at, size);
      at += size;
    }
  } else {
    for (size_t next; count != 0 && (next = s.find(old, at)) != s.npos; at = next + old.size(), count--) {
      out.append(text, at, next - at);
      out.append(by);
    }
  }
  out.append(text, at, s.size() - at);
  return out;
}

Text lower(const Text& text) {
  return text.mapped([](const std::string& s, size_t i) { return lower(s[i]); });
}
Text upper(const Text& text) {
  return text.mapped([](const std::string& s, size_t i) { return upper(s[i]); });
}
Text capitalize(const Text& text) {
  return text.mapped([](const std::string& s, size_t i) { return i == 0 ? upper(s[0]) : lower(s[i]); });
}

}  // namespace lathe::jinja
