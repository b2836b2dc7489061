#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lathe::jinja {

// UTF-8 text that remembers which of its bytes came from a message, so that a prompt can be tokenised without
// taking what a user typed for a control token. Marks follow the bytes through joining, cutting and
// replacing.
class Text {
 public:
  Text() = default;
  Text(std::string_view bytes, bool marked = false) { append(bytes, marked); }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  // Escaped for HTML, or declared to be: what is added to it gets escaped too.
  bool is_safe() const { return is_safe_; }
  Text as_safe() const {
    Text out = *this;
    out.is_safe_ = true;
    return out;
  }
  bool is_marked(size_t i) const { return i < marks_.size() && marks_[i] != 0; }

  void append(std::string_view bytes, bool marked = false);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, size_t at, size_t count);
  Text substr(size_t at, size_t count = std::string::npos) const;
  // The same with each byte replaced; the function keeps the length.
  template <class F>
  Text mapped(F f) const {
    Text out = *this;
    for (size_t i = 0; i < size(); i++) out.bytes_[i] = f(bytes_, i);
    return out;
  }

 private:
  std::string bytes_;
  std::string marks_;  // one a byte, zeros at the end may be missing
  bool is_safe_ = false;
};

// Bytes of the character that starts at `at`, or of what takes the place of one.
size_t character_size(std::string_view text, size_t at);
int64_t count_characters(std::string_view text);
// Byte at which the character of that index starts, the size for one behind the last.
size_t character_offset(std::string_view text, int64_t index);
// What Python's str.isspace says.
bool is_space(char32_t c);
Text escape(const Text& text);
// Without the characters at the ends that are in `characters`, or that are white space where there is none.
Text strip(const Text& text, const std::string* characters, bool left = true, bool right = true);

class Value;
struct Function;
struct Undefined {
  const std::string* name = nullptr;  // what was asked for, of the template's syntax tree; for messages
};
struct None {};
using List = std::vector<Value>;

// In the order of insertion. Looked up from the front: dictionaries of templates and tool schemas are small.
struct Dict {
  std::vector<std::pair<Text, Value>> entries;
  bool is_namespace = false;
  const Value* find(std::string_view key) const;
  void set(Text key, Value value);
};

// A value of a template. Lists and namespaces are shared by who holds them, as in Python.
class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
                            std::shared_ptr<List>, std::shared_ptr<Dict>, std::shared_ptr<const Function>>;
  Value() = default;
  Value(Undefined u) : data(u) {}
  Value(None) : data(None{}) {}
  Value(bool b) : data(b) {}
  Value(int64_t i) : data(i) {}
  Value(double d) : data(d) {}
  Value(Text text) : data(std::make_shared<const Text>(std::move(text))) {}
  Value(const char* text) : Value(Text(text)) {}
  Value(List list);
  Value(Dict dict);
  Value(Function function);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data); }
  bool is_none() const { return std::holds_alternative<None>(data); }
  const bool* boolean() const { return std::get_if<bool>(&data); }
  const int64_t* integer() const { return std::get_if<int64_t>(&data); }
  const double* real() const { return std::get_if<double>(&data); }
  const Text* text() const { return pointee<const Text>(); }
  List* list() const { return pointee<List>(); }
  Dict* dict() const { return pointee<Dict>(); }
  const Function* function() const { return pointee<const Function>(); }
  bool is_number() const { return integer() || real() || boolean(); }
  double number() const;  // of a number

  bool truthy() const;
  std::string_view type_name() const;

  Data data;

 private:
  template <class T>
  T* pointee() const {
    const auto* p = std::get_if<std::shared_ptr<T>>(&data);
    return p ? p->get() : nullptr;
  }
};

struct Node;
struct Scope;

// What can be called: a macro, a function of the environment, or a method with the value it belongs to.
struct Function {
  const Node* macro = nullptr;
  std::weak_ptr<Scope> scope = {};  // of the macro's definition
  std::string name = {};
  Value self = {};  // of a method
};

// Nesting that values may have where they are read, written or compared.
inline constexpr int kMaxValueDepth = 200;

// Strings are marked where `marked` says so. UserError for JSON that is nested too deeply.
Value from_json(const nlohmann::ordered_json& json, bool marked);

// What work costs that grows with the data; RuntimeError where it is more than was given.
class Meter {
 public:
  explicit Meter(int64_t steps) : given_(steps), left_(steps) {}
  void charge(int64_t steps);
  void charge_bytes(size_t bytes) { charge(static_cast<int64_t>(bytes / 16)); }

 private:
  const int64_t given_;
  int64_t left_;
};

struct JsonStyle {
  int indent = -1;  // spaces a level; -1: one line
  bool ensure_ascii = false, sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
};
Text to_json(Meter& meter, const Value& value, const JsonStyle& style = {});

// What Python's str and repr make of it.
Text to_text(Meter& meter, const Value& value);
Text to_repr(Meter& meter, const Value& value);

bool equal(Meter& meter, const Value& a, const Value& b, int depth = 0);
// Negative, zero or positive. UserError for values that have no order.
int compare(Meter& meter, const Value& a, const Value& b, int depth = 0);

}  // namespace lathe::jinja
