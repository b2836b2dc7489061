#include "archive/parsing.h"
#include "formats/utf8.h"
#include "llm/jinja/node.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe::jinja {
namespace {

constexpr auto kNone = std::string_view::npos;
constexpr std::string_view kBlanks = " \t\n\r\f\v";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) {
  return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view s) : s_(s) {}

  std::vector<Token> run() {
    while (at_ < s_.size()) outside();
    add(TokenKind::End, "", s_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(size_t offset, const std::string& text) {
    throw_parse_error("", offset, "line {}: {}", line_of(offset), text);
  }

  // Offsets are asked for in rising order, but for errors.
  int line_of(size_t offset) {
    if (offset < counted_) counted_ = 0, line_ = 1;
    line_ += static_cast<int>(std::count(s_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                         s_.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
    counted_ = offset;
    return line_;
  }

  void add(TokenKind kind, std::string text, size_t offset) {
    tokens_.push_back({kind, std::move(text), offset, line_of(offset)});
  }
  bool starts(std::string_view prefix) const { return s_.substr(at_).starts_with(prefix); }
  void skip_blanks() { at_ = std::min(s_.find_first_not_of(kBlanks, at_), s_.size()); }

  // Text up to the next tag, and the tag's opening.
  void outside() {
    const size_t begin = at_;
    size_t tag = begin;
    while (tag = s_.find('{', tag),
           tag != kNone && (tag + 1 == s_.size() || kTags.find(s_[tag + 1]) == kNone))
      tag++;
    std::string_view text = s_.substr(begin, tag == kNone ? kNone : tag - begin);
    if (tag == kNone) {
      at_ = s_.size();
      if (!text.empty()) add(TokenKind::Data, std::string(text), begin);
      return;
    }
    const char type = s_[tag + 1];
    at_ = tag + 2;
    const char sign = at_ < s_.size() ? s_[at_] : ' ';
    if (sign == '-' || sign == '+') at_++;
    if (sign == '-') {
      const size_t last = text.find_last_not_of(kBlanks);
      text = text.substr(0, last == kNone ? 0 : last + 1);
    } else if (sign != '+' && type != '{') {  // lstrip_blocks
      const size_t last = text.find_last_not_of(" \t\f\v");
      if (last == kNone ? at_line_start_ : text[last] == '\n')
        text = text.substr(0, last == kNone ? 0 : last + 1);
    }
    if (!text.empty()) add(TokenKind::Data, std::string(text), begin);
    at_line_start_ = false;
    if (type == '#') {
      at_ = s_.find("#}", at_);
      if (at_ == kNone) fail(tag, "a comment that does not end");
      const char before = s_[at_ - 1];
      at_ += 2;
      end_tag(before, true);
    } else if (type == '%') {
      if (!raw(tag)) add(TokenKind::BlockBegin, "{%", tag), inside("%}", TokenKind::BlockEnd);
    } else {
      add(TokenKind::PrintBegin, "{{", tag);
      inside("}}", TokenKind::PrintEnd);
    }
  }

  // Behind a tag's end: `-` takes all blanks, trim_blocks a line end.
  void end_tag(char sign, bool trim) {
    const size_t before = at_;
    if (sign == '-')
      skip_blanks();
    else if (trim && sign != '+' && starts("\n"))
      at_++;
    at_line_start_ = at_ > before && s_[at_ - 1] == '\n';
  }

  // `word` as all there is in the tag that is open: its end is passed.
  bool lone_word(std::string_view word) {
    skip_blanks();
    if (!starts(word)) return false;
    at_ += word.size();
    skip_blanks();
    const char sign = starts("-") || starts("+") ? s_[at_++] : ' ';
    if (!starts("%}")) return false;
    at_ += 2;
    end_tag(sign, word == "endraw");
    return true;
  }

  bool raw(size_t tag) {
    const size_t begin = at_;
    if (!lone_word("raw")) {
      at_ = begin;
      return false;
    }
    const size_t text = at_;
    for (size_t end = text; (end = s_.find("{%", end)) != kNone; end += 2) {
      at_ = end + 2;
      const bool strip = starts("-");
      if (strip || starts("+")) at_++;
      if (!lone_word("endraw")) continue;
      std::string_view inner = s_.substr(text, end - text);
      if (strip) inner = inner.substr(0, inner.find_last_not_of(kBlanks) + 1);
      add(TokenKind::Data, std::string(inner), text);
      return true;
    }
    fail(tag, "raw without endraw");
  }

  void inside(std::string_view end, TokenKind end_kind) {
    const size_t opened = at_;
    for (int depth = 0;;) {
      skip_blanks();
      if (at_ == s_.size()) fail(opened, fmt::format("a tag that does not end in {}", end));
      if (depth == 0) {  // }} may also close two dictionaries
        const char sign = s_[at_] == '-' || (s_[at_] == '+' && end == "%}") ? s_[at_] : ' ';
        if (s_.substr(at_ + (sign != ' ')).starts_with(end)) {
          add(end_kind, std::string(end), at_);
          at_ += end.size() + (sign != ' ');
          end_tag(sign, end == "%}");
          return;
        }
      }
      token(depth);
    }
  }

  void token(int& depth) {
    const size_t begin = at_;
    const char c = s_[at_];
    if (c == '"' || c == '\'') {
      add(TokenKind::String, string(c), begin);
    } else if (is_digit(c)) {
      number();
    } else if (is_name(c)) {
      while (at_ < s_.size() && is_name(s_[at_])) at_++;
      add(TokenKind::Name, std::string(s_.substr(begin, at_ - begin)), begin);
    } else {
      size_t size = 1;
      for (std::string_view pair : {"**", "//", "==", "!=", ">=", "<="})
        if (starts(pair)) size = 2;
      if (size == 1 && std::string_view("+-/*%~[](){}<>=.:|,").find(c) == kNone)
        fail(begin, fmt::format("unexpected character '{}'", c));
      depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
      at_ += size;
      add(TokenKind::Operator, std::string(s_.substr(begin, size)), begin);
    }
  }

  void number() {
    const size_t begin = at_;
    const auto digits = [&] {
      while (at_ < s_.size() && (is_digit(s_[at_]) || s_[at_] == '_')) at_++;
    };
    const auto digit_at = [&](size_t i) { return i < s_.size() && is_digit(s_[i]); };
    bool real = false;
    digits();
    // x.0.1 are two subscripts
    if (starts(".") && digit_at(at_ + 1) && (begin == 0 || s_[begin - 1] != '.'))
      real = true, at_++, digits();
    if (starts("e") || starts("E")) {
      const size_t sign = at_ + 1 < s_.size() && (s_[at_ + 1] == '+' || s_[at_ + 1] == '-');
      if (digit_at(at_ + 1 + sign)) real = true, at_ += 1 + sign, digits();
    }
    std::string text(s_.substr(begin, at_ - begin));
    std::erase(text, '_');
    add(real ? TokenKind::Float : TokenKind::Integer, std::move(text), begin);
  }

  std::string string(char quote) {
    const size_t begin = at_++;
    std::string out;
    for (; at_ < s_.size() && s_[at_] != quote; at_++) {
      if (s_[at_] != '\\') {
        out += s_[at_];
        continue;
      }
      if (++at_ == s_.size()) break;
      escape(out);
    }
    if (at_ == s_.size()) fail(begin, "a string that does not end");
    at_++;
    return out;
  }

  // Python's escapes; an unknown one stays as it is.
  void escape(std::string& out) {
    const char c = s_[at_];
    const size_t simple = std::string_view("ntrbfav0").find(c);
    if (simple != kNone) {
      out += "\n\t\r\b\f\a\v\0"[simple];
    } else if (c == '\\' || c == '\'' || c == '"') {
      out += c;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      char32_t value = 0;
      for (size_t i = 1; i <= size; i++) {
        const int digit = at_ + i < s_.size() ? hex_digit(s_[at_ + i]) : -1;
        if (digit < 0) fail(at_ - 1, fmt::format("\\{} wants {} hexadecimal digits", c, size));
        value = value << 4 | static_cast<char32_t>(digit);
      }
      append_utf8(out, value);
      at_ += size;
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }

  static constexpr std::string_view kTags = "{%#";
  std::string_view s_;
  size_t at_ = 0, counted_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // for lstrip_blocks: nothing but blanks since the last line end
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace lathe::jinja
