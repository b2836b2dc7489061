// Filters and tests.
#include "base/error.h"
#include "llm/jinja/evaluate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <list>
#include <unordered_map>

namespace lathe::jinja {
namespace {

using Filter = Value (*)(Evaluator&, const Value&, const Arguments&);
using Test = bool (*)(Evaluator&, const Value&, const Arguments&);

// What to_text makes of a value of any size.
Text text_of(Evaluator& e, const Value& v) {
  if (v.text()) e.charge_text(v.text()->size());
  return to_text(e, v);
}

template <Text (*kMap)(const Text&)>
Value mapped(Evaluator& e, const Value& v, const Arguments&) {
  return e.checked_text(kMap(text_of(e, v)));
}

// "a.b.0" of a value.
Value path(Evaluator& e, Value value, const Value& attribute) {
  if (!attribute.text()) return e.item(value, attribute);
  const std::string& s = attribute.text()->bytes();
  for (size_t at = 0; at <= s.size();) {
    const size_t end = std::min(s.find('.', at), s.size());
    int64_t index = 0;
    const auto [stop, error] = std::from_chars(s.data() + at, s.data() + end, index);
    const bool is_index = error == std::errc() && stop == s.data() + end;
    value = e.item(value, is_index ? Value(index) : Value(Text(s.substr(at, end - at))));
    at = end + 1;
  }
  return value;
}

// The key a value is ordered by: strings without regard to case unless that is asked for.
Value order_key(Evaluator& e, const Value& v, const Value* attribute, bool case_sensitive) {
  const Value key = attribute && !attribute->is_none() ? path(e, v, *attribute) : v;
  return key.text() && !case_sensitive ? e.checked_text(lower(*key.text())) : key;
}

Value length(Evaluator& e, const Value& v, const Arguments&) {
  if (v.is_undefined()) return int64_t{0};
  if (v.text()) e.charge_text(v.text()->size());
  if (v.text()) return count_characters(v.text()->bytes());
  if (v.list()) return static_cast<int64_t>(v.list()->size());
  if (!v.dict()) type_error("a value of type {} has no length", v.type_name());
  return static_cast<int64_t>(v.dict()->entries.size());
}

Value default_value(Evaluator&, const Value& v, const Arguments& a) {
  if (!v.is_undefined() && (v.truthy() || !a.flag(1, "boolean"))) return v;
  const Value* otherwise = a.find(0, "default_value");
  return otherwise ? *otherwise : Value(Text());
}

Value trim(Evaluator& e, const Value& v, const Arguments& a) {
  return strip(text_of(e, v), a.text(0, "chars"));
}

Value join(Evaluator& e, const Value& v, const Arguments& a) {
  const Value *separator = a.find(0, "d"), *attribute = a.find(1, "attribute");
  const Text between = separator ? to_text(e, *separator) : Text();
  Text out, before;
  for (const Value& item : e.items(v)) {
    const Text part = to_text(e, attribute ? path(e, item, *attribute) : item);
    e.charge_text(between.size() + part.size());
    out.append(std::exchange(before, between));
    out.append(part);
  }
  return e.checked_text(std::move(out));
}

template <bool kLast>
Value end_of(Evaluator& e, const Value& v, const Arguments&) {
  const List list = e.items(v);
  return list.empty() ? Value() : kLast ? list.back() : list.front();
}

Value list(Evaluator& e, const Value& v, const Arguments&) { return e.items(v); }

Value tojson(Evaluator& e, const Value& v, const Arguments& a) {
  JsonStyle style;
  style.ensure_ascii = a.flag(99, "ensure_ascii");
  style.sort_keys = a.flag(99, "sort_keys");
  style.indent = static_cast<int>(std::clamp<int64_t>(a.integer(0, "indent", -1), -1, 100));
  if (const Value* separators = a.find(99, "separators"); separators && separators->list()) {
    const List& pair = *separators->list();
    if (pair.size() != 2 || !pair[0].text() || !pair[1].text())
      type_error("tojson: separators are two strings");
    style.item_separator = pair[0].text()->bytes();
    style.key_separator = pair[1].text()->bytes();
  }
  if (v.is_undefined()) undefined_error(v);
  return e.checked_text(to_json(e, v, style));
}

Value indent(Evaluator& e, const Value& v, const Arguments& a) {
  const Value* width = a.find(0, "width");
  if (width && !width->text() && !width->integer()) type_error("indent wants a width or a string");
  const int64_t count = width && width->integer() ? std::clamp<int64_t>(*width->integer(), 0, 1000) : 4;
  const Text by =
      width && width->text() ? *width->text() : Text(std::string(static_cast<size_t>(count), ' '));
  const bool first = a.flag(1, "first"), blank = a.flag(2, "blank");
  const Text text = text_of(e, v);
  Text out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.bytes().find('\n', at), text.size());
    e.charge_text(by.size());
    if (at == 0 ? first : blank || end > at) out.append(by);
    out.append(text, at, end - at + (end < text.size()));
    at = end + 1;
  }
  return e.checked_text(std::move(out));
}

