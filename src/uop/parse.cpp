#include "uop/parse.h"

#include "uop/literal.h"
#include "uop/parse_arg.h"
#include "uop/spec.h"

#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

constexpr size_t kMaxText = size_t{1} << 30;
constexpr size_t kMaxSources = 65535;
constexpr size_t kMaxRank = 64;
constexpr int kMaxNesting = 16;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : text_(text) {}

  Result<std::vector<UOp>> run() {
    if (text_.size() > kMaxText) return fail(0, "the text is longer than 1 GiB");
    while (true) {
      skip_blank_lines();
      if (at_ == text_.size()) return std::move(lines_);
      LATHE_TRY_DO(line());
    }
  }

 private:
  ParseError fail(size_t offset, std::string text) const { return {std::move(text), offset, "graph text"}; }
  // An error of a part that counts from `offset`.
  ParseError shifted(ParseError e, size_t offset) const { return fail(offset + e.offset, std::move(e.text)); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) at_++;
    if (peek() == '#')
      while (at_ < text_.size() && text_[at_] != '\n') at_++;
  }
  void skip_blank_lines() {
    for (skip_blanks(); at_ < text_.size() && text_[at_] == '\n'; skip_blanks()) at_++;
  }

  Result<uint32_t> number() {
    const size_t start = at_;
    if (peek() != '%')
      return fail(at_, fmt::format("expected %number, got '{}'", excerpt(text_.substr(at_))));
    uint64_t n = 0;
    for (at_++; is_digit(peek()); at_++) {
      n = n * 10 + static_cast<uint64_t>(text_[at_] - '0');
      if (n >= UINT32_MAX) return fail(start, "a node number above 32 bits");
    }
    if (at_ == start + 1) return fail(start, "% without a number");
    return static_cast<uint32_t>(n);
  }

  Result<void> line() {
    const size_t start = at_;
    LATHE_TRY(id, number());
    skip_blanks();
    if (peek() != '=') return fail(at_, fmt::format("expected = after %{}", id));
    at_++;
    skip_blanks();
    const std::optional<Op> op = parse_op(leading_word(text_.substr(at_, 64)));
    LATHE_TRY(made, op ? operation(*op) : operand());
    skip_blanks();
    if (peek() != '\n')
      return fail(at_,
                  fmt::format("unexpected '{}'", excerpt(text_.substr(at_, text_.find('\n', at_) - at_))));
    if (!nodes_.emplace(id, made).second) return fail(start, fmt::format("%{} is defined twice", id));
    lines_.push_back(std::move(made));
    return {};
  }

  Result<UOp> operation(Op op) {
    const size_t start = at_;
    at_ += op_name(op).size();
    skip_blanks();
    const std::string_view word = leading_word(text_.substr(at_, 64));
    const std::optional<DType> stated = parse_dtype(word);
    const DType dtype = stated.value_or(DType::Void);
    if (stated) at_ += word.size();
    skip_blanks();
    std::vector<UOp> srcs;
    while (peek() != '\n' && peek() != '{') {
      LATHE_TRY(source, operand());
      if (srcs.size() == kMaxSources) return fail(at_, fmt::format("more than {} sources", kMaxSources));
      srcs.push_back(source);
      skip_blanks();
    }
    Arg arg;
    if (peek() == '{') {
      const size_t begin = at_;
      auto parsed = parse_arg(text_.substr(at_), op, dtype, labels_);
      if (!parsed.ok()) return shifted(std::move(parsed.error()), begin);
      arg = std::move(parsed.value().arg);
      at_ += parsed.value().size;
    }
    return make(start, op, dtype, srcs, std::move(arg));
  }

  // Checks what UOp::make takes for granted.
  Result<UOp> make(size_t offset, Op op, DType dtype, std::span<const UOp> srcs, Arg arg) {
    const auto least = static_cast<size_t>(min_sources(op));
    if (srcs.size() < least || (info(op).arity >= 0 && srcs.size() != least))
      return fail(offset, fmt::format("{} takes {}{} sources, got {}", op,
                                      info(op).arity < 0 ? "at least " : "", least, srcs.size()));
    const ArgKind kind = info(op).arg;
    if (kind != ArgKind::None && kind_of(arg) != kind && !has_flag(op, kOptionalArg))
      return fail(offset, fmt::format("{} needs its arguments in braces", op));
    if ((op == Op::Cast || op == Op::Bitcast || op == Op::Const) && dtype == DType::Void)
      return fail(offset, fmt::format("{} needs a dtype", op));
    const bool stores = op == Op::Buffer || op == Op::Param;
    if (stores || op == Op::Reshape || op == Op::Expand || op == Op::Pad || op == Op::Shrink)
      for (const UOp& shape : srcs.subspan(stores ? 0 : 1)) LATHE_TRY_DO(check_shape(offset, op, shape));
    if (op == Op::Permute) LATHE_TRY_DO(check_permutation(offset, std::get<AxesArg>(arg)));
    try {
      UOp made = UOp::make(op, dtype, srcs, std::move(arg));
      if (made.has_shape() && made.shape().size() > kMaxRank)
        return fail(offset, fmt::format("{} has more than {} axes", op, kMaxRank));
      return made;
    } catch (const Error& e) {
      return fail(offset, e.what());
    }
  }

  // Symbolic sizes are simplified as soon as they are part of a shape, and the simplifier wants legal graphs.
  Result<void> check_shape(size_t offset, Op op, const UOp& shape) {
    if (shape.op() != Op::Stack || shape.n_srcs() > kMaxRank)
      return fail(offset, fmt::format("a shape of {} is not a Stack of at most {} sizes", op, kMaxRank));
    std::vector<UOp> todo(shape.srcs().begin(), shape.srcs().end());
    for (const UOp& size : todo)
      if (!is_int(size.dtype()) || !size.has_shape() || !size.shape().empty())
        return fail(offset, fmt::format("a size of {} is no integer", op));
    while (!todo.empty()) {
      const UOp u = std::move(todo.back());
      todo.pop_back();
      if (!legal_.insert(u.node()).second) continue;
      if (const std::string_view rule = broken_rule(u, SpecLevel::Tensor); !rule.empty())
        return fail(offset, fmt::format("a size of {} uses {}: {}", op, u.op(), rule));
      todo.insert(todo.end(), u.srcs().begin(), u.srcs().end());
    }
    return {};
  }

  Result<void> check_permutation(size_t offset, const AxesArg& axes) const {
    uint32_t seen = 0;
    for (const int8_t axis : axes.span()) {
      if (axis < 0 || axis >= axes.n || (seen >> axis & 1))
        return fail(offset, "the axes of a Permute are no permutation");
      seen |= 1u << axis;
    }
    return {};
  }

  // %N, a literal, or [operands…].
  Result<UOp> operand() {
    std::vector<std::vector<UOp>> open;  // Stacks whose bracket is not closed yet
    while (true) {
      skip_blanks();
      const size_t start = at_;
      UOp value;
      if (peek() == '[') {
        if (open.size() == kMaxNesting) return fail(at_, fmt::format("brackets deeper than {}", kMaxNesting));
        at_++;
        open.emplace_back();
        continue;
      }
      if (peek() == ']' && !open.empty()) {
        at_++;
        LATHE_TRY(made, make(start, Op::Stack, DType::Void, open.back(), {}));
        open.pop_back();
        value = made;
      } else if (peek() == '%') {
        LATHE_TRY(id, number());
        const auto it = nodes_.find(id);
        if (it == nodes_.end()) return fail(start, fmt::format("%{} is not defined above", id));
        value = it->second;
      } else {
        LATHE_TRY(made, literal());
        value = made;
      }
      if (open.empty()) return value;
      if (open.back().size() == kMaxSources)
        return fail(start, fmt::format("more than {} sources", kMaxSources));
      open.back().push_back(std::move(value));
    }
  }

  Result<UOp> literal() {
    const size_t start = at_;
    auto scanned = scan_literal(text_.substr(at_));
    if (!scanned.ok())
      return fail(start, fmt::format("expected an operand, got '{}': {}", excerpt(text_.substr(at_)),
                                     scanned.error().text));
    const Scalar v = scanned.value().value;
    at_ += scanned.value().size;
    if (peek() != ':') return constant(v);
    const std::string_view word = leading_word(text_.substr(at_ + 1, 64));
    const auto d = parse_dtype(word);
    if (!d || *d == DType::Void)
      return fail(at_ + 1, fmt::format("'{}' is no dtype of a value", excerpt(word)));
    if (v.is_invalid()) return fail(at_, "Invalid has no dtype");
    at_ += 1 + word.size();
    return constant(*d, v);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::unordered_map<uint32_t, UOp> nodes_;
  std::vector<UOp> lines_;
  BufferLabels labels_;
  std::unordered_set<const Node*> legal_;  // of nodes that lines_ keeps alive
};

}  // namespace

Result<std::vector<UOp>> parse_list(std::string_view text) { return GraphParser(text).run(); }

Result<UOp> parse(std::string_view text) {
  LATHE_TRY(lines, parse_list(text));
  if (lines.empty()) return ParseError{"no node", 0, "graph text"};
  return std::move(lines.back());
}

}  // namespace lathe
