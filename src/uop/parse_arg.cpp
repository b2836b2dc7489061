#include "uop/parse_arg.h"

#include "uop/literal.h"
#include "uop/uop.h"

namespace lathe {
namespace {

constexpr size_t kMaxString = 1 << 16;
constexpr size_t kMaxActions = 4096;

// The first name inside the braces tells the kind of payload.
struct KindRow {
  std::string_view first;
  ArgKind kind;
};
constexpr KindRow kKinds[] = {{"value", ArgKind::Scalar}, {"id", ArgKind::Range},
                              {"op", ArgKind::Reduce},    {"axes", ArgKind::Axes},
                              {"slot", ArgKind::Param},   {"kernel", ArgKind::Kernel},
                              {"text", ArgKind::Text},    {"device", ArgKind::Device},
                              {"space", ArgKind::Stage},  {"call", ArgKind::Call}};

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

class ArgParser {
 public:
  ArgParser(std::string_view text, Op op, DType dtype, BufferLabels& labels)
      : text_(text), op_(op), dtype_(dtype), labels_(labels) {}

  Result<ParsedArg> run() {
    at_ = 1;
    skip_blanks();
    const std::string_view first = leading_word(text_.substr(at_, 64));
    ArgKind kind = ArgKind::None;
    for (const KindRow& row : kKinds)
      if (row.first == first) kind = row.kind;
    if (kind == ArgKind::None) return fail(at_, fmt::format("no argument starts with '{}'", excerpt(first)));
    param_.dtype = dtype_;
    while (peek() != '}') {
      const size_t start = at_;
      const std::string_view name = leading_word(text_.substr(at_, 64));
      for (const std::string_view s : seen_)
        if (s == name) return fail(start, fmt::format("'{}' is given twice", excerpt(name)));
      seen_.push_back(name);
      at_ += name.size();
      if (name.empty() || peek() != '=') return fail(at_, "expected name=value or }");
      at_++;
      LATHE_TRY(known, field(kind, name));
      if (!known) return fail(start, fmt::format("'{}' does not belong here", excerpt(name)));
      skip_blanks();
    }
    at_++;
    LATHE_TRY(arg, build(kind));
    return ParsedArg{std::move(arg), at_};
  }

 private:
  ParseError fail(size_t offset, std::string text) const { return {std::move(text), offset, ""}; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') at_++;
  }

  // False when the kind has no such field.
  Result<bool> field(ArgKind kind, std::string_view name) {
    switch (kind) {
      case ArgKind::Scalar:
        if (name == "value") return set(value_, literal());
        break;
      case ArgKind::Range:
        if (name == "id") return set(range_.id, integer<int32_t>());
        if (name == "type") return set(range_.type, word("axis type", parse_axis_type));
        break;
      case ArgKind::Reduce:
        if (name == "op") return set(reduce_.op, word("op", parse_op));
        if (name == "n_axes") return set(reduce_.n_axes, integer<int32_t>());
        break;
      case ArgKind::Axes:
        if (name == "axes") return set(axes_, integers<int>(AxesArg::kMaxRank));
        break;
      case ArgKind::Param: return param_field(name);
      case ArgKind::Kernel:
        if (name == "kernel") return set(kernel_.name, string());
        if (name == "actions") return set(kernel_.actions, actions());
        if (name == "given") return set(kernel_.given, actions());
        if (name == "source") return set(kernel_.source, string());
        if (name == "binary") return set(kernel_.is_binary, word("bool", parse_bool));
        if (name == "cores") return set(kernel_.n_cores, integer<int32_t>());
        break;
      case ArgKind::Call:
        if (name == "call") return set(call_.name, string());
        if (name == "written") return set(call_.n_written, integer<int32_t>());
        if (name == "precompile") return set(call_.precompile, word("bool", parse_bool));
        if (name == "recompute") return set(call_.recompute, word("bool", parse_bool));
        if (name == "gradient") return set(call_.gradient_id, integer<int64_t>());
        break;
      case ArgKind::Text:
      case ArgKind::Device:
        if (name == (kind == ArgKind::Text ? "text" : "device")) return set(string_, string());
        break;
      case ArgKind::Stage:
        if (name == "space") return set(stage_.space, word("address space", parse_addr_space));
        if (name == "removable") return set(stage_.removable, word("bool", parse_bool));
        break;
      case ArgKind::None: break;
    }
    return false;
  }