Value replace_filter(Evaluator& e, const Value& v, const Arguments& a) {
  const Value *old = a.find(0, "old"), *by = a.find(1, "new");
  if (!old || !by) type_error("replace wants what to replace and by what");
  const Text from = to_text(e, *old), to = to_text(e, *by), text = text_of(e, v);
  e.charge_text(to.size() > from.size() ? text.size() / std::max<size_t>(from.size(), 1) * to.size() : 0);
  return e.checked_text(replace(text, from.bytes(), to, a.integer(2, "count", -1)));
}

Value title(Evaluator& e, const Value& v, const Arguments&) {
  const Text text = text_of(e, v), low = lower(text), up = upper(text);
  return e.checked_text(text.mapped([&](const std::string& s, size_t i) {
    const bool starts = i == 0 || std::string_view(" \t\n\r\f\v-({[<").find(s[i - 1]) != std::string::npos;
    return (starts ? up : low).bytes()[i];
  }));
}

template <class T>
Value to_number(Evaluator& e, const Value& v, const Arguments& a) {
  const Value* otherwise = a.find(0, "default");
  const Value fallback = otherwise ? *otherwise : Value(T{});
  if (v.real() && !(std::abs(*v.real()) < 9.2e18) && std::is_integral_v<T>) return fallback;
  if (v.is_number())
    return v.integer() ? Value(static_cast<T>(*v.integer())) : Value(static_cast<T>(v.number()));
  if (!v.text()) return fallback;
  std::string s = strip(text_of(e, v), nullptr).bytes();
  if (s.starts_with('+')) s.erase(0, 1);
  T whole{};
  const auto [stop, error] = std::from_chars(s.data(), s.data() + s.size(), whole);
  if (error == std::errc() && stop == s.data() + s.size()) return whole;
  double real = 0;  // "1.9" is 1 as an integer
  const auto [end, fault] = std::from_chars(s.data(), s.data() + s.size(), real);
  const bool fits = fault == std::errc() && end == s.data() + s.size() && std::abs(real) < 9.2e18;
  return fits ? Value(static_cast<T>(real)) : fallback;
}

Value absolute(Evaluator& e, const Value& v, const Arguments&) {
  if (!v.is_number()) type_error("abs of a value of type {}", v.type_name());
  return v.number() < 0 ? arithmetic(e, "-", int64_t{0}, v) : v;
}

Value round(Evaluator&, const Value& v, const Arguments& a) {
  if (!v.is_number()) type_error("round of a value of type {}", v.type_name());
  if (v.integer()) return v;
  const double scale =
      std::pow(10.0, static_cast<double>(std::clamp<int64_t>(a.integer(0, "precision", 0), -300, 300)));
  const std::string* method = a.text(1, "method");
  const double x = v.number() * scale;
  return (method && *method == "ceil"    ? std::ceil(x)
          : method && *method == "floor" ? std::floor(x)
                                         : std::nearbyint(x)) /
         scale;
}

Value items(Evaluator& e, const Value& v, const Arguments&) {
  List out;
  if (v.is_undefined()) return out;
  if (!v.dict()) type_error("items of a value of type {}", v.type_name());
  e.charge(8 * static_cast<int64_t>(v.dict()->entries.size()));
  for (const auto& [key, value] : v.dict()->entries) out.push_back(List{key, value});
  return out;
}

// The values of pairs of a key and a value, by key; equal ones stay in order. The sort of a list, unlike the
// others, is safe with an order that is none, as that of numbers is with those that are not a number.
Value sorted(Evaluator& e, std::list<std::pair<Value, Value>> keyed, bool reverse) {
  keyed.sort([&](const auto& a, const auto& b) {
    return reverse ? compare(e, b.first, a.first) < 0 : compare(e, a.first, b.first) < 0;
  });
  List out;
  for (auto& [key, value] : keyed) out.push_back(std::move(value));
  return out;
}

