#include "llm/jinja/evaluate.h"

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace lathe::jinja {
namespace {

constexpr int kMaxEvalDepth = 1000;
constexpr int64_t kMaxRange = 100'000;
constexpr int64_t kNewContainer = 4, kIteration = 20;  // steps, for the memory they take

const Value* find(Evaluator& e, const Scope* scope, const std::string& name) {
  for (; scope; scope = scope->parent.get())
    if (const Value* found = e.find(scope->variables, name)) return found;
  return nullptr;
}

std::optional<int64_t> optional_integer(const Value& value) {
  if (value.is_none()) return {};
  if (value.boolean()) return *value.boolean();
  if (!value.integer()) type_error("a slice wants integers, not {}", value.type_name());
  return *value.integer();
}

// The indices that Python's slice takes of a sequence.
std::vector<int64_t> slice_indices(int64_t size, const Value& from, const Value& to, const Value& by) {
  const int64_t step = optional_integer(by).value_or(1);
  if (step == 0) value_error("the step of a slice is 0");
  const auto bound = [&](const Value& v, int64_t otherwise) {
    const auto i = optional_integer(v);
    if (!i) return otherwise;
    const int64_t at = *i < 0 ? std::max(*i, -size - 1) + size : *i;
    return std::clamp<int64_t>(at, step > 0 ? 0 : -1, step > 0 ? size : size - 1);
  };
  const int64_t begin = bound(from, step > 0 ? 0 : size - 1), end = bound(to, step > 0 ? size : -1);
  // From -size to size every step that is larger takes one element only.
  const int64_t stride = std::clamp(step, -size - 1, size + 1);
  std::vector<int64_t> out;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += stride) out.push_back(i);
  return out;
}

}  // namespace

void undefined_error(const Value& value) {
  const auto* u = std::get_if<Undefined>(&value.data);
  if (u && u->name) value_error("'{}' is undefined", *u->name);
  value_error("a value is undefined");
}

const Value* Arguments::find(size_t place, std::string_view name) const {
  if (place < positional.size()) return &positional[place];
  for (const auto& [n, v] : named)
    if (n == name) return &v;
  return nullptr;
}

bool Arguments::flag(size_t place, std::string_view name) const {
  const Value* v = find(place, name);
  return v && v->truthy();
}

int64_t Arguments::integer(size_t place, std::string_view name, int64_t otherwise) const {
  const Value* v = find(place, name);
  if (!v || v->is_none()) return otherwise;
  if (!v->integer()) type_error("{} wants an integer, not {}", name, v->type_name());
  return *v->integer();
}

const std::string* Arguments::text(size_t place, std::string_view name) const {
  const Value* v = find(place, name);
  if (!v || v->is_none()) return nullptr;
  if (!v->text()) type_error("{} wants a string, not {}", name, v->type_name());
  return &v->text()->bytes();
}

Evaluator::~Evaluator() {
  // A list that holds itself would keep itself alive.
  for (const Value& v : changed_) {
    if (v.list()) v.list()->clear();
    if (v.dict()) v.dict()->entries.clear();
  }
}

void Evaluator::charge_text(size_t bytes) {
  if (bytes > static_cast<size_t>(limits_.output_bytes))
    user_runtime_error("the template makes a text of more than {} bytes", limits_.output_bytes);
  charge(1 + static_cast<int64_t>(bytes) / 16);
}

Value Evaluator::checked_text(Text text) {
  charge_text(text.size());
  return text;
}

Value Evaluator::attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) undefined_error(value);
  // As in Python, methods come before the keys of a dictionary.
  if (has_method(value, name)) return Function{.name = name, .self = value};
  const Value* found = value.dict() ? find(*value.dict(), name) : nullptr;
  return found ? *found : Value(Undefined{&name});
}

