#include "support/parse_expression.h"

#include "uop/literal.h"

#include <algorithm>

namespace lathe {
namespace {

constexpr size_t kMaxText = 1 << 20;
constexpr int kMaxDepth = 200;
constexpr size_t kMaxArgs = 64;
constexpr int128 kLargest = static_cast<int128>(1) << 126;  // the exact range of weakint arithmetic

struct Infix {
  std::string_view text;
  int precedence;
  Op op;  // Noop: made by a builder below
};
// Longer texts before their prefixes.
constexpr Infix kInfix[] = {
    {"<<", 8, Op::Shl},     {">>", 8, Op::Shr},   {"<=", 7, Op::Noop},      {">=", 7, Op::Noop},
    {"==", 6, Op::Noop},    {"!=", 6, Op::CmpNe}, {"//", 10, Op::FloorDiv}, {"cdiv", 10, Op::CDiv},
    {"cmod", 10, Op::CMod}, {"*", 10, Op::Mul},   {"%", 10, Op::FloorMod},  {"/", 10, Op::Noop},
    {"+", 9, Op::Add},      {"-", 9, Op::Noop},   {"<", 7, Op::CmpLt},      {">", 7, Op::Noop},
    {"&", 5, Op::And},      {"^", 4, Op::Xor},    {"|", 3, Op::Or},
};

struct Function {
  std::string_view name;
  Op op;
};
constexpr Function kFunctions[] = {
    {"max", Op::Max},           {"pow", Op::Pow},     {"cdiv", Op::CDiv},   {"cmod", Op::CMod},
    {"threefry", Op::Threefry}, {"exp2", Op::Exp2},   {"log2", Op::Log2},   {"sin", Op::Sin},
    {"sqrt", Op::Sqrt},         {"trunc", Op::Trunc}, {"where", Op::Where}, {"rcp", Op::Reciprocal},
    {"mulacc", Op::MulAcc},
};

struct ShortType {
  std::string_view name;
  DType dtype;
};
constexpr ShortType kShortTypes[] = {
    {"weak", DType::WeakInt}, {"i8", DType::Int8},     {"u8", DType::UInt8},      {"i16", DType::Int16},
    {"u16", DType::UInt16},   {"i32", DType::Int32},   {"u32", DType::UInt32},    {"i64", DType::Int64},
    {"u64", DType::UInt64},   {"f16", DType::Float16}, {"bf16", DType::BFloat16}, {"f32", DType::Float32},
    {"f64", DType::Float64},
};

bool is_number(const UOp& u) { return u.is_const() && (u.value().is_int() || u.value().is_float()); }

Scalar negated(const Scalar& v) { return v.is_float() ? Scalar(-v.as_double()) : Scalar(-v.as_int()); }

// What alu() does not refuse by itself.
std::string type_problem(Op op, std::span<const UOp> srcs) {
  if (op == Op::Where && srcs[0].dtype() != DType::Bool)
    return fmt::format("where cond must be bool, got {}", dtype_name(srcs[0].dtype()));
  for (const UOp& s : srcs) {
    if (s.dtype() == DType::Void || !s.has_shape()) return fmt::format("{} is no value", op_name(s.op()));
    if (s.is_invalid()) continue;
    if (has_flag(op, kIntOnly) && !is_int(s.dtype()))
      return fmt::format("{} needs integers, got {}", op_name(op), dtype_name(s.dtype()));
    if (has_flag(op, kNoFloat) && is_float(s.dtype()))
      return fmt::format("{} on {}", op_name(op), dtype_name(s.dtype()));
  }
  return "";
}

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, const Names& names) : text_(text), names_(names) {}

  Result<UOp> run() {
    if (text_.size() > kMaxText) return fail(0, "an expression of more than 1 MiB");
    LATHE_TRY(u, conditional());
    skip_blanks();
    if (at_ != text_.size()) return fail(at_, fmt::format("unexpected '{}'", excerpt(text_.substr(at_))));
    return std::move(u);
  }

