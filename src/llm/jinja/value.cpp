#include "llm/jinja/value.h"

#include "base/error.h"
#include "formats/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace lathe::jinja {

void Text::append(std::string_view bytes, bool marked) {
  if (marked) {
    marks_.resize(bytes_.size());
    marks_.append(bytes.size(), 1);
  }
  bytes_ += bytes;
}

void Text::append(const Text& other, size_t at, size_t count) {
  if (at < other.marks_.size()) {
    marks_.resize(bytes_.size());
    marks_.append(other.marks_, at, count);
  }
  bytes_.append(other.bytes_, at, count);
}

Text Text::substr(size_t at, size_t count) const {
  Text out;
  at = std::min(at, size());
  out.append(*this, at, std::min(count, size() - at));
  out.is_safe_ = is_safe_;
  return out;
}

size_t character_size(std::string_view text, size_t at) {
  return std::max<size_t>(1, decode_utf8(text, at).length);
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for (size_t at = 0; at < text.size(); at += character_size(text, at)) count++;
  return count;
}

size_t character_offset(std::string_view text, int64_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); index--) at += character_size(text, at);
  return at;
}

bool is_space(char32_t c) {
  return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

Text escape(const Text& text) {
  if (text.is_safe()) return text;
  constexpr std::string_view kEscapes[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  Text out;
  for (size_t i = 0; i < text.size(); i++) {
    const size_t at = std::string_view("&<>\"'").find(text.bytes()[i]);
    if (at == std::string::npos)
      out.append(text, i, 1);
    else
      out.append(kEscapes[at], text.is_marked(i));
  }
  return out.as_safe();
}

Text strip(const Text& text, const std::string* characters, bool left, bool right) {
  const std::string& s = text.bytes();
  const auto goes = [&](size_t at) {
    const size_t size = character_size(s, at);
    return characters ? characters->find(s.substr(at, size)) != std::string::npos
                      : is_space(decode_utf8(s, at).code);
  };
  size_t begin = 0, end = s.size();
  while (left && begin < end && goes(begin)) begin += character_size(s, begin);
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && end - last < 4 && (static_cast<unsigned char>(s[last]) & 0xc0) == 0x80) last--;
    if (last + character_size(s, last) != end) last = end - 1;
    if (!goes(last)) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

namespace {

void check_depth(int depth) {
  if (depth > kMaxValueDepth) value_error("a value is nested more than {} deep", kMaxValueDepth);
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

void write_string(Text& out, const Text& text, bool ensure_ascii) {
  const std::string& s = text.bytes();
  out.append("\"");
  for (size_t at = 0, size; at < s.size(); at += size) {
    size = character_size(s, at);
    const char32_t c = decode_utf8(s, at).code;
    const size_t named = c < 0x80 && c != 0 ? std::string_view("\"\\\n\r\t\b\f").find(static_cast<char>(c))
                                            : std::string::npos;
    if (named != std::string::npos)
      out.append(std::string{'\\', "\"\\nrtbf"[named]}, text.is_marked(at));
    else if (ensure_ascii && c >= 0x10000)
      out.append(fmt::format("\\u{:04x}\\u{:04x}", 0xd7c0 + (static_cast<unsigned>(c) >> 10),
                             0xdc00 | (static_cast<unsigned>(c) & 0x3ff)),
                 text.is_marked(at));
    else if (c < 0x20 || (ensure_ascii && c >= 0x7f))
      out.append(fmt::format("\\u{:04x}", static_cast<unsigned>(c)), text.is_marked(at));
    else
      out.append(text, at, size);
  }
  out.append("\"");
}

// Writes JSON, or what Python's repr makes of a value.
class Writer {
 public:
  Writer(Meter& meter, const JsonStyle& style, bool python) : meter_(meter), style_(style), python_(python) {}
  Text out;

  void write(const Value& value, int depth) {
    check_depth(depth);
    // Lists that hold one list many times have more nodes than the template has made.
    meter_.charge(1);
    meter_.charge_bytes(out.size() - std::exchange(paid_, out.size()));
    if (value.text()) {
      python_ ? write_repr(*value.text()) : write_string(out, *value.text(), style_.ensure_ascii);
    } else if (const List* list = value.list()) {
      write_items(list->size(), "[]", depth, [&](size_t i) { write((*list)[i], depth + 1); });
    } else if (const Dict* dict = value.dict()) {
      std::vector<const std::pair<Text, Value>*> order;
      for (const auto& entry : dict->entries) order.push_back(&entry);
      if (style_.sort_keys)
        std::ranges::sort(order, [](auto* a, auto* b) { return a->first.bytes() < b->first.bytes(); });
      write_items(order.size(), "{}", depth, [&](size_t i) {
        python_ ? write_repr(order[i]->first) : write_string(out, order[i]->first, style_.ensure_ascii);
        out.append(style_.key_separator);
        write(order[i]->second, depth + 1);
      });
    } else {
      write_plain(value);
    }
  }

 private:
  void write_plain(const Value& value) {
    if (value.is_none()) {
      out.append(python_ ? "None" : "null");
    } else if (const bool* b = value.boolean()) {
      out.append(python_ ? (*b ? "True" : "False") : (*b ? "true" : "false"));
    } else if (const int64_t* i = value.integer()) {
      out.append(fmt::format("{}", *i));
    } else if (const double* d = value.real()) {
      const bool infinite = std::isinf(*d);
      out.append(python_ || !(infinite || std::isnan(*d)) ? float_text(*d)
                 : infinite                               ? (*d < 0 ? "-Infinity" : "Infinity")
                                                          : "NaN");
    } else if (python_) {
      out.append(value.is_undefined() ? "Undefined" : fmt::format("<function {}>", value.function()->name));
    } else {
      type_error("a value of type {} cannot be written as JSON", value.type_name());
    }
  }

  template <class F>
  void write_items(size_t count, std::string_view brackets, int depth, F item) {
    out.append(brackets.substr(0, 1));
    const auto new_line = [&](int level) {
      out.append("\n" + std::string(static_cast<size_t>(style_.indent * level), ' '));
    };
    const bool lines = style_.indent >= 0 && count > 0;
    for (size_t i = 0; i < count; i++) {
      // Before a line break Python writes no blank behind the comma.
      if (i > 0) out.append(lines && style_.item_separator == ", " ? "," : style_.item_separator);
      if (lines) new_line(depth + 1);
      item(i);
    }
    if (lines) new_line(depth);
    out.append(brackets.substr(1));
  }

  void write_repr(const Text& text) {
    const std::string& s = text.bytes();
    const bool has_single = s.find('\'') != s.npos, has_double = s.find('"') != s.npos;
    const char quote = has_single && !has_double ? '"' : '\'';
    out.append(std::string(1, quote));
    for (size_t at = 0, size; at < s.size(); at += size) {
      size = character_size(s, at);
      const char c = s[at];
      const size_t named = std::string_view("\n\r\t\\").find(c);
      if (named != std::string::npos || c == quote)
        out.append(std::string{'\\', c == quote ? c : "nrt\\"[named]}, text.is_marked(at));
      else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        out.append(fmt::format("\\x{:02x}", static_cast<unsigned char>(c)), text.is_marked(at));
      else
        out.append(text, at, size);
    }
    out.append(std::string(1, quote));
  }

  Meter& meter_;
  const JsonStyle& style_;
  const bool python_;
  size_t paid_ = 0;  // bytes of `out` that are charged
};

Value from_json(const nlohmann::ordered_json& json, bool marked, int depth) {
  check_depth(depth);
  if (json.is_null()) return None{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return json.get<double>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return Text(json.get_ref<const std::string&>(), marked);
  if (json.is_array()) {
    List list;
    for (const auto& item : json) list.push_back(from_json(item, marked, depth + 1));
    return list;
  }
  // Keys of a JSON object differ, so that entries need no look-up here.
  Dict dict;
  for (const auto& [key, item] : json.items())
    dict.entries.emplace_back(Text(key, marked), from_json(item, marked, depth + 1));
  return dict;
}

}  // namespace

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name.bytes() == key) return &value;
  return nullptr;
}

void Dict::set(Text key, Value value) {
  for (auto& [name, old] : entries)
    if (name.bytes() == key.bytes()) {
      old = std::move(value);
      return;
    }
  entries.emplace_back(std::move(key), std::move(value));
}

namespace {

// Ends a container. Those in it wait until it is gone: templates nest them deeper than the stack would go.
template <class Container, class Each>
void end(Container* container, Each each) {
  thread_local List* waiting = nullptr;  // of the end that is under way
  List own;
  if (!waiting) waiting = &own;
  each([](Value& value) {
    if (value.list() || value.dict() || value.function()) waiting->push_back(std::move(value));
  });
  delete container;
  if (waiting != &own) return;
  while (!own.empty()) {
    const Value value = std::move(own.back());
    own.pop_back();
  }
  waiting = nullptr;
}

}  // namespace

Value::Value(List list)
    : data(std::shared_ptr<List>(new List(std::move(list)), [](List* l) {
        end(l, [&](auto take) { std::ranges::for_each(*l, take); });
      })) {}
Value::Value(Dict dict)
    : data(std::shared_ptr<Dict>(new Dict(std::move(dict)), [](Dict* d) {
        end(d, [&](auto take) {
          for (auto& entry : d->entries) take(entry.second);
        });
      })) {}
Value::Value(Function function) : data(std::make_shared<const Function>(std::move(function))) {}

void Meter::charge(int64_t steps) {
  if (steps > left_) user_runtime_error("the template takes more than {} steps", given_);
  left_ -= steps;
}

double Value::number() const {
  return boolean() ? *boolean() : integer() ? static_cast<double>(*integer()) : *real();
}

bool Value::truthy() const {
  if (is_number()) return number() != 0;
  if (text()) return text()->size() > 0;
  if (list()) return !list()->empty();
  if (dict()) return dict()->is_namespace || !dict()->entries.empty();
  return function() != nullptr;
}

std::string_view Value::type_name() const {
  if (dict() && dict()->is_namespace) return "namespace";
  constexpr std::string_view kNames[] = {"undefined", "none", "boolean", "integer", "float",
                                         "string",    "list", "mapping", "function"};
  return kNames[data.index()];
}

Value from_json(const nlohmann::ordered_json& json, bool marked) { return from_json(json, marked, 0); }

Text to_json(Meter& meter, const Value& value, const JsonStyle& style) {
  Writer writer(meter, style, false);
  writer.write(value, 0);
  return std::move(writer.out);
}

Text to_repr(Meter& meter, const Value& value) {
  const JsonStyle style;
  Writer writer(meter, style, true);
  writer.write(value, 0);
  return std::move(writer.out);
}

Text to_text(Meter& meter, const Value& value) {
  if (value.text()) return *value.text();
  if (value.is_undefined()) return {};
  return to_repr(meter, value);
}

bool equal(Meter& meter, const Value& a, const Value& b, int depth) {
  check_depth(depth);
  meter.charge(1);
  if (a.integer() && b.integer()) return *a.integer() == *b.integer();
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.data.index() != b.data.index()) return false;
  if (a.text()) {
    meter.charge_bytes(a.text()->size());
    return a.text()->bytes() == b.text()->bytes();
  }
  if (const List *x = a.list(), *y = b.list(); x)
    return std::equal(x->begin(), x->end(), y->begin(), y->end(),
                      [&](const Value& v, const Value& w) { return equal(meter, v, w, depth + 1); });
  if (const Dict *x = a.dict(), *y = b.dict(); x) {
    if (x->is_namespace || y->is_namespace) return x == y;
    meter.charge_bytes(x->entries.size() * y->entries.size());
    return x->entries.size() == y->entries.size() && std::ranges::all_of(x->entries, [&](const auto& entry) {
             const Value* other = y->find(entry.first.bytes());
             return other && equal(meter, entry.second, *other, depth + 1);
           });
  }
  return a.function() == b.function();
}

int compare(Meter& meter, const Value& a, const Value& b, int depth) {
  check_depth(depth);
  meter.charge(1);
  if (a.integer() && b.integer()) return *a.integer() < *b.integer() ? -1 : *a.integer() > *b.integer();
  if (a.is_number() && b.is_number()) return a.number() < b.number() ? -1 : a.number() > b.number();
  if (a.text() && b.text()) {
    meter.charge_bytes(std::min(a.text()->size(), b.text()->size()));
    return a.text()->bytes().compare(b.text()->bytes());
  }
  const List *x = a.list(), *y = b.list();
  if (!x || !y) type_error("a {} and a {} have no order", a.type_name(), b.type_name());
  for (size_t i = 0; i < std::min(x->size(), y->size()); i++)
    if (const int order = compare(meter, (*x)[i], (*y)[i], depth + 1)) return order;
  return x->size() < y->size() ? -1 : x->size() > y->size();
}

}  // namespace lathe::jinja