Value Evaluator::item(const Value& value, const Value& key) {
  if (value.is_undefined()) undefined_error(value);
  if (key.text()) {
    const std::string& name = key.text()->bytes();
    const Value* found = value.dict() ? find(*value.dict(), name) : nullptr;
    if (found) return *found;
    return has_method(value, name) ? attribute(value, name) : Value();
  }
  if (!key.integer()) return {};
  const auto in_bounds = [](int64_t i, int64_t size) { return i < 0 ? i + size : i < size ? i : -1; };
  if (const List* list = value.list()) {
    const int64_t i = in_bounds(*key.integer(), static_cast<int64_t>(list->size()));
    return i < 0 ? Value() : (*list)[static_cast<size_t>(i)];
  }
  if (const Text* text = value.text()) {
    charge_text(text->size());
    const int64_t i = in_bounds(*key.integer(), count_characters(text->bytes()));
    if (i < 0) return {};
    const size_t at = character_offset(text->bytes(), i);
    return text->substr(at, character_size(text->bytes(), at));
  }
  return {};
}

List Evaluator::items(const Value& value) {
  List out;
  if (value.is_undefined()) return out;
  if (const List* list = value.list()) {
    charge(static_cast<int64_t>(list->size()));
    return *list;
  }
  if (const Dict* dict = value.dict(); dict && !dict->is_namespace) {
    charge(4 * static_cast<int64_t>(dict->entries.size()));
    for (const auto& entry : dict->entries) out.push_back(entry.first);
    return out;
  }
  const Text* text = value.text();
  if (!text) type_error("a value of type {} cannot be looped over", value.type_name());
  charge(4 * static_cast<int64_t>(text->size()));  // each becomes a value of its own
  for (size_t at = 0, size; at < text->size(); at += size) {
    size = character_size(text->bytes(), at);
    out.push_back(text->substr(at, size));
  }
  return out;
}