 private:
  // Counts how deep the parser stands in itself.
  struct Nested {
    explicit Nested(int& depth) : depth_(depth) { depth_++; }
    ~Nested() { depth_--; }
    Nested(const Nested&) = delete;
    int& depth_;
  };

  ParseError fail(size_t offset, std::string text) const { return {std::move(text), offset, "expression"}; }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') at_++;
  }
  bool accept(char c) {
    skip_blanks();
    if (peek() != c) return false;
    at_++;
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (leading_word(text_.substr(at_)) != word) return false;
    at_ += word.size();
    return true;
  }
  Result<void> expect(char c) {
    if (accept(c)) return {};
    if (at_ == text_.size()) return fail(at_, fmt::format("expected '{}' at the end", c));
    return fail(at_, fmt::format("expected '{}', got '{}'", c, excerpt(text_.substr(at_))));
  }

  template <class F>
  Result<UOp> build(size_t offset, F&& f) {
    try {
      return f();
    } catch (const Error& e) {
      return fail(offset, e.what());
    }
  }
  Result<UOp> make(size_t offset, Op op, std::span<const UOp> srcs) {
    if (std::string problem = type_problem(op, srcs); !problem.empty())
      return fail(offset, std::move(problem));
    return build(offset, [&] { return UOp::make(op, DType::Void, srcs); });
  }
  Result<UOp> make(size_t offset, Op op, std::initializer_list<UOp> srcs) {
    return make(offset, op, std::span<const UOp>(srcs.begin(), srcs.size()));
  }

  // c ? t : f, or t if c else f
  Result<UOp> conditional() {
    const Nested nested(depth_);
    if (depth_ > kMaxDepth) return fail(at_, fmt::format("nesting deeper than {}", kMaxDepth));
    LATHE_TRY(first, binary(0));
    skip_blanks();
    const size_t start = at_;
    if (accept('?')) {
      LATHE_TRY(yes, conditional());
      LATHE_TRY_DO(expect(':'));
      LATHE_TRY(no, conditional());
      return make(start, Op::Where, {first, yes, no});
    }
    if (accept_word("if")) {
      LATHE_TRY(condition, conditional());
      if (!accept_word("else")) return fail(at_, "expected 'else'");
      LATHE_TRY(no, conditional());
      return make(start, Op::Where, {condition, first, no});
    }
    return std::move(first);
  }

  const Infix* peek_infix() {
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    const std::string_view word = leading_word(rest);
    for (const Infix& row : kInfix)
      if (word.empty() ? rest.starts_with(row.text) : word == row.text) return &row;
    return nullptr;
  }

  // Precedence climbing: operators that bind at least as tightly as `least`, left to right.
  Result<UOp> binary(int least) {
    LATHE_TRY(left, unary());
    while (const Infix* row = peek_infix()) {
      if (row->precedence < least) break;
      const size_t start = at_;
      at_ += row->text.size();
      LATHE_TRY(right, binary(row->precedence + 1));
      LATHE_TRY(joined, combine(start, *row, left, right));
      left = joined;
    }
    return std::move(left);
  }

  Result<UOp> combine(size_t start, const Infix& row, const UOp& a, const UOp& b) {
    if (row.op != Op::Noop) return make(start, row.op, {a, b});
    if (row.text == ">") return make(start, Op::CmpLt, {b, a});
    if (row.text == "-") {
      if (is_number(b) && is_weak(b.dtype())) return make(start, Op::Add, {a, constant(negated(b.value()))});
      LATHE_TRY(minus, make(start, Op::Mul, {b, constant(-1)}));
      return make(start, Op::Add, {a, minus});
    }
    if (row.text == "/") {
      LATHE_TRY(inverse, make(start, Op::Reciprocal, {b}));
      if (a.is_const() && a.value() == Scalar(1)) return std::move(inverse);
      return make(start, Op::Mul, {a, inverse});
    }
    // Negations of a comparison.
    const bool less = row.text == ">=";
    LATHE_TRY(test, make(start, row.text == "==" ? Op::CmpNe : Op::CmpLt,
                         {less || row.text == "==" ? a : b, less || row.text == "==" ? b : a}));
    return build(start, [&] { return logical_not(test); });
  }

  Result<UOp> unary() {
    skip_blanks();
    const size_t start = at_;
    if (peek() == '!' && peek(1) != '=') {
      at_++;
      LATHE_TRY(x, nested_unary());
      if (x.dtype() != DType::Bool) return fail(start, fmt::format("! on {}", dtype_name(x.dtype())));
      return build(start, [&] { return logical_not(x); });
    }
    if (peek() == '-' && !is_digit(peek(1))) {
      at_++;
      LATHE_TRY(x, nested_unary());
      if (is_number(x) && is_weak(x.dtype())) return constant(negated(x.value()));
      return make(start, Op::Mul, {x, constant(-1)});
    }
    // (long)x: a dtype in parentheses in front of an operand.
    if (peek() == '(') {
      const std::string_view word = leading_word(text_.substr(at_ + 1));
      const auto type = parse_short_dtype(word);
      if (type && !lookup(word) && peek(1 + word.size()) == ')') {
        at_ += word.size() + 2;
        LATHE_TRY(x, nested_unary());
        return convert(start, x, *type);
      }
    }
    return postfix();
  }

  Result<UOp> nested_unary() {
    const Nested nested(depth_);
    if (depth_ > kMaxDepth) return fail(at_, fmt::format("nesting deeper than {}", kMaxDepth));
    return unary();
  }

  Result<UOp> convert(size_t start, const UOp& x, DType d) {
    if (x.dtype() == DType::Void) return fail(start, "a cast of no value");
    return build(start, [&] { return cast(x, d); });
  }

  // x[i][j]: one coordinate an axis; an element of an argument, or a lane of a value.
  Result<UOp> postfix() {
    LATHE_TRY(x, primary());
    SmallVec<UOp, 4> srcs{x};
    while (accept('[')) {
      const size_t start = at_ - 1;
      LATHE_TRY(i, conditional());
      LATHE_TRY_DO(expect(']'));
      if (!is_int(i.dtype()) && !i.is_invalid())
        return fail(start, fmt::format("a coordinate of dtype {}", dtype_name(i.dtype())));
      if (!srcs[0].has_shape() || srcs[0].shape().empty()) return fail(start, "a coordinate into a scalar");
      srcs.push_back(i);
      if (srcs.size() <= srcs[0].shape().size()) continue;
      const bool memory = srcs[0].op() == Op::Param || srcs[0].op() == Op::Buffer;
      LATHE_TRY(element, build(start, [&] {
                  const UOp at = UOp::make(Op::Index, DType::Void, srcs);
                  return memory ? load(at) : at;
                }));
      srcs = {element};
    }
    if (srcs.size() > 1) return fail(at_, "fewer coordinates than axes");
    return std::move(srcs[0]);
  }

  const UOp* lookup(std::string_view name) const {
    for (const auto& [known, value] : names_)
      if (known == name) return &value;
    return nullptr;
  }

  Result<UOp> primary() {
    skip_blanks();
    const size_t start = at_;
    if (accept('(')) {
      LATHE_TRY(x, conditional());
      LATHE_TRY_DO(expect(')'));
      return std::move(x);
    }
    if (accept('{')) {
      LATHE_TRY(lanes, arguments('}'));
      return make_stack(start, lanes);
    }
    const std::string_view word = leading_word(text_.substr(at_));
    if (word.empty() || is_digit(word[0])) return number();
    if (const UOp* known = lookup(word)) {
      at_ += word.size();
      return *known;
    }
    if (word == "T" || word == "F" || word == "True" || word == "False") {
      at_ += word.size();
      return constant(Scalar(word[0] == 'T'));
    }
    if (word == "Inv") {
      at_ += word.size();
      return invalid();
    }
    size_t after = at_ + word.size();
    while (after < text_.size() && (text_[after] == ' ' || text_[after] == '\t')) after++;
    if (after < text_.size() && text_[after] == '(') {
      at_ = after + 1;
      return call(start, word);
    }
    if (word == "inf" || word == "nan" || word == "true" || word == "false" || word == "Invalid")
      return number();
    return fail(start, fmt::format("unknown name '{}'", excerpt(word)));
  }

  Result<UOp> number() {
    auto scanned = scan_literal(text_.substr(at_));
    if (!scanned.ok()) {
      if (at_ == text_.size()) return fail(at_, "expected an operand at the end");
      return fail(at_, fmt::format("expected an operand, got '{}': {}", excerpt(text_.substr(at_)),
                                   scanned.error().text));
    }
    const Scalar v = scanned.value().value;
    if (v.is_int() && (v.as_int() > kLargest || v.as_int() < -kLargest))
      return fail(at_, "an integer of more than 126 bits");
    at_ += scanned.value().size;
    return constant(v);
  }

  // Up to and with the closing bracket.
  Result<std::vector<UOp>> arguments(char close) {
    std::vector<UOp> args;
    if (accept(close)) return args;
    do {
      if (args.size() == kMaxArgs) return fail(at_, fmt::format("more than {} arguments", kMaxArgs));
      LATHE_TRY(x, conditional());
      args.push_back(x);
    } while (accept(','));
    LATHE_TRY_DO(expect(close));
    return args;
  }

  Result<UOp> make_stack(size_t start, std::span<const UOp> lanes) {
    for (const UOp& lane : lanes)
      if (!lane.has_shape() || lane.node()->shape != lanes[0].node()->shape)
        return fail(start, "lanes of different shapes");
    return build(start, [&] { return stack(lanes); });
  }

  // The name and its opening parenthesis are read.
  Result<UOp> call(size_t start, std::string_view name) {
    if (name == "bitcast") {
      LATHE_TRY(x, conditional());
      LATHE_TRY_DO(expect(','));
      skip_blanks();
      const std::string_view word = leading_word(text_.substr(at_));
      const auto type = parse_short_dtype(word);
      if (!type || is_weak(*type) || is_weak(x.dtype()) || x.dtype() == DType::Void)
        return fail(start, "bitcast(x, dtype) is between dtypes that have bits");
      at_ += word.size();
      LATHE_TRY_DO(expect(')'));
      return build(start, [&] { return bitcast(x, *type); });
    }
    LATHE_TRY(args, arguments(')'));
    if (name == "lanes") return make_stack(start, args);
    if (const auto type = parse_short_dtype(name)) {
      if (args.size() != 1) return fail(start, fmt::format("{}() takes one value", name));
      return convert(start, args[0], *type);
    }
    if (name == "min" && args.size() == 2) {
      if (std::string problem = type_problem(Op::Max, args); !problem.empty())
        return fail(start, std::move(problem));
      return build(start, [&] { return minimum(args[0], args[1]); });
    }
    for (const Function& f : kFunctions) {
      if (f.name != name) continue;
      if (static_cast<int>(args.size()) != info(f.op).arity)
        return fail(start, fmt::format("{}() takes {} values, got {}", name, info(f.op).arity, args.size()));
      return make(start, f.op, args);
    }
    return fail(start, fmt::format("unknown function '{}'", excerpt(name)));
  }

  std::string_view text_;
  const Names& names_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<DType> parse_short_dtype(std::string_view word) {
  for (const ShortType& s : kShortTypes)
    if (s.name == word) return s.dtype;
  const auto d = parse_dtype(word);
  return d == DType::Void ? std::nullopt : d;
}

Result<UOp> parse_expression(std::string_view text, const Names& names) {
  return ExpressionParser(text, names).run();
}

}  // namespace lathe
