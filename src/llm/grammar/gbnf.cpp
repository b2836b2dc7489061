// The reader of GBNF.
#include "archive/parsing.h"
#include "formats/utf8.h"
#include "llm/grammar/net_builder.h"

#include <fmt/format.h>

namespace lathe {
namespace {

constexpr int kMostDepth = 100;
constexpr uint32_t kMostTimes = 1 << 17;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  using Fragment = NetBuilder::Fragment;
  GbnfParser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  GrammarNet parse() {
    skip_blanks(true);
    while (at_ < text_.size()) parse_rule();
    for (uint32_t r = 0; r < uses_.size(); r++)
      if (!net_.is_defined(r) && !net_.net().rules[r].name.empty())
        fail(uses_[r], "there is no rule \"{}\"", net_.net().rules[r].name);
    const uint32_t root = rule_named("root", text_.size());
    if (!net_.is_defined(root)) fail(text_.size(), "there is no rule \"root\"");
    check_size(text_.size());
    if (const auto circle = net_.finish())
      fail(uses_[net_.rule(*circle)], "rule \"{}\" calls itself before it takes anything", *circle);
    return net_.take(root);
  }

 private:
  template <class... T>
  [[noreturn]] void fail(size_t at, fmt::format_string<T...> format, T&&... args) const {
    throw_parse_error(where_, at, format, std::forward<T>(args)...);
  }
  void check_size(size_t at) const {
    if (net_.is_full()) fail(at, "the grammar needs more than {} nodes", NetBuilder::kMostNodes);
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    const bool there = text_.substr(at_).starts_with(what);
    if (there) at_ += what.size();
    return there;
  }
  void skip_blanks(bool lines) {
    for (; at_ < text_.size(); at_++)
      if (text_[at_] == '#') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') at_++;
      } else if (text_[at_] != ' ' && text_[at_] != '\t' &&
                 !(lines && (text_[at_] == '\n' || text_[at_] == '\r'))) {
        return;
      }
  }
  std::string name() {
    const size_t begin = at_;
    while (is_name(peek())) at_++;
    return std::string(text_.substr(begin, at_ - begin));
  }
  uint32_t rule_named(const std::string& name, size_t at) {
    const uint32_t rule = net_.rule(name);
    if (uses_.size() <= rule) uses_.resize(rule + 1, at);
    return rule;
  }

  void parse_rule() {
    const size_t begin = at_;
    const std::string rule_name = name();
    if (rule_name.empty()) fail(at_, "expected the name of a rule");
    skip_blanks(false);
    if (!take("::=")) fail(at_, "expected ::= behind \"{}\"", rule_name);
    const uint32_t rule = rule_named(rule_name, begin);
    if (net_.is_defined(rule)) fail(begin, "rule \"{}\" is defined twice", rule_name);
    skip_blanks(true);
    net_.define(rule, parse_choice(0));
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      fail(at_, "expected the end of a line behind rule \"{}\"", rule_name);
    skip_blanks(true);
  }

  // In a group (depth > 0) lines may end anywhere, else before and behind |.
  Fragment parse_choice(int depth) {
    std::vector<Fragment> options;
    for (;;) {
      options.push_back(parse_sequence(depth));
      const size_t before = at_;
      skip_blanks(true);
      if (!take("|")) {
        at_ = before;
        return net_.choice(options);
      }
      skip_blanks(true);
    }
  }

  Fragment parse_sequence(int depth) {
    Fragment out = net_.empty();
    for (skip_blanks(depth > 0);
         at_ < text_.size() && peek() != '|' && peek() != ')' && peek() != '\n' && peek() != '\r';
         skip_blanks(depth > 0)) {
      const size_t begin = at_;
      out = net_.sequence(out, parse_repetition(parse_item(depth)));
      check_size(begin);
    }
    return out;
  }