  Result<bool> param_field(std::string_view name) {
    if (name == "slot") return set(param_.slot, slot());
    if (name == "dtype") return set(param_.dtype, word("dtype", parse_dtype));
    if (name == "space") return set(param_.space, word("address space", parse_addr_space));
    if (name == "name") return set(param_.name, string());
    if (name == "device") return set(param_.device, string());
    if (name == "multiple_of") return set(param_.multiple_of, integer<int64_t>());
    if (name != "bounds") return false;
    const size_t start = at_;
    LATHE_TRY(pair, integers<int64_t>(2));
    if (pair.size() != 2 || pair[0] > pair[1]) return fail(start, "bounds are [low high] with low <= high");
    param_.bounds = {pair[0], pair[1]};
    return true;
  }

  Result<Arg> build(ArgKind kind) {
    switch (kind) {
      case ArgKind::Scalar: return Arg(value_);
      case ArgKind::Range: return Arg(range_);
      case ArgKind::Reduce:
        if (reduce_.n_axes < 0) return fail(0, "negative n_axes");
        return Arg(reduce_);
      case ArgKind::Axes:
        for (const int axis : axes_)
          if (axis < 0 || axis > AxesArg::kMaxRank) return fail(0, fmt::format("axis {}", axis));
        return Arg(AxesArg(axes_));
      case ArgKind::Param:
        if (param_.multiple_of < 1) return fail(0, "multiple_of is at least 1");
        if (param_.dtype == DType::Void) return fail(0, "a dtype is missing before the arguments");
        if (op_ == Op::Buffer && param_.space == AddrSpace::Global)
          param_.store = std::make_shared<StorageSlot>();
        return Arg(ParamPtr(std::make_shared<ParamArg>(std::move(param_))));
      case ArgKind::Kernel: return Arg(KernelPtr(std::make_shared<KernelArg>(std::move(kernel_))));
      case ArgKind::Call: return Arg(CallPtr(std::make_shared<CallArg>(std::move(call_))));
      case ArgKind::Text: return Arg(TextArg(std::move(string_)));
      case ArgKind::Device: return Arg(DeviceArg(std::move(string_)));
      case ArgKind::Stage: return Arg(stage_);
      case ArgKind::None: break;
    }
    return Arg();
  }

  template <class Field, class T>
  static Result<bool> set(Field& field, Result<T> value) {
    if (!value.ok()) return std::move(value.error());
    field = std::move(value.value());
    return true;
  }

  static std::optional<bool> parse_bool(std::string_view name) {
    if (name == "true") return true;
    if (name == "false") return false;
    return std::nullopt;
  }

  Result<Scalar> literal() {
    auto scanned = scan_literal(text_.substr(at_));
    if (!scanned.ok()) return fail(at_, std::move(scanned.error().text));
    at_ += scanned.value().size;
    return scanned.value().value;
  }

  template <class T>
  Result<T> integer() {
    const size_t start = at_;
    LATHE_TRY(v, literal());
    if (!v.is_int()) return fail(start, "expected an integer");
    const int128 n = v.as_int();
    if (n < std::numeric_limits<T>::min() || n > std::numeric_limits<T>::max())
      return fail(start, fmt::format("{} does not fit {} bits", v.to_string(), 8 * sizeof(T)));
    return static_cast<T>(n);
  }

  Result<void> expect(char c) {
    if (peek() != c) return fail(at_, fmt::format("expected {}", c));
    at_++;
    return {};
  }