Value sort(Evaluator& e, const Value& v, const Arguments& a) {
  std::list<std::pair<Value, Value>> keyed;
  for (const Value& item : e.items(v))
    keyed.emplace_back(order_key(e, item, a.find(2, "attribute"), a.flag(1, "case_sensitive")), item);
  return sorted(e, std::move(keyed), a.flag(0, "reverse"));
}

Value dictsort(Evaluator& e, const Value& v, const Arguments& a) {
  const std::string* by = a.text(1, "by");
  const Value which = int64_t{by && *by == "value"};
  std::list<std::pair<Value, Value>> keyed;
  const Value pairs = items(e, v, {});
  for (const Value& pair : *pairs.list())
    keyed.emplace_back(order_key(e, pair, &which, a.flag(0, "case_sensitive")), pair);
  return sorted(e, std::move(keyed), a.flag(2, "reverse"));
}

Value unique(Evaluator& e, const Value& v, const Arguments& a) {
  List out;
  const Value seen = List();
  for (const Value& item : e.items(v)) {
    Value key = order_key(e, item, a.find(1, "attribute"), a.flag(0, "case_sensitive"));
    if (e.contains(seen, key)) continue;
    seen.list()->push_back(std::move(key));
    out.push_back(item);
  }
  return out;
}

Value reverse(Evaluator& e, const Value& v, const Arguments&) {
  List list = e.items(v);
  std::reverse(list.begin(), list.end());
  if (!v.text()) return list;
  Text out;
  for (const Value& c : list) out.append(*c.text());
  return out;
}

// The one of least or greatest order.
template <int kSign>
Value extreme(Evaluator& e, const Value& v, const Arguments& a) {
  const List list = e.items(v);
  size_t best = 0;
  const auto key = [&](size_t i) {
    return order_key(e, list[i], a.find(1, "attribute"), a.flag(0, "case_sensitive"));
  };
  for (size_t i = 1; i < list.size(); i++)
    if (kSign * compare(e, key(i), key(best)) > 0) best = i;
  return list.empty() ? Value() : list[best];
}

Value sum(Evaluator& e, const Value& v, const Arguments& a) {
  const Value *attribute = a.find(0, "attribute"), *start = a.find(1, "start");
  Value out = start ? *start : Value(int64_t{0});
  for (const Value& item : e.items(v))
    out = arithmetic(e, "+", out, attribute ? path(e, item, *attribute) : item);
  return out;
}

// What map and select go over: of what counts as false, as none does, nothing.
List elements(Evaluator& e, const Value& v) { return v.truthy() ? e.items(v) : List(); }

// The arguments behind the first `count`.
Arguments rest(const Arguments& a, size_t count) {
  Arguments out = a;
  out.positional.erase(out.positional.begin(), out.positional.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                            count, a.positional.size())));
  return out;
}

Value map(Evaluator& e, const Value& v, const Arguments& a) {
  const Value *attribute = a.find(99, "attribute"), *otherwise = a.find(99, "default");
  const std::string* filter = attribute ? nullptr : a.text(0, "filter");
  if (!attribute && !filter) type_error("map wants the name of a filter, or attribute=");
  List out;
  for (const Value& item : elements(e, v)) {
    Value value = attribute ? path(e, item, *attribute) : e.apply(*filter, item, rest(a, 1));
    out.push_back(value.is_undefined() && otherwise ? *otherwise : std::move(value));
  }
  return out;
}

// select, reject (a test of the value) and selectattr, rejectattr (of an attribute of it).
template <bool kKeep, bool kAttribute>
Value chosen(Evaluator& e, const Value& v, const Arguments& a) {
  constexpr size_t kTest = kAttribute ? 1 : 0;
  const Value* attribute = a.find(0, "attribute");
  if (kAttribute && !attribute) type_error("the name of an attribute is missing");
  const std::string* test = a.text(kTest, "test");
  List out;
  for (const Value& item : elements(e, v)) {
    const Value value = kAttribute ? path(e, item, *attribute) : item;
    if ((test ? e.test(*test, value, rest(a, kTest + 1)) : value.truthy()) == kKeep) out.push_back(item);
  }
  return out;
}

