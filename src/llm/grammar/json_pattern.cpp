// Regular expressions as grammars of the JSON strings that they accept.
#include "archive/parsing.h"
#include "formats/utf8.h"
#include "llm/grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

constexpr int kMostDepth = 50;

std::string class_character(char32_t c) {
  if (c >= 0x20 && c < 0x7F && c != '\\' && c != ']' && c != '[' && c != '^' && c != '-' && c != '"')
    return std::string(1, static_cast<char>(c));
  if (c < 0x100) return fmt::format("\\x{:02X}", static_cast<uint32_t>(c));
  return c < 0x10000 ? fmt::format("\\u{:04X}", static_cast<uint32_t>(c))
                     : fmt::format("\\U{:08X}", static_cast<uint32_t>(c));
}

using Ranges = std::vector<CodePointRange>;

const Ranges kDigits = {{'0', '9'}}, kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpace = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                       {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                       {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Ranges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class PatternParser {
 public:
  PatternParser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  std::string parse() {
    std::string out = parse_choice(0);
    if (at_ < text_.size()) fail("unexpected \")\"");
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw_parse_error(where_, at_, "pattern \"{}\": {}", text_, what);
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(std::string_view what) {
    const bool there = text_.substr(at_).starts_with(what);
    if (there) at_ += what.size();
    return there;
  }

  std::string parse_choice(int depth) {
    std::string out;
    do {
      const bool from_start = depth > 0 || take("^");
      std::string sequence = from_start ? "" : "char*";
      bool to_end = depth > 0;
      while (at_ < text_.size() && peek() != '|' && peek() != ')') {
        if (depth == 0 && take("$")) {
          to_end = true;
          if (at_ < text_.size() && peek() != '|') fail("$ is not at the end");
          break;
        }
        sequence += (sequence.empty() ? "" : " ") + parse_item(depth);
      }
      if (!to_end) sequence += sequence.empty() ? "char*" : " char*";
      out += (out.empty() ? "" : " | ") + (sequence.empty() ? std::string("\"\"") : sequence);
    } while (take("|"));
    return out;
  }

  std::string parse_item(int depth) {
    std::string atom;
    if (take("(")) {
      if (depth >= kMostDepth) fail("groups are nested too deep");
      if (take("?") && !take(":")) fail("look-around and named groups are not supported");
      atom = "(" + parse_choice(depth + 1) + ")";
      if (!take(")")) fail("expected \")\"");
    } else {
      const Ranges ranges = parse_ranges();
      if (ranges.empty()) fail("a class that no character is in");
      atom = json_characters(ranges);
    }
    return parse_quantifier(std::move(atom));
  }

  std::string parse_quantifier(std::string atom) {
    const size_t begin = at_;
    if (!take("*") && !take("+") && !take("?") && peek() == '{') {
      const size_t end = text_.find('}', at_);
      const std::string_view body = text_.substr(at_ + 1, end == text_.npos ? 0 : end - at_ - 1);
      const size_t comma = body.find(',');
      const bool has_bounds = !body.empty() && comma != 0 &&
                              body.find_first_not_of("0123456789,") == body.npos &&
                              (comma == body.npos || body.find(',', comma + 1) == body.npos);
      if (!has_bounds) fail("expected {m}, {m,} or {m,n}");
      at_ = end + 1;
    }
    atom += text_.substr(begin, at_ - begin);
    if (at_ > begin) take("?");  // lazy or not, the same texts
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') fail("nothing to repeat");
    return atom;
  }

  // One character, class or escape.
  Ranges parse_ranges() {
    if (take(".")) return complement(kLineEnds);
    if (take("[")) return parse_class();
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') fail("nothing to repeat");
    if (peek() == '^' || peek() == '$') fail("^ and $ are supported at the ends of the pattern only");
    return parse_character();
  }

  Ranges parse_class() {
    const bool negated = take("^");
    Ranges out;
    while (!take("]")) {
      if (at_ >= text_.size()) fail("the class has no end");
      const Ranges low = parse_character();
      if (low.size() == 1 && low[0].first == low[0].second && peek() == '-' && at_ + 1 < text_.size() &&
          peek(1) != ']') {
        at_++;
        const Ranges high = parse_character();
        if (high.size() != 1 || high[0].first != high[0].second || high[0].first < low[0].first)
          fail("a range of the class ends before it begins");
        out.emplace_back(low[0].first, high[0].first);
      } else {
        out.insert(out.end(), low.begin(), low.end());
      }
    }
    return negated ? complement(std::move(out)) : normalized_ranges(std::move(out));
  }

  Ranges parse_character() {
    if (!take("\\")) {
      const Utf8Step step = decode_utf8(text_, at_);
      at_ += step.length;
      return {{step.code, step.code}};
    }
    const char c = peek();
    at_ += at_ < text_.size();
    switch (c) {
      case 'd': return kDigits;
      case 'D': return complement(kDigits);
      case 'w': return kWord;
      case 'W': return complement(kWord);
      case 's': return kSpace;
      case 'S': return complement(kSpace);
      case 'n': return {{'\n', '\n'}};
      case 'r': return {{'\r', '\r'}};
      case 't': return {{'\t', '\t'}};
      case 'f': return {{'\f', '\f'}};
      case 'v': return {{'\v', '\v'}};
      case 'x': return parse_hexadecimal(2);
      case 'u': return parse_hexadecimal(4);
      default: break;
    }
    const bool is_alphanumeric = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (c == '\0' || is_alphanumeric || static_cast<signed char>(c) < 0)
      fail(fmt::format("the escape \\{} is not supported", c));
    const auto code = static_cast<char32_t>(c);
    return {{code, code}};
  }

  Ranges parse_hexadecimal(size_t digits) {
    char32_t code = 0;
    for (size_t i = 0; i < digits; i++, at_++) {
      const int value = hex_digit(peek());
      if (value < 0) fail("expected hexadecimal digits");
      code = code * 16 + static_cast<char32_t>(value);
    }
    return {{code, code}};
  }

  std::string_view text_, where_;
  size_t at_ = 0;
};

}  // namespace

std::string gbnf_class(const std::vector<CodePointRange>& ranges) {
  std::string out = "[";
  for (const auto& [low, high] : ranges) {
    out += class_character(low);
    if (high > low) out += "-" + class_character(high);
  }
  return out + "]";
}

std::string json_characters(std::vector<CodePointRange> ranges) {
  ranges = normalized_ranges(std::move(ranges));
  const auto contains = [&](char32_t c) {
    return std::any_of(ranges.begin(), ranges.end(), [&](auto& r) { return c >= r.first && c <= r.second; });
  };
  std::vector<std::string> parts;
  // What strings may hold as it is: the part of the ranges that is not in this complement's complement.
  Ranges unlike = complement(ranges);
  unlike.insert(unlike.end(), {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  if (const Ranges plain = complement(std::move(unlike)); !plain.empty()) parts.push_back(gbnf_class(plain));
  constexpr std::pair<char32_t, char> kEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                                    {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
  for (const auto& [code, letter] : kEscapes)
    if (contains(code)) parts.push_back(gbnf_literal(std::string("\\") + letter));
  for (char32_t c = 0; c < 0x20; c++)
    if (contains(c) &&
        std::none_of(std::begin(kEscapes), std::end(kEscapes), [&](auto& e) { return e.first == c; }))
      parts.push_back(gbnf_literal(fmt::format("\\u{:04x}", static_cast<uint32_t>(c))));
  return parts.size() == 1 && parts[0][0] == '[' ? parts[0] : fmt::format("({})", fmt::join(parts, " | "));
}

std::string pattern_to_gbnf(std::string_view pattern, std::string_view where) {
  return PatternParser(pattern, where).parse();
}

}  // namespace lathe
