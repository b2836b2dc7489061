#include "archive/parsing.h"
#include "llm/jinja/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

namespace lathe::jinja {
namespace {

// Depth of a syntax tree, and nesting while it is read.
constexpr int kMaxDepth = 400, kMaxNesting = 100;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  NodePtr run() {
    NodePtr root = make(NodeKind::Block);
    root->body = statements({});
    return root;
  }

 private:
  using Kind = NodeKind;

  // Counts nesting for as long as it lives.
  struct Nesting {
    explicit Nesting(Parser& p) : parser(p) {
      if (++parser.nesting_ > kMaxNesting) parser.fail("nested too deeply");
    }
    ~Nesting() { parser.nesting_--; }
    Parser& parser;
  };

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  [[noreturn]] void fail(const std::string& text) const {
    throw_parse_error("", peek().offset, "line {}: {}", peek().line, text);
  }
  std::string found() const {
    const Token& t = peek();
    return t.kind == TokenKind::End ? "the end of the template" : fmt::format("'{}'", t.text.substr(0, 40));
  }
  bool is(TokenKind kind, std::string_view text) const { return peek().kind == kind && peek().text == text; }
  bool is_op(std::string_view text) const { return is(TokenKind::Operator, text); }
  bool is_word(std::string_view text) const { return is(TokenKind::Name, text); }
  bool take_op(std::string_view text) { return is_op(text) && (next(), true); }
  bool take_word(std::string_view text) { return is_word(text) && (next(), true); }
  void expect_op(std::string_view text) {
    if (!take_op(text)) fail(fmt::format("expected '{}', found {}", text, found()));
  }
  void expect(TokenKind kind, std::string_view what) {
    if (peek().kind != kind) fail(fmt::format("expected {}, found {}", what, found()));
    next();
  }
  std::string name() {
    if (peek().kind != TokenKind::Name) fail(fmt::format("expected a name, found {}", found()));
    return next().text;
  }

  NodePtr make(Kind kind, std::string text = "") const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = peek().line;
    node->text = std::move(text);
    return node;
  }
  void add(NodePtr& node, NodePtr child) const {
    if (child) deepen(*node, *child);
    node->children.push_back(std::move(child));
  }
  void deepen(Node& node, const Node& child) const {
    node.depth = std::max(node.depth, child.depth + 1);
    if (node.depth > kMaxDepth) fail("nested too deeply");
  }
  void add_named(NodePtr& node, std::string key, NodePtr child) const {
    deepen(*node, *child);
    node->named.emplace_back(std::move(key), std::move(child));
  }
  void set_body(NodePtr& node, std::vector<NodePtr>& body, std::vector<NodePtr> statements) const {
    for (const NodePtr& s : statements) deepen(*node, *s);
    body = std::move(statements);
  }
  NodePtr node_of(Kind kind, std::string text, NodePtr a, NodePtr b = nullptr) const {
    NodePtr node = make(kind, std::move(text));
    node->line = a->line;
    add(node, std::move(a));
    if (b) add(node, std::move(b));
    return node;
  }
  NodePtr constant(Value value) const {
    NodePtr node = make(Kind::Constant);
    node->value = std::move(value);
    return node;
  }

  // Statements up to a tag that starts with one of the words, which is the next token then; the end of the
  // template where there are none.
  std::vector<NodePtr> statements(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    std::vector<NodePtr> out;
    for (;;) {
      const Token& t = peek();
      if (t.kind == TokenKind::End) {
        if (ends.size() > 0) fail(fmt::format("the template ends before {}", *(ends.end() - 1)));
        return out;
      }
      if (t.kind == TokenKind::BlockBegin) {
        if (std::find(ends.begin(), ends.end(), peek(1).text) != ends.end() &&
            peek(1).kind == TokenKind::Name) {
          next();
          return out;
        }
        next();
        out.push_back(statement());
      } else if (t.kind == TokenKind::PrintBegin) {
        next();
        out.push_back(node_of(Kind::Print, "", tuple(true)));
        expect(TokenKind::PrintEnd, "'}}'");
      } else {
        out.push_back(make(Kind::Data));
        out.back()->value = Text(next().text);
      }
    }
  }
  void end_block() { expect(TokenKind::BlockEnd, "'%}'"); }
  // The body of a statement, and its end tag.
  void body_of(NodePtr& node, std::string_view end) {
    end_block();
    set_body(node, node->body, statements({end}));
    next();
    end_block();
  }

