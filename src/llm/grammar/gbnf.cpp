// The reader of GBNF.
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

  Result<GrammarNet> parse() {
    skip_blanks(true);
    while (at_ < text_.size()) LATHE_TRY_DO(parse_rule());
    for (uint32_t r = 0; r < uses_.size(); r++)
      if (!net_.is_defined(r) && !net_.net().rules[r].name.empty())
        return error(uses_[r], "there is no rule \"{}\"", net_.net().rules[r].name);
    const uint32_t root = rule_named("root", text_.size());
    if (!net_.is_defined(root)) return error(text_.size(), "there is no rule \"root\"");
    if (net_.is_full()) return too_large(text_.size());
    if (const auto circle = net_.finish())
      return error(uses_[net_.rule(*circle)], "rule \"{}\" calls itself before it takes anything", *circle);
    return net_.take(root);
  }

 private:
  template <class... T>
  ParseError error(size_t at, fmt::format_string<T...> format, T&&... args) const {
    return {fmt::format(format, std::forward<T>(args)...), at, std::string(where_)};
  }
  ParseError too_large(size_t at) const {
    return error(at, "the grammar needs more than {} nodes", NetBuilder::kMostNodes);
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

  Result<void> parse_rule() {
    const size_t begin = at_;
    const std::string rule_name = name();
    if (rule_name.empty()) return error(at_, "expected the name of a rule");
    skip_blanks(false);
    if (!take("::=")) return error(at_, "expected ::= behind \"{}\"", rule_name);
    const uint32_t rule = rule_named(rule_name, begin);
    if (net_.is_defined(rule)) return error(begin, "rule \"{}\" is defined twice", rule_name);
    skip_blanks(true);
    LATHE_TRY(body, parse_choice(0));
    net_.define(rule, body);
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      return error(at_, "expected the end of a line behind rule \"{}\"", rule_name);
    skip_blanks(true);
    return {};
  }

  // In a group (depth > 0) lines may end anywhere, else before and behind |.
  Result<Fragment> parse_choice(int depth) {
    std::vector<Fragment> options;
    for (;;) {
      LATHE_TRY(option, parse_sequence(depth));
      options.push_back(option);
      const size_t before = at_;
      skip_blanks(true);
      if (!take("|")) {
        at_ = before;
        return net_.choice(options);
      }
      skip_blanks(true);
    }
  }

  Result<Fragment> parse_sequence(int depth) {
    Fragment out = net_.empty();
    for (skip_blanks(depth > 0);
         at_ < text_.size() && peek() != '|' && peek() != ')' && peek() != '\n' && peek() != '\r';
         skip_blanks(depth > 0)) {
      const size_t begin = at_;
      LATHE_TRY(item, parse_item(depth));
      LATHE_TRY(repeated, parse_repetition(item));
      out = net_.sequence(out, repeated);
      if (net_.is_full()) return too_large(begin);
    }
    return out;
  }

  Result<Fragment> parse_item(int depth) {
    const size_t begin = at_;
    if (take("\"")) return parse_text();
    if (take("[")) return parse_class();
    if (take(".")) return net_.code_points({{0, 0x10FFFF}});
    if (take("(")) {
      if (depth >= kMostDepth) return error(begin, "groups are more than {} deep", kMostDepth);
      LATHE_TRY(group, parse_choice(depth + 1));
      skip_blanks(true);
      if (!take(")")) return error(at_, "expected ) for the group at offset {}", begin);
      return group;
    }
    if (is_name(peek())) return net_.call(rule_named(name(), begin));
    return error(begin, "expected \"text\", [class], ., a name or a group");
  }

  Result<Fragment> parse_text() {
    std::string bytes;
    const size_t begin = at_ - 1;
    while (!take("\"")) {
      if (at_ >= text_.size() || peek() == '\n') return error(begin, "the text has no end");
      LATHE_TRY(code, parse_character());
      append_utf8(bytes, code);
    }
    return net_.bytes(bytes);
  }

  Result<Fragment> parse_class() {
    const size_t begin = at_ - 1;
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    while (!take("]")) {
      if (at_ >= text_.size() || peek() == '\n') return error(begin, "the class has no end");
      LATHE_TRY(low, parse_character());
      char32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        at_++;
        LATHE_TRY(last, parse_character());
        high = last;
        if (high < low) return error(begin, "a range of the class ends before it begins");
      }
      ranges.emplace_back(low, high);
    }
    return net_.code_points(negated ? complement(std::move(ranges)) : std::move(ranges));
  }

  Result<char32_t> parse_character() {
    const size_t begin = at_;
    if (!take("\\")) {
      const Utf8Step step = decode_utf8(text_, at_);
      if (step.state != Utf8Step::State::Complete) return error(at_, "this is not UTF-8");
      at_ += step.length;
      return char32_t{step.code};
    }
    const char c = peek();
    at_ += at_ < text_.size();
    for (const auto& [letter, code] : {std::pair('n', U'\n'),
                                       {'r', U'\r'},
                                       {'t', U'\t'},
                                       {'\\', U'\\'},
                                       {'"', U'"'},
                                       {'[', U'['},
                                       {']', U']'},
                                       {'-', U'-'},
                                       {'^', U'^'}})
      if (c == letter) return char32_t{code};
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint64_t code = 0;
    for (int i = 0; i < digits; i++) {
      const char d = peek();
      const int value = d >= '0' && d <= '9'   ? d - '0'
                        : d >= 'a' && d <= 'f' ? d - 'a' + 10
                        : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                               : -1;
      if (value < 0) return error(begin, "expected {} hexadecimal digits behind \\{}", digits, c);
      code = code * 16 + static_cast<uint64_t>(value);
      at_++;
    }
    if (digits == 0) return error(begin, "\"\\{}\" is no escape", c);
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      return error(begin, "U+{:X} is no character", code);
    return static_cast<char32_t>(code);
  }

  Result<uint32_t> parse_times() {
    uint32_t out = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; at_++)
      if ((out = out * 10 + static_cast<uint32_t>(peek() - '0')) > kMostTimes)
        return error(begin, "more than {} times", kMostTimes);
    if (at_ == begin) return error(at_, "expected a number of times");
    return uint32_t{out};
  }

  Result<Fragment> parse_repetition(Fragment item) {
    uint32_t least = 1, most = 1;
    const size_t begin = at_;
    if (take("*")) {
      least = 0, most = NetBuilder::kUnbounded;
    } else if (take("+")) {
      most = NetBuilder::kUnbounded;
    } else if (take("?")) {
      least = 0;
    } else if (take("{")) {
      LATHE_TRY(first, parse_times());
      least = most = first;
      if (take(",")) {
        most = NetBuilder::kUnbounded;
        if (peek() != '}') {
          LATHE_TRY(last, parse_times());
          most = last;
        }
      }
      if (!take("}")) return error(at_, "expected }} for the {{ at offset {}", begin);
      if (most < least) return error(begin, "at least {} and at most {} times", least, most);
    }
    const Fragment out = net_.repeat(item, least, most);
    if (net_.is_full()) return too_large(begin);
    return Fragment{out};
  }

  std::string_view text_, where_;
  size_t at_ = 0;
  NetBuilder net_;
  std::vector<size_t> uses_;  // where a rule is first named
};

}  // namespace

Result<GrammarNet> parse_gbnf(std::string_view text, std::string_view where) {
  return GbnfParser(text, where).parse();
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