Value string(Evaluator& e, const Value& v, const Arguments&) { return text_of(e, v); }
Value safe(Evaluator& e, const Value& v, const Arguments&) { return text_of(e, v).as_safe(); }

const std::unordered_map<std::string_view, Filter>& filters() {
  static const std::unordered_map<std::string_view, Filter> table = {
#define FILTER(name, ...) {#name, __VA_ARGS__},
#include "llm/jinja/filters.def"
#undef FILTER
  };
  return table;
}

const Value& other(const Arguments& a) {
  if (a.positional.empty()) type_error("the test wants a value to compare with");
  return a.positional[0];
}

template <int kRemainder>
bool has_parity(Evaluator&, const Value& v, const Arguments&) {
  return v.integer() && std::abs(*v.integer() % 2) == kRemainder;
}

bool divisible(Evaluator&, const Value& v, const Arguments& a) {
  const int64_t* by = other(a).integer();
  if (!v.integer() || !by || *by == 0) type_error("divisibleby wants integers other than 0");
  return *by == -1 || *v.integer() % *by == 0;
}

bool is_equal(Evaluator& e, const Value& v, const Arguments& a) { return equal(e, v, other(a)); }
bool is_different(Evaluator& e, const Value& v, const Arguments& a) { return !equal(e, v, other(a)); }
bool is_below(Evaluator& e, const Value& v, const Arguments& a) { return compare(e, v, other(a)) < 0; }
bool is_above(Evaluator& e, const Value& v, const Arguments& a) { return compare(e, v, other(a)) > 0; }
bool is_sequence(Evaluator&, const Value& v, const Arguments&) {
  return v.is_undefined() || v.text() || v.list() || (v.dict() && !v.dict()->is_namespace);
}

const std::unordered_map<std::string_view, Test>& tests() {
  using E = Evaluator&;
  using V = const Value&;
  using A = const Arguments&;
  static const std::unordered_map<std::string_view, Test> table = {
      {"defined", [](E, V v, A) { return !v.is_undefined(); }},
      {"undefined", [](E, V v, A) { return v.is_undefined(); }},
      {"none", [](E, V v, A) { return v.is_none(); }},
      {"string", [](E, V v, A) { return v.text() != nullptr; }},
      {"mapping", [](E, V v, A) { return v.dict() && !v.dict()->is_namespace; }},
      {"sequence", is_sequence},
      {"iterable", is_sequence},
      {"number", [](E, V v, A) { return v.is_number(); }},
      {"integer", [](E, V v, A) { return v.integer() != nullptr; }},
      {"float", [](E, V v, A) { return v.real() != nullptr; }},
      {"boolean", [](E, V v, A) { return v.boolean() != nullptr; }},
      {"true", [](E, V v, A) { return v.boolean() && *v.boolean(); }},
      {"false", [](E, V v, A) { return v.boolean() && !*v.boolean(); }},
      {"callable", [](E, V v, A) { return v.function() != nullptr; }},
      {"equalto", is_equal},
      {"eq", is_equal},
      {"==", is_equal},
      {"sameas", is_equal},
      {"ne", is_different},
      {"!=", is_different},
      {"lessthan", is_below},
      {"lt", is_below},
      {"greaterthan", is_above},
      {"gt", is_above},
      {"in", [](E e, V v, A a) { return e.contains(other(a), v); }},
      {"odd", has_parity<1>},
      {"even", has_parity<0>},
      {"divisibleby", divisible},
      {"lower", [](E e, V v, A) { return v.text() && lower(text_of(e, v)).bytes() == v.text()->bytes(); }},
      {"upper", [](E e, V v, A) { return v.text() && upper(text_of(e, v)).bytes() == v.text()->bytes(); }},
  };
  return table;
}

}  // namespace

Value Evaluator::apply(const std::string& filter, const Value& value, const Arguments& arguments) {
  const auto at = filters().find(filter);
  if (at == filters().end()) value_error("unknown filter '{}'", filter);
  charge(1);
  return at->second(*this, value, arguments);
}

bool Evaluator::test(const std::string& name, const Value& value, const Arguments& arguments) {
  const auto at = tests().find(name);
  if (at == tests().end()) value_error("unknown test '{}'", name);
  charge(1);
  return at->second(*this, value, arguments);
}

}  // namespace lathe::jinja
