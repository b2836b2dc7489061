#include "uop/literal.h"

#include <limits>

#include "support/parse_expression.h"

namespace lathe {
namespace {

constexpr size_t kMaxNames = 1024;
constexpr size_t kMaxName = 128;

// A variable that may hold any value of its dtype.
UOp unbounded_variable(const std::string& name, DType dtype) {
  ParamArg arg{-1, dtype, AddrSpace::Alu, name, "", {}, 1, nullptr};
  return UOp::make(Op::Param, {shape_node({})}, std::make_shared<const ParamArg>(std::move(arg)));
}

class NamesParser {
 public:
  explicit NamesParser(std::string_view text) : text_(text) {}

  Result<Names> run() {
    while (true) {
      while (peek() == ' ' || peek() == '\t') at_++;
      if (at_ == text_.size()) return std::move(names_);
      if (names_.size() == kMaxNames) return fail(at_, fmt::format("more than {} names", kMaxNames));
      LATHE_TRY_DO(declaration());
    }
  }

 private:
  ParseError fail(size_t offset, std::string text) const { return {std::move(text), offset, "variables"}; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(char c) {
    if (peek() != c) return false;
    at_++;
    return true;
  }

  Result<int64_t> integer() {
    const size_t start = at_;
    auto scanned = scan_literal(text_.substr(at_));
    if (!scanned.ok()) return fail(start, std::move(scanned.error().text));
    const Scalar v = scanned.value().value;
    at_ += scanned.value().size;
    if (!v.is_int() || v.as_int() < INT64_MIN || v.as_int() > INT64_MAX)
      return fail(start, "expected a 64-bit integer");
    return static_cast<int64_t>(v.as_int());
  }

  // The dtype behind a colon, `otherwise` without one.
  Result<DType> type(DType otherwise) {
    if (!accept(':')) return otherwise;
    const std::string_view word = leading_word(text_.substr(at_));
    const auto d = parse_short_dtype(word);
    if (!d) return fail(at_, fmt::format("'{}' is no dtype", excerpt(word)));
    at_ += word.size();
    return *d;
  }

  Result<void> declaration() {
    const size_t start = at_;
    const std::string name(leading_word(text_.substr(at_)));
    if (name.empty() || !is_word_start(name[0]) || name.size() > kMaxName)
      return fail(start, fmt::format("'{}' is no name", excerpt(text_.substr(at_))));
    for (const auto& [known, value] : names_)
      if (known == name) return fail(start, fmt::format("{} is declared twice", name));
    at_ += name.size();
    try {
      LATHE_TRY(made, value(name));
      if (peek() != '\0' && peek() != ' ' && peek() != '\t')
        return fail(at_, fmt::format("unexpected '{}'", excerpt(text_.substr(at_))));
      names_.emplace_back(name, made);
    } catch (const Error& e) {
      return fail(start, e.what());
    }
    return {};
  }

  Result<UOp> value(const std::string& name) {
    const size_t start = at_;
    if (peek() == ':') {
      LATHE_TRY(d, type(DType::WeakInt));
      return unbounded_variable(name, d);
    }
    if (accept('[')) {
      LATHE_TRY(lo, integer());
      if (!accept(',')) return fail(at_, "expected ,");
      LATHE_TRY(hi, integer());
      if (!accept(']')) return fail(at_, "expected ]");
      int64_t multiple = 1;
      if (accept('%')) {
        LATHE_TRY(m, integer());
        if (m < 1) return fail(start, "a multiple of less than 1");
        multiple = m;
      }
      LATHE_TRY(d, type(DType::WeakInt));
      return variable(name, lo, hi, d, multiple);
    }
    const std::string_view rest = text_.substr(at_);
    const bool is_range = rest.starts_with("=range("), is_param = rest.starts_with("=param(");
    if (!is_range && !is_param)
      return fail(start, fmt::format("'{}' needs [low,high], :dtype, =range(end) or =param(size)", name));
    at_ += 7;
    if (is_param) {
      LATHE_TRY(size, integer());
      if (!accept(')')) return fail(at_, "expected )");
      LATHE_TRY(d, type(DType::Float32));
      return param(next_slot_++, {SInt(size)}, d);
    }
    const size_t begin = at_;
    int depth = 1;
    for (; at_ < text_.size() && depth > 0; at_++) depth += (peek() == '(') - (peek() == ')');
    if (depth > 0) return fail(begin, "expected )");
    auto end = parse_expression(text_.substr(begin, at_ - 1 - begin), names_);
    if (!end.ok()) return fail(begin + end.error().offset, std::move(end.error().text));
    if (!is_int(end.value().dtype())) return fail(begin, "the end of a range is an integer");
    return range(end.value(), range_id(name), AxisType::Loop);
  }

  // The digits at the end of the name, else the number of names so far.
  int range_id(const std::string& name) const {
    size_t digits = name.size();
    while (digits > 0 && is_digit(name[digits - 1]) && name.size() - digits < 6) digits--;
    int id = 0;
    for (size_t i = digits; i < name.size(); i++) id = id * 10 + (name[i] - '0');
    return digits == name.size() ? static_cast<int>(names_.size()) : id;
  }

  std::string_view text_;
  size_t at_ = 0;
  int next_slot_ = 0;
  Names names_;
};

}  // namespace

Result<Names> parse_names(std::string_view text) { return NamesParser(text).run(); }

}  // namespace lathe
