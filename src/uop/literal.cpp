#include "uop/literal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace lathe {
namespace {

constexpr size_t kMaxDigits = 400;  // no double needs more

struct Named {
  std::string_view word;
  Scalar value;
};
const Named* find_named(std::string_view word) {
  static const Named kNamed[] = {
      {"true", true},
      {"false", false},
      {"Invalid", Scalar::invalid()},
      {"inf", std::numeric_limits<double>::infinity()},
      {"nan", std::numeric_limits<double>::quiet_NaN()},
  };
  for (const Named& n : kNamed)
    if (n.word == word) return &n;
  return nullptr;
}

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

Result<Literal> scan_integer(std::string_view digits, int base, bool negative, size_t size) {
  int128 v = 0;
  for (const char c : digits) {
    const int d = digit_value(c);
    // Counted downwards for negative numbers, which reach one further.
    if (__builtin_mul_overflow(v, static_cast<int128>(base), &v) ||
        __builtin_add_overflow(v, static_cast<int128>(negative ? -d : d), &v))
      return ParseError{"an integer of more than 127 bits", 0, ""};
  }
  return Literal{Scalar(v), size};
}

}  // namespace

std::string_view leading_word(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_word(text[n])) n++;
  return text.substr(0, n);
}

std::string excerpt(std::string_view text) {
  constexpr size_t kLongest = 40;
  std::string out(text.substr(0, kLongest));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) >= 127) c = '?';
  return text.size() > kLongest ? out + "..." : out;
}

Result<Literal> scan_literal(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  const size_t first = negative;
  if (first < text.size() && is_word_start(text[first])) {
    const std::string_view word = leading_word(text.substr(first));
    const Named* named = find_named(word);
    if (!named || (negative && !named->value.is_float()))
      return ParseError{fmt::format("'{}' is not a literal", excerpt(text.substr(0, first + word.size()))), 0,
                        ""};
    if (!negative || std::isnan(named->value.as_double())) return Literal{named->value, first + word.size()};
    return Literal{Scalar(-named->value.as_double()), first + word.size()};
  }
  if (first >= text.size() || !is_digit(text[first])) return ParseError{"a number is missing", 0, ""};
  if (text[first] == '0' && first + 1 < text.size() && text[first + 1] == 'x') {
    size_t end = first + 2;
    while (end < text.size() && digit_value(text[end]) < 16) end++;
    if (end == first + 2) return ParseError{"0x without digits", 0, ""};
    return scan_integer(text.substr(first + 2, end - first - 2), 16, negative, end);
  }
  double v = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), v);
  const std::string_view number(text.data(), end), digits = number.substr(first);
  if (digits.size() > kMaxDigits)
    return ParseError{fmt::format("a number of more than {} digits", kMaxDigits), 0, ""};
  if (std::all_of(digits.begin(), digits.end(), is_digit))
    return scan_integer(digits, 10, negative, number.size());
  if (code != std::errc()) return ParseError{fmt::format("'{}' is not a double", excerpt(number)), 0, ""};
  return Literal{Scalar(v), number.size()};
}

}  // namespace lathe