  // [item item …]
  template <class T>
  Result<std::vector<T>> list(size_t most, std::string_view what, Result<T> (ArgParser::*item)()) {
    LATHE_TRY_DO(expect('['));
    std::vector<T> out;
    for (skip_blanks(); peek() != ']'; skip_blanks()) {
      if (out.size() == most) return fail(at_, fmt::format("more than {} {}", most, what));
      LATHE_TRY(v, (this->*item)());
      out.push_back(v);
    }
    at_++;
    return out;
  }
  template <class T>
  Result<std::vector<T>> integers(size_t most) {
    return list(most, "numbers", &ArgParser::integer<T>);
  }
  Result<std::vector<Action>> actions() { return list(kMaxActions, "actions", &ArgParser::action); }

  // A name that `find` knows.
  template <class Find>
  auto word(std::string_view what, Find find) -> Result<typename decltype(find(""))::value_type> {
    const std::string_view name = leading_word(text_.substr(at_, 64));
    const auto found = find(name);
    if (!found) return fail(at_, fmt::format("'{}' is no {}", excerpt(name), what));
    at_ += name.size();
    return *found;
  }

  // Of a Buffer also a label; its first use takes a fresh slot of the process.
  Result<int64_t> slot() {
    if (op_ != Op::Buffer || peek() != '@') return integer<int64_t>();
    at_++;
    LATHE_TRY(label, integer<int64_t>());
    const auto [it, fresh] = labels_.try_emplace(label, 0);
    if (fresh) it->second = new_buffer({}, DType::Bool, "", AddrSpace::Reg).param().slot;
    return it->second;
  }

  Result<std::string> string() {
    const size_t start = at_;
    if (peek() != '"') return fail(at_, "expected a string");
    std::string out;
    for (at_++; peek() != '"'; at_++) {
      if (peek() == '\n') return fail(start, "a string without end");
      if (out.size() == kMaxString)
        return fail(start, fmt::format("a string of more than {} bytes", kMaxString));
      if (peek() != '\\') {
        out += peek();
        continue;
      }
      const std::string_view rest = text_.substr(at_ + 1, 3);
      if (rest.empty()) return fail(start, "a string without end");
      if (rest[0] == '"' || rest[0] == '\\') {
        out += rest[0];
      } else if (rest[0] == 'n') {
        out += '\n';
      } else if (rest.size() == 3 && rest[0] == 'x' && hex_value(rest[1]) < 16 && hex_value(rest[2]) < 16) {
        out += static_cast<char>(hex_value(rest[1]) * 16 + hex_value(rest[2]));
        at_ += 2;
      } else {
        return fail(at_, "unknown escape in a string");
      }
      at_++;
    }
    at_++;
    return out;
  }

  // Kind(axis,amount)
  Result<Action> action() {
    LATHE_TRY(kind, word("action", parse_action_kind));
    LATHE_TRY_DO(expect('('));
    LATHE_TRY(axis, integer<int32_t>());
    LATHE_TRY_DO(expect(','));
    LATHE_TRY(amount, integer<int32_t>());
    LATHE_TRY_DO(expect(')'));
    return Action{kind, axis, amount};
  }

  std::string_view text_;
  size_t at_ = 0;
  Op op_;
  DType dtype_;
  BufferLabels& labels_;
  std::vector<std::string_view> seen_;

  // What the fields fill; the kind decides which one counts.
  Scalar value_;
  RangeArg range_;
  ReduceArg reduce_;
  std::vector<int> axes_;
  ParamArg param_;
  KernelArg kernel_;
  CallArg call_;
  StageArg stage_;
  std::string string_;
};

}  // namespace

Result<ParsedArg> parse_arg(std::string_view text, Op op, DType dtype, BufferLabels& labels) {
  return ArgParser(text, op, dtype, labels).run();
}

}  // namespace lathe
