#pragma once

#include "llm/jinja/value.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe::jinja {

enum class TokenKind {
  Data,
  BlockBegin,
  BlockEnd,
  PrintBegin,
  PrintEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End
};

struct Token {
  TokenKind kind;
  std::string text;  // of a string what it stands for
  size_t offset;
  int line;
};

// Cuts a template into tokens, white space around tags already treated: trim_blocks and lstrip_blocks are on,
// comments are gone, lines end in \n. Throws a ParseError.
std::vector<Token> tokenize(std::string_view source);

// What a node of the syntax tree is; beside it, which of its fields count.
enum class NodeKind {
  // Expressions
  Constant,     // value
  Name,         // text
  MakeList,     // children
  MakeDict,     // children: key, value, key, value …
  Unary,        // text (- + not), children[0]
  Binary,       // text (+ - * / // % ** ~ and or), children[0], children[1]
  Compare,      // children[0], then in `named` operator and operand of each comparison
  Conditional,  // children: condition, then, else (which may be missing)
  Attribute,    // children[0], text
  Item,         // children[0], children[1]
  Slice,        // children: value, start, stop, step; the last three may be null
  Call,         // children: callee, arguments …; named
  Filter,       // text, children: value (null in a set block), arguments …; named
  Test,         // text, children: value, arguments …; named
  // Statements
  Data,      // value
  Print,     // children[0]
  If,        // children: Branch …
  Branch,    // children[0]: condition, none for else; body
  For,       // children: iterable, filter or null; names; body; otherwise
  Set,       // names (with text: the attribute `text` of names[0]), children[0]
  SetBlock,  // as Set, but the value is the body, through the filters children
  Macro,     // text, names, named: defaults by name; body
  Break,
  Continue,
  Block,  // body
};

struct Node;
using NodePtr = std::unique_ptr<Node>;

struct Node {
  NodeKind kind;
  int line = 0;
  int depth = 1;  // of the tree below: bounds the recursion of who walks it
  std::string text;
  Value value;
  std::vector<std::string> names;
  std::vector<NodePtr> children;
  std::vector<std::pair<std::string, NodePtr>> named;
  std::vector<NodePtr> body, otherwise;
};

}  // namespace lathe::jinja
