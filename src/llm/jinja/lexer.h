#pragma once

#include <string>
#include <string_view>
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

// Thrown inside lexer and parser only.
struct SyntaxError {
  std::string text;
  size_t offset;
  int line;
};

// Cuts a template into tokens, white space around tags already treated: trim_blocks and lstrip_blocks are on,
// comments are gone, lines end in \n.
std::vector<Token> tokenize(std::string_view source);

}  // namespace lathe::jinja
