// Literals of the text forms: `3`, `-0x1f`, `1.5`, `1e-07`, `inf`, `nan`, `true`, `Invalid`.
#pragma once
#include "base/result.h"
#include "uop/scalar.h"

#include <string_view>

namespace lathe {

struct Literal {
  Scalar value;
  size_t size;  // bytes read
};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
constexpr bool is_word(char c) { return is_word_start(c) || is_digit(c); }

// The longest run of word characters at the front.
std::string_view leading_word(std::string_view text);

// A number, with its sign, or one of the named values, at the front of `text`. Offsets of errors count from
// there.
Result<Literal> scan_literal(std::string_view text);

// Text of untrusted origin, cut to a length that fits a message, control characters replaced.
std::string excerpt(std::string_view text);

}  // namespace lathe