  NodePtr statement() {
    if (peek().kind != TokenKind::Name) fail(fmt::format("expected a statement, found {}", found()));
    const std::string word = peek().text;
    if (word == "if") return if_statement();
    if (word == "for") return for_statement();
    if (word == "set") return set_statement();
    if (word == "macro") return macro_statement();
    NodePtr node;
    if (word == "break" || word == "continue") {
      if (loops_ == 0) fail(fmt::format("{} outside of a loop", word));
      node = make(word == "break" ? Kind::Break : Kind::Continue);
      next();
      end_block();
    } else if (word == "generation") {  // marks what a model is trained on
      node = make(Kind::Block);
      next();
      body_of(node, "endgeneration");
    } else {
      fail(fmt::format("unknown statement '{}'", word));
    }
    return node;
  }

  NodePtr if_statement() {
    NodePtr node = make(Kind::If);
    for (bool more = true; more;) {
      const bool is_else = next().text == "else";
      more = !is_else;
      NodePtr branch = make(Kind::Branch);
      if (!is_else) add(branch, tuple(true));
      end_block();
      set_body(branch, branch->body, is_else ? statements({"endif"}) : statements({"elif", "else", "endif"}));
      add(node, std::move(branch));
      more = more && !is_word("endif");
    }
    next();
    end_block();
    return node;
  }

  NodePtr for_statement() {
    NodePtr node = make(Kind::For);
    next();
    target_names(*node);
    if (!take_word("in")) fail(fmt::format("expected 'in', found {}", found()));
    add(node, tuple(false));
    add(node, take_word("if") ? expression() : nullptr);
    end_block();
    loops_++;
    set_body(node, node->body, statements({"else", "endfor"}));
    loops_--;
    if (take_word("else")) {
      end_block();
      set_body(node, node->otherwise, statements({"endfor"}));
    }
    next();
    end_block();
    return node;
  }

  void target_names(Node& node) {
    const bool parentheses = take_op("(");
    do node.names.push_back(name());
    while (take_op(","));
    if (parentheses) expect_op(")");
  }

  NodePtr set_statement() {
    NodePtr node = make(Kind::Set);
    next();
    target_names(*node);
    if (node->names.size() == 1 && take_op(".")) node->text = name();
    if (take_op("=")) {
      add(node, tuple(true));
      end_block();
      return node;
    }
    node->kind = Kind::SetBlock;
    while (take_op("|")) add(node, filter(nullptr));
    body_of(node, "endset");
    return node;
  }

  NodePtr macro_statement() {
    NodePtr node = make(Kind::Macro);
    next();
    node->text = name();
    expect_op("(");
    while (!take_op(")")) {
      if (!node->names.empty()) expect_op(",");
      node->names.push_back(name());
      if (take_op("=")) add_named(node, node->names.back(), expression());
    }
    const int loops = std::exchange(loops_, 0);
    body_of(node, "endmacro");
    loops_ = loops;
    return node;
  }

  // Expressions, a function for each level of binding.

  // One expression, or several with commas between, which make a list.
  NodePtr tuple(bool with_conditional) {
    NodePtr first = with_conditional ? expression() : operands(0);
    if (!is_op(",")) return first;
    NodePtr list = make(Kind::MakeList);
    add(list, std::move(first));
    while (take_op(",")) {
      if (peek().kind == TokenKind::BlockEnd || peek().kind == TokenKind::PrintEnd || is_op(")")) break;
      add(list, with_conditional ? expression() : operands(0));
    }
    return list;
  }