bool Evaluator::contains(const Value& container, const Value& value) {
  if (container.is_undefined()) return false;
  if (const Text* text = container.text()) {
    if (!value.text()) type_error("'in' on a string wants a string, not {}", value.type_name());
    charge_text(text->size());
    return text->bytes().find(value.text()->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return value.text() && find(*dict, value.text()->bytes());
  if (!container.list()) type_error("'in' wants a string, list or mapping, not {}", container.type_name());
  return std::ranges::any_of(*container.list(), [&](const Value& v) { return equal(*this, v, value); });
}

namespace {

enum class Flow { Next, Break, Continue };

class Rendering : public Evaluator {
 public:
  Rendering(const std::string& name, const std::optional<std::tm>& now, const Limits& limits)
      : Evaluator(limits), name_(name), now_(now), limits_(limits) {}

  Text run(const Node& root, const Dict& variables) {
    const ErrorContext context([&] { return fmt::format("rendering {}, line {}", name_, line_); });
    global_ = std::make_shared<Scope>();
    for (const char* name : {"range", "namespace", "dict", "raise_exception", "strftime_now"})
      global_->variables.set(Text(name), Function{.name = name});
    for (const auto& [name, value] : variables.entries) global_->variables.set(name, value);
    Text out;
    exec_all(root.body, global_, out);
    return out;
  }

 private:
  // Nesting of evaluation, for as long as it lives.
  struct Depth {
    explicit Depth(int& depth) : depth(depth) {
      if (++depth > kMaxEvalDepth)
        user_runtime_error("the template calls or nests more than {} deep", kMaxEvalDepth);
    }
    ~Depth() { depth--; }
    int& depth;
  };

  Value eval(const Node& node, const ScopePtr& scope) {
    const Depth depth(depth_);
    charge(1);
    line_ = node.line;
    switch (node.kind) {
      case NodeKind::Constant: return node.value;
      case NodeKind::Name: {
        const Value* found = jinja::find(*this, scope.get(), node.text);
        return found ? *found : Value(Undefined{&node.text});
      }
      case NodeKind::MakeList: {
        charge(kNewContainer);
        List list;
        for (const NodePtr& child : node.children) list.push_back(eval(*child, scope));
        return list;
      }
      case NodeKind::MakeDict: return eval_dict(node, scope);
      case NodeKind::Unary: {
        const Value value = eval(*node.children[0], scope);
        return node.text == "not" ? Value(!value.truthy()) : arithmetic(*this, node.text, int64_t{0}, value);
      }
      case NodeKind::Binary: return eval_binary(node, scope);
      case NodeKind::Compare: return eval_compare(node, scope);
      case NodeKind::Conditional:
        if (eval(*node.children[0], scope).truthy()) return eval(*node.children[1], scope);
        return node.children.size() > 2 ? eval(*node.children[2], scope) : Value();
      case NodeKind::Attribute: return attribute(eval(*node.children[0], scope), node.text);
      case NodeKind::Item: {
        const Value value = eval(*node.children[0], scope), key = eval(*node.children[1], scope);
        Value out = item(value, key);
        // For messages: a key that is written out is the name of what is missing.
        if (out.is_undefined() && node.children[1]->value.text())
          out = Undefined{&node.children[1]->value.text()->bytes()};
        return out;
      }
      case NodeKind::Slice: return eval_slice(node, scope);
      case NodeKind::Call: return eval_call(node, scope);
      case NodeKind::Filter: {
        const Value value = eval(*node.children[0], scope);
        return apply(node.text, value, eval_arguments(node, scope));
      }
      case NodeKind::Test: {
        const Value value = eval(*node.children[0], scope);
        return test(node.text, value, eval_arguments(node, scope));
      }
      default: CHECK(false, "a statement where an expression belongs");
    }
    return {};
  }

  Value eval_binary(const Node& node, const ScopePtr& scope) {
    const Value left = eval(*node.children[0], scope);
    if (node.text == "and" || node.text == "or")
      return left.truthy() == (node.text == "or") ? left : eval(*node.children[1], scope);
    const Value right = eval(*node.children[1], scope);
    if (node.text != "~") return arithmetic(*this, node.text, left, right);
    Text out = to_text(*this, left);
    out.append(to_text(*this, right));
    return checked_text(std::move(out));
  }

  Value eval_compare(const Node& node, const ScopePtr& scope) {
    Value left = eval(*node.children[0], scope);
    for (const auto& [op, operand] : node.named) {
      Value right = eval(*operand, scope);
      bool holds = false;
      if (op == "in" || op == "not in") {
        holds = contains(right, left) == (op == "in");
      } else if (op == "==" || op == "!=") {
        holds = equal(*this, left, right) == (op == "==");
      } else {
        for (const Value* v : {&left, &right})
          if (v->is_undefined()) undefined_error(*v);
        const int order = compare(*this, left, right);
        holds = op[0] == '<' ? order < 0 : order > 0;
        if (op.size() == 2) holds = holds || order == 0;
      }
      if (!holds) return false;
      left = std::move(right);
    }
    return true;
  }

  Value eval_dict(const Node& node, const ScopePtr& scope) {
    charge(kNewContainer);
    Dict dict;
    for (size_t i = 0; i < node.children.size(); i += 2) {
      const Value key = eval(*node.children[i], scope);
      if (!key.text()) type_error("keys of a mapping are strings here, not {}", key.type_name());
      charge(static_cast<int64_t>(dict.entries.size()));
      dict.set(*key.text(), eval(*node.children[i + 1], scope));
    }
    return dict;
  }

  Value eval_slice(const Node& node, const ScopePtr& scope) {
    const Value value = eval(*node.children[0], scope);
    const auto part = [&](size_t i) {
      return node.children[i] ? eval(*node.children[i], scope) : Value(None{});
    };
    const Value from = part(1), to = part(2), by = part(3);
    if (value.is_undefined()) undefined_error(value);
    if (!value.text() && !value.list()) type_error("a value of type {} has no slices", value.type_name());
    if (const Text* text = value.text(); text && by.is_none()) {  // without taking it apart
      charge_text(text->size());
      const auto indices = slice_indices(count_characters(text->bytes()), from, to, by);
      if (indices.empty()) return Text();
      const size_t begin = character_offset(text->bytes(), indices.front());
      return text->substr(begin, character_offset(text->bytes(), indices.back() + 1) - begin);
    }
    const List all = items(value);
    List list;
    Text text;
    for (int64_t i : slice_indices(static_cast<int64_t>(all.size()), from, to, by)) {
      const Value& v = all[static_cast<size_t>(i)];
      if (value.text())
        text.append(*v.text());
      else
        list.push_back(v);
    }
    return value.text() ? Value(text) : Value(list);
  }

  Value eval_call(const Node& node, const ScopePtr& scope) {
    const Value callee = eval(*node.children[0], scope);
    if (callee.is_undefined()) undefined_error(callee);
    const Function* function = callee.function();
    if (!function) type_error("a value of type {} cannot be called", callee.type_name());
    const Arguments arguments = eval_arguments(node, scope);
    line_ = node.line;
    if (function->macro) return call_macro(*function, arguments);
    if (!function->self.is_undefined()) return call_method(*this, *function, arguments);
    return call_global(function->name, arguments);
  }

  Arguments eval_arguments(const Node& node, const ScopePtr& scope) {
    Arguments out;
    for (size_t i = 1; i < node.children.size(); i++)
      out.positional.push_back(eval(*node.children[i], scope));
    for (const auto& [name, child] : node.named) out.named.emplace_back(name, eval(*child, scope));
    return out;
  }

  Value call_macro(const Function& function, const Arguments& arguments) {
    const Node& macro = *function.macro;
    if (arguments.positional.size() > macro.names.size())
      type_error("macro {} takes {} arguments, not {}", macro.text, macro.names.size(),
                 arguments.positional.size());
    for (const auto& [name, value] : arguments.named)
      if (std::find(macro.names.begin(), macro.names.end(), name) == macro.names.end())
        type_error("macro {} has no argument '{}'", macro.text, name);
    const auto scope = std::make_shared<Scope>();
    scope->parent = function.scope.lock();
    if (!scope->parent) scope->parent = global_;  // it has outlived the loop that defined it
    for (size_t i = 0; i < macro.names.size(); i++) {
      const std::string& name = macro.names[i];
      const auto otherwise =
          std::ranges::find_if(macro.named, [&](const auto& d) { return d.first == name; });
      const Value* given = arguments.find(i, name);
      Value value = given                            ? *given
                    : otherwise != macro.named.end() ? eval(*otherwise->second, scope)
                                                     : Value(Undefined{&name});
      scope->variables.set(Text(name), std::move(value));
    }
    Text out;
    exec_all(macro.body, scope, out);
    return out;
  }

  Value call_global(const std::string& name, const Arguments& arguments) {
    if (name == "range") {
      const bool one = arguments.positional.size() == 1;
      const int64_t begin = one ? 0 : arguments.integer(0, "start", 0),
                    end = arguments.integer(one ? 0 : 1, "stop", 0), step = arguments.integer(2, "step", 1);
      if (step == 0) value_error("range with step 0");
      const double count =
          (static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step);
      if (count > static_cast<double>(kMaxRange)) value_error("a range of more than {} elements", kMaxRange);
      List list;
      charge(std::max<int64_t>(0, static_cast<int64_t>(count)));
      for (int64_t i = begin; step > 0 ? i < end : i > end;) {
        list.push_back(i);
        if (__builtin_add_overflow(i, step, &i)) break;
      }
      return list;
    }
    if (name == "namespace" || name == "dict") {
      Dict dict;
      if (!arguments.positional.empty()) {
        const Dict* from = arguments.positional[0].dict();
        if (!from) type_error("{} wants a mapping, not {}", name, arguments.positional[0].type_name());
        charge(4 * static_cast<int64_t>(from->entries.size()));
        dict.entries = from->entries;
      }
      for (const auto& [key, value] : arguments.named) dict.set(Text(key), value);
      dict.is_namespace = name == "namespace";
      return dict;
    }
    if (name == "raise_exception") {
      const Value* reason = arguments.find(0, "message");
      const std::string text = reason ? to_text(*this, *reason).bytes() : "no reason given";
      throw RaisedError(detail::with_context("the template refuses these messages: " + text), text);
    }
    const std::string* format = arguments.text(0, "format");
    if (!format) type_error("strftime_now wants a format");
    std::tm now = now_.value_or(std::tm{});
    if (!now_) {
      const std::time_t clock = std::time(nullptr);
      localtime_r(&clock, &now);
    }
    char text[512];
    return Text(std::string_view(text, std::strftime(text, sizeof text, format->c_str(), &now)));
  }

  Flow exec_all(const std::vector<NodePtr>& body, const ScopePtr& scope, Text& out) {
    for (const NodePtr& node : body)
      if (const Flow flow = exec(*node, scope, out); flow != Flow::Next) return flow;
    return Flow::Next;
  }

  Flow exec(const Node& node, const ScopePtr& scope, Text& out) {
    const Depth depth(depth_);
    charge(1);
    line_ = node.line;
    switch (node.kind) {
      case NodeKind::Data: write(out, *node.value.text()); break;
      case NodeKind::Print: {
        const Value value = eval(*node.children[0], scope);
        value.text() ? write(out, *value.text()) : write(out, to_text(*this, value));
        break;
      }
      case NodeKind::If:
        for (const NodePtr& branch : node.children)
          if (branch->children.empty() || eval(*branch->children[0], scope).truthy())
            return exec_all(branch->body, scope, out);
        break;
      case NodeKind::For: return exec_for(node, scope, out);
      case NodeKind::Set: assign(node, scope, eval(*node.children[0], scope)); break;
      case NodeKind::SetBlock: {
        Text text;
        const auto inner = std::make_shared<Scope>(Scope{scope, {}});
        exec_all(node.body, inner, text);
        Value value = text;
        for (const NodePtr& filter : node.children)
          value = apply(filter->text, value, eval_arguments(*filter, scope));
        assign(node, scope, std::move(value));
        break;
      }
      case NodeKind::Macro:
        scope->variables.set(Text(node.text), Function{.macro = &node, .scope = scope, .name = node.text});
        break;
      case NodeKind::Break: return Flow::Break;
      case NodeKind::Continue: return Flow::Continue;
      case NodeKind::Block: return exec_all(node.body, scope, out);
      default: CHECK(false, "an expression where a statement belongs");
    }
    return Flow::Next;
  }

  Flow exec_for(const Node& node, const ScopePtr& scope, Text& out) {
    List list = items(eval(*node.children[0], scope));
    const auto bound = [&](const Value& value) {
      auto inner = std::make_shared<Scope>(Scope{scope, {}});
      assign(node, inner, value);
      return inner;
    };
    if (node.children[1])
      std::erase_if(list, [&](const Value& v) { return !eval(*node.children[1], bound(v)).truthy(); });
    const auto count = static_cast<int64_t>(list.size());
    for (int64_t i = 0; i < count; i++) {
      const auto at = [&](int64_t k) { return k < 0 || k >= count ? Value() : list[static_cast<size_t>(k)]; };
      charge(kIteration);
      const ScopePtr inner = bound(at(i));
      Dict loop;
      loop.entries = {{Text("index"), i + 1},        {Text("index0"), i},
                      {Text("revindex"), count - i}, {Text("revindex0"), count - i - 1},
                      {Text("first"), i == 0},       {Text("last"), i == count - 1},
                      {Text("length"), count},       {Text("previtem"), at(i - 1)},
                      {Text("nextitem"), at(i + 1)}};
      loop.is_namespace = true;  // its names are no methods
      inner->variables.set(Text("loop"), std::move(loop));
      if (exec_all(node.body, inner, out) == Flow::Break) break;
    }
    return count == 0 ? exec_all(node.otherwise, scope, out) : Flow::Next;
  }

  void assign(const Node& node, const ScopePtr& scope, Value value) {
    if (!node.text.empty()) {  // of a namespace
      const Value* target = jinja::find(*this, scope.get(), node.names[0]);
      Dict* dict = target ? target->dict() : nullptr;
      if (!dict || !dict->is_namespace)
        type_error("'{}' is no namespace, so that its attribute '{}' cannot be set", node.names[0],
                   node.text);
      if (value.list() || value.dict()) changed(*target);
      dict->set(Text(node.text), std::move(value));
    } else if (node.names.size() == 1) {
      scope->variables.set(Text(node.names[0]), std::move(value));
    } else {
      const List parts = items(value);
      if (parts.size() != node.names.size())
        value_error("{} values for {} names ({} …)", parts.size(), node.names.size(), node.names[0]);
      for (size_t i = 0; i < parts.size(); i++) scope->variables.set(Text(node.names[i]), parts[i]);
    }
  }

  void write(Text& out, const Text& text) {
    charge_text(text.size());
    if (out.size() + text.size() > static_cast<size_t>(limits_.output_bytes))
      charge_text(out.size() + text.size());
    out.append(text);
  }

  const std::string& name_;
  const std::optional<std::tm>& now_;
  const Limits& limits_;
  int line_ = 1, depth_ = 0;
  ScopePtr global_;
};

}  // namespace

Text render(const Node& root, const Dict& variables, const std::string& name,
            const std::optional<std::tm>& now, const Limits& limits) {
  return Rendering(name, now, limits).run(root, variables);
}

}  // namespace lathe::jinja
