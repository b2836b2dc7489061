#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lathe {

// What is at one place of a text that should be UTF-8.
struct Utf8Step {
  enum class State : std::uint8_t {
    Complete,   // one code point
    Truncated,  // the text ends within what may become a code point
    Invalid,    // bytes that begin no code point, as many as one U+FFFD stands for (Unicode, section 3.9)
  };
  State state = State::Invalid;
  char32_t code = 0xFFFD;
  std::size_t length = 0;  // bytes; 0 only at the end of the text
};

// The step at byte `at`.
Utf8Step decode_utf8(std::string_view text, std::size_t at);

// Appends the encoding of a code point; U+FFFD for what is none (surrogates, beyond U+10FFFF).
void append_utf8(std::string& out, char32_t code);
std::string to_utf8(char32_t code);

// Appends `text` with U+FFFD in place of what is not UTF-8.
void append_valid_utf8(std::string& out, std::string_view text);

// Bytes at the end of `text` that may become a code point when more text follows: 0 to 3.
std::size_t incomplete_utf8_tail(std::string_view text);

}  // namespace lathe