  NodePtr expression() {
    const Nesting nesting(*this);
    NodePtr value = operands(0);
    while (take_word("if")) {
      NodePtr condition = operands(0);
      NodePtr node = node_of(Kind::Conditional, "", std::move(condition), std::move(value));
      if (take_word("else")) add(node, expression());
      value = std::move(node);
    }
    return value;
  }

  // Operators by how tightly they bind, the loosest first; `not` stands before comparisons.
  NodePtr operands(size_t level) {
    static const std::vector<std::string_view> kLevels[] = {
        {"or"},     {"and"}, {"==", "!=", "<=", ">=", "<", ">", "in", "not in"},
        {"+", "-"}, {"~"},   {"*", "/", "//", "%"},
        {"**"}};
    constexpr size_t kComparison = 2;
    if (level == std::size(kLevels)) return filtered();
    if (level == kComparison && is_word("not")) {
      const Nesting nesting(*this);
      next();
      return node_of(Kind::Unary, "not", operands(level));
    }
    NodePtr value = operands(level + 1);
    for (bool is_chain = false;;) {
      const bool is_not_in = is_word("not") && peek(1).kind == TokenKind::Name && peek(1).text == "in";
      const auto op = std::ranges::find_if(kLevels[level], [&](std::string_view o) {
        return o == "not in" ? is_not_in : is_op(o) || is_word(o);
      });
      if (op == kLevels[level].end()) return value;
      next();
      if (*op == "not in") next();
      if (level != kComparison) {
        value = node_of(Kind::Binary, std::string(*op), std::move(value), operands(level + 1));
        continue;
      }
      if (!std::exchange(is_chain, true)) value = node_of(Kind::Compare, "", std::move(value));
      add_named(value, std::string(*op), operands(level + 1));
    }
  }

  NodePtr filtered() {
    NodePtr value = unary();
    for (;;) {
      if (take_op("|"))
        value = filter(std::move(value));
      else if (take_word("is"))
        value = test(std::move(value));
      else if (is_op("("))
        value = call(std::move(value));
      else
        return value;
    }
  }
  NodePtr unary() {
    for (std::string_view op : {"-", "+"})
      if (is_op(op)) {
        const Nesting nesting(*this);
        next();
        return node_of(Kind::Unary, std::string(op), unary());
      }
    return postfix(primary());
  }

  std::string dotted_name() {
    std::string out = name();
    while (take_op(".")) out += "." + name();
    return out;
  }

  NodePtr filter(NodePtr value) {
    NodePtr node = make(Kind::Filter);
    node->text = dotted_name();
    add(node, std::move(value));
    if (take_op("(")) arguments(node);
    return node;
  }

  NodePtr test(NodePtr value) {
    const bool negated = take_word("not");
    NodePtr node = make(Kind::Test);
    node->text = take_word("in") ? "in" : dotted_name();
    add(node, std::move(value));
    constexpr std::string_view kNoArgument[] = {"else", "or", "and", "if", "is", "in", "not"};
    const Token& t = peek();
    if (take_op("(")) {
      arguments(node);
    } else if (t.kind == TokenKind::Name ? std::find(std::begin(kNoArgument), std::end(kNoArgument),
                                                     t.text) == std::end(kNoArgument)
                                         : t.kind == TokenKind::String || t.kind == TokenKind::Integer ||
                                               t.kind == TokenKind::Float || is_op("[") || is_op("{")) {
      add(node, postfix(primary()));
    }
    return negated ? node_of(Kind::Unary, "not", std::move(node)) : std::move(node);
  }

  NodePtr call(NodePtr callee) {
    NodePtr node = node_of(Kind::Call, "", std::move(callee));
    expect_op("(");
    arguments(node);
    return node;
  }

  // Behind the opening parenthesis.
  void arguments(NodePtr& node) {
    for (bool first = true; !take_op(")"); first = false) {
      if (!first) {
        expect_op(",");
        if (take_op(")")) return;
      }
      if (is_op("*") || is_op("**")) fail("arguments from a list or dictionary are not supported");
      if (peek().kind == TokenKind::Name && peek(1).kind == TokenKind::Operator && peek(1).text == "=") {
        std::string key = next().text;
        next();
        add_named(node, std::move(key), expression());
      } else {
        add(node, expression());
      }
    }
  }