  Fragment parse_item(int depth) {
    const size_t begin = at_;
    if (take("\"")) return parse_text();
    if (take("[")) return parse_class();
    if (take(".")) return net_.code_points({{0, 0x10FFFF}});
    if (take("(")) {
      if (depth >= kMostDepth) fail(begin, "groups are more than {} deep", kMostDepth);
      const Fragment group = parse_choice(depth + 1);
      skip_blanks(true);
      if (!take(")")) fail(at_, "expected ) for the group at offset {}", begin);
      return group;
    }
    if (is_name(peek())) return net_.call(rule_named(name(), begin));
    fail(begin, "expected \"text\", [class], ., a name or a group");
  }

  Fragment parse_text() {
    std::string bytes;
    const size_t begin = at_ - 1;
    while (!take("\"")) {
      if (at_ >= text_.size() || peek() == '\n') fail(begin, "the text has no end");
      append_utf8(bytes, parse_character());
    }
    return net_.bytes(bytes);
  }

  Fragment parse_class() {
    const size_t begin = at_ - 1;
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    while (!take("]")) {
      if (at_ >= text_.size() || peek() == '\n') fail(begin, "the class has no end");
      const char32_t low = parse_character();
      char32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        at_++;
        high = parse_character();
        if (high < low) fail(begin, "a range of the class ends before it begins");
      }
      ranges.emplace_back(low, high);
    }
    return net_.code_points(negated ? complement(std::move(ranges)) : std::move(ranges));
  }

  char32_t parse_character() {
    const size_t begin = at_;
    if (!take("\\")) {
      const Utf8Step step = decode_utf8(text_, at_);
      if (step.state != Utf8Step::State::Complete) fail(at_, "this is not UTF-8");
      at_ += step.length;
      return step.code;
    }
    const char c = peek();
    at_ += at_ < text_.size();
    constexpr std::string_view kLetters = "nrt\\\"[]-^", kMeant = "\n\r\t\\\"[]-^";
    if (const size_t i = kLetters.find(c); i != kLetters.npos) return static_cast<char32_t>(kMeant[i]);
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint64_t code = 0;
    for (int i = 0; i < digits; i++) {
      const int value = hex_digit(peek());
      if (value < 0) fail(begin, "expected {} hexadecimal digits behind \\{}", digits, c);
      code = code * 16 + static_cast<uint64_t>(value);
      at_++;
    }
    if (digits == 0) fail(begin, "\"\\{}\" is no escape", c);
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail(begin, "U+{:X} is no character", code);
    return static_cast<char32_t>(code);
  }

  uint32_t parse_times() {
    uint32_t out = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; at_++)
      if ((out = out * 10 + static_cast<uint32_t>(peek() - '0')) > kMostTimes)
        fail(begin, "more than {} times", kMostTimes);
    if (at_ == begin) fail(at_, "expected a number of times");
    return out;
  }

  Fragment parse_repetition(Fragment item) {
    uint32_t least = 1, most = 1;
    const size_t begin = at_;
    if (take("*")) {
      least = 0, most = NetBuilder::kUnbounded;
    } else if (take("+")) {
      most = NetBuilder::kUnbounded;
    } else if (take("?")) {
      least = 0;
    } else if (take("{")) {
      least = most = parse_times();
      if (take(",")) most = peek() == '}' ? NetBuilder::kUnbounded : parse_times();
      if (!take("}")) fail(at_, "expected }} for the {{ at offset {}", begin);
      if (most < least) fail(begin, "at least {} and at most {} times", least, most);
    }
    const Fragment out = net_.repeat(item, least, most);
    check_size(begin);
    return out;
  }

  std::string_view text_, where_;
  size_t at_ = 0;
  NetBuilder net_;
  std::vector<size_t> uses_;  // where a rule is first named
};

}  // namespace

Result<GrammarNet> parse_gbnf(std::string_view text, std::string_view where) {
  return parsed([&] { return GbnfParser(text, where).parse(); });
}

std::string gbnf_literal(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = decode_utf8(text, i);
    if (step.code == '"' || step.code == '\\')
      out += fmt::format("\\{}", text[i]);
    else if (step.code < 0x20)
      out += fmt::format("\\x{:02X}", static_cast<unsigned>(step.code));
    else
      append_utf8(out, step.code);
    i += step.length;
  }
  return out + "\"";
}

}  // namespace lathe
