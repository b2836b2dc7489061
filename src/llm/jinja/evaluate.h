#pragma once

#include "llm/jinja/node.h"
#include "llm/jinja/template.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::jinja {

struct Scope {
  std::shared_ptr<Scope> parent;
  Dict variables;
};
using ScopePtr = std::shared_ptr<Scope>;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  // The argument at that place or of that name; null where it is not given.
  const Value* find(size_t place, std::string_view name) const;
  bool flag(size_t place, std::string_view name) const;
  int64_t integer(size_t place, std::string_view name, int64_t otherwise) const;
  const std::string* text(size_t place, std::string_view name) const;
};

// One rendering of a template, as filters and methods see it.
class Evaluator : public Meter {
 public:
  explicit Evaluator(const Limits& limits) : Meter(limits.steps), limits_(limits) {}
  ~Evaluator();

  // A string of that many bytes is about to be made.
  void charge_text(size_t bytes);
  Value checked_text(Text text);

  const Value* find(const Dict& dict, std::string_view key) {
    charge_bytes(dict.entries.size());
    return dict.find(key);
  }
  Value attribute(const Value& value, const std::string& name);
  Value item(const Value& value, const Value& key);
  List items(const Value& value);  // what a loop over it sees
  bool contains(const Value& container, const Value& value);
  Value apply(const std::string& filter, const Value& value, const Arguments& arguments);
  bool test(const std::string& name, const Value& value, const Arguments& arguments);
  // A list or namespace takes a container, by which it might come to hold itself.
  void changed(const Value& container) {
    charge(4);
    changed_.push_back(container);
  }

 private:
  const Limits& limits_;
  std::vector<Value> changed_;
};

Text render(const Node& root, const Dict& variables, const std::string& name,
            const std::optional<std::tm>& now, const Limits& limits);
[[noreturn]] void undefined_error(const Value& value);
Value arithmetic(Evaluator& e, std::string_view op, const Value& a, const Value& b);
bool has_method(const Value& value, std::string_view name);
Value call_method(Evaluator& e, const Function& method, const Arguments& arguments);

// Shared by filters and methods.
Text replace(const Text& text, std::string_view old, const Text& by, int64_t count);
Text lower(const Text& text);
Text upper(const Text& text);
Text capitalize(const Text& text);

}  // namespace lathe::jinja