  NodePtr postfix(NodePtr value) {
    for (;;) {
      if (is_op("(")) {
        value = call(std::move(value));
      } else if (take_op(".")) {
        if (peek().kind == TokenKind::Integer)
          value = node_of(Kind::Item, "", std::move(value), primary());
        else
          value = node_of(Kind::Attribute, name(), std::move(value));
      } else if (take_op("[")) {
        value = subscript(std::move(value));
      } else {
        return value;
      }
    }
  }

  NodePtr subscript(NodePtr value) {
    NodePtr parts[3];
    int colons = 0;
    for (;;) {
      if (take_op("]")) break;
      if (is_op(":") && colons < 2) {
        next();
        colons++;
      } else if (parts[colons]) {
        fail(fmt::format("expected ']', found {}", found()));
      } else {
        parts[colons] = expression();
      }
    }
    if (colons == 0) {
      if (!parts[0]) fail("empty brackets behind a value");
      return node_of(Kind::Item, "", std::move(value), std::move(parts[0]));
    }
    NodePtr node = node_of(Kind::Slice, "", std::move(value));
    for (NodePtr& part : parts) add(node, std::move(part));
    return node;
  }

  NodePtr primary() {
    const Token t = peek();
    if (t.kind == TokenKind::Name) {
      next();
      if (t.text == "true" || t.text == "True") return constant(true);
      if (t.text == "false" || t.text == "False") return constant(false);
      if (t.text == "none" || t.text == "None") return constant(None{});
      return make(Kind::Name, t.text);
    }
    if (t.kind == TokenKind::String) {
      std::string text;
      while (peek().kind == TokenKind::String) text += next().text;
      return constant(Text(text));
    }
    if (t.kind == TokenKind::Integer || t.kind == TokenKind::Float) return number();
    const Nesting nesting(*this);
    if (take_op("(")) {
      if (take_op(")")) return make(Kind::MakeList);
      NodePtr value = tuple(true);
      expect_op(")");
      return value;
    }
    const bool is_list = is_op("[");
    if (!is_list && !is_op("{")) fail(fmt::format("expected a value, found {}", found()));
    next();
    NodePtr node = make(is_list ? Kind::MakeList : Kind::MakeDict);
    const std::string_view end = is_list ? "]" : "}";
    while (!take_op(end)) {
      if (!node->children.empty()) {
        expect_op(",");
        if (take_op(end)) break;
      }
      add(node, expression());
      if (is_list) continue;
      expect_op(":");
      add(node, expression());
    }
    return node;
  }

  NodePtr number() {
    const std::string& text = peek().text;
    const char *begin = text.data(), *end = begin + text.size();
    int64_t integer = 0;
    double real = 0;
    const bool is_integer = peek().kind == TokenKind::Integer;
    const auto [stop, error] =
        is_integer ? std::from_chars(begin, end, integer) : std::from_chars(begin, end, real);
    if (error != std::errc() || stop != end) fail(fmt::format("the number {} is too large", text));
    next();
    return constant(is_integer ? Value(integer) : Value(real));
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0, loops_ = 0;
};

}  // namespace

Result<Template> Template::parse(std::string_view source, std::string name) {
  // Line ends become \n, and the last one is dropped.
  std::string text;
  for (size_t i = 0; i < source.size(); i++) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  Template out;
  auto root = parsed([&] { return std::shared_ptr<const Node>(Parser(text).run()); });
  if (!root.ok()) return ParseError{std::move(root.error().text), root.error().offset, std::move(name)};
  out.root_ = std::move(root).value();
  out.name_ = std::move(name);
  return out;
}

Text Template::render(const Dict& variables, const std::optional<std::tm>& now, const Limits& limits) const {
  return lathe::jinja::render(*root_, variables, name_, now, limits);
}

}  // namespace lathe::jinja
