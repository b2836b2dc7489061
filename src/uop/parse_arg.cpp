#include "uop/parse_arg.h"

#include "uop/arg_fields.h"
#include "uop/literal.h"
#include "uop/uop.h"

namespace lathe {
namespace {

constexpr size_t kMaxString = 1 << 16;
constexpr size_t kMaxActions = 4096;

// A payload of one value.
template <class T>
struct One {
  T value;
};

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
    LATHE_TRY(arg, payload(next_word()));
    return ParsedArg{std::move(arg), at_};
  }

 private:
  ParseError fail(size_t offset, std::string text) const { return {std::move(text), offset, ""}; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\n'; }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') at_++;
  }

  std::string_view next_word() const { return leading_word(text_.substr(at_, 64)); }

  // The first name inside the braces tells the kind of payload.
  Result<Arg> payload(std::string_view first) {
    if (first == "value") return made(one<Scalar>(first), [](auto&& v) { return v; });
    if (first == "text") return made(one<std::string>(first), [](auto&& s) { return TextArg(s); });
    if (first == "device") return made(one<std::string>(first), [](auto&& s) { return DeviceArg(s); });
    if (first == "id") return made(fields(RangeArg()), [](auto&& r) { return r; });
    if (first == "space") return made(fields(StageArg()), [](auto&& s) { return s; });
    if (first == "kernel") return made(fields(KernelArg()), shared);
    if (first == "call") return made(fields(CallArg()), shared);
    if (first == "op") {
      LATHE_TRY(reduce, fields(ReduceArg()));
      if (reduce.n_axes < 0) return fail(0, "negative n_axes");
      return Arg(reduce);
    }
    if (first == "axes") {
      LATHE_TRY(axes, one<std::vector<int>>(first));
      for (const int axis : axes)
        if (axis < 0 || axis > AxesArg::kMaxRank) return fail(0, fmt::format("axis {}", axis));
      return Arg(AxesArg(axes));
    }
    if (first == "slot") {
      ParamArg blank;
      blank.dtype = dtype_;
      LATHE_TRY(param, fields(std::move(blank)));
      if (param.multiple_of < 1) return fail(0, "multiple_of is at least 1");
      if (param.dtype == DType::Void) return fail(0, "a dtype is missing before the arguments");
      if (op_ == Op::Buffer && param.space == AddrSpace::Global)
        param.store = std::make_shared<StorageSlot>();
      return Arg(shared(std::move(param)));
    }
    return fail(at_, fmt::format("no argument starts with '{}'", excerpt(first)));
  }
  static constexpr auto shared = [](auto v) { return std::make_shared<const decltype(v)>(std::move(v)); };

  template <class T, class Make>
  static Result<Arg> made(Result<T> value, Make make) {
    LATHE_TRY(v, std::move(value));
    return Arg(make(std::move(v)));
  }
  template <class T>
  Result<T> one(std::string_view name) {
    LATHE_TRY(payload, fields(One<T>(), std::tuple(Field{name, &One<T>::value})));
    return std::move(payload.value);
  }

  // The fields of `payload` up to the closing brace.
  template <class T, class Known = decltype(kFields<T>)>
  Result<T> fields(T payload, const Known& known = kFields<T>) {
    std::vector<std::string_view> seen;
    for (; peek() != '}'; skip_blanks()) {
      const size_t start = at_;
      const std::string_view name = next_word();
      if (std::ranges::find(seen, name) != seen.end())
        return fail(start, fmt::format("'{}' is given twice", excerpt(name)));
      seen.push_back(name);
      at_ += name.size();
      if (name.empty() || peek() != '=') return fail(at_, "expected name=value or }");
      at_++;
      Result<bool> found = false;
      auto try_field = [&](const auto& f) {
        if (f.name == name) found = read(payload.*f.member, name);
      };
      std::apply([&](const auto&... f) { (try_field(f), ...); }, known);
      LATHE_TRY(belongs, std::move(found));
      if (!belongs) return fail(start, fmt::format("'{}' does not belong here", excerpt(name)));
    }
    at_++;
    return payload;
  }

  template <class T>
  Result<bool> read(T& into, std::string_view name) {
    LATHE_TRY(value, next(std::type_identity<T>(), name));
    into = std::move(value);
    return true;
  }
  using Name = std::string_view;
  template <class T>
  Result<T> next(std::type_identity<T>, Name) {
    return integer<T>();
  }
  template <class T>
  Result<T> next(std::type_identity<std::optional<T>>, Name name) {
    LATHE_TRY(value, next(std::type_identity<T>(), name));
    return std::move(value);
  }
  // Of a Buffer's slot also a label; its first use takes a fresh slot of the process.
  Result<int64_t> next(std::type_identity<int64_t>, Name name) {
    if (op_ != Op::Buffer || name != "slot" || peek() != '@') return integer<int64_t>();
    at_++;
    LATHE_TRY(label, integer<int64_t>());
    const auto [it, fresh] = labels_.try_emplace(label, 0);
    if (fresh) it->second = new_buffer({}, DType::Bool, "", AddrSpace::Reg).param().slot;
    return it->second;
  }
  Result<bool> next(std::type_identity<bool>, Name) { return word("bool", parse_bool); }
  Result<Op> next(std::type_identity<Op>, Name) { return word("op", parse_op); }
  Result<DType> next(std::type_identity<DType>, Name) { return word("dtype", parse_dtype); }
  Result<AxisType> next(std::type_identity<AxisType>, Name) { return word("axis type", parse_axis_type); }
  Result<AddrSpace> next(std::type_identity<AddrSpace>, Name) {
    return word("address space", parse_addr_space);
  }
  Result<Scalar> next(std::type_identity<Scalar>, Name) { return literal(); }
  Result<std::string> next(std::type_identity<std::string>, Name) { return string(); }
  Result<std::vector<int>> next(std::type_identity<std::vector<int>>, Name) {
    return list(AxesArg::kMaxRank, "numbers", &ArgParser::integer<int>);
  }
  Result<std::vector<Action>> next(std::type_identity<std::vector<Action>>, Name) {
    return list(kMaxActions, "actions", &ArgParser::action);
  }
  Result<std::pair<int64_t, int64_t>> next(std::type_identity<std::pair<int64_t, int64_t>>, Name) {
    const size_t start = at_;
    LATHE_TRY(pair, list(2, "numbers", &ArgParser::integer<int64_t>));
    if (pair.size() != 2 || pair[0] > pair[1]) return fail(start, "bounds are [low high] with low <= high");
    return std::pair(pair[0], pair[1]);
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

  // A name that `find` knows.
  template <class Find>
  auto word(std::string_view what, Find find) -> Result<typename decltype(find(""))::value_type> {
    const std::string_view name = next_word();
    const auto found = find(name);
    if (!found) return fail(at_, fmt::format("'{}' is no {}", excerpt(name), what));
    at_ += name.size();
    return *found;
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
};

}  // namespace

Result<ParsedArg> parse_arg(std::string_view text, Op op, DType dtype, BufferLabels& labels) {
  return ArgParser(text, op, dtype, labels).run();
}

}  // namespace lathe
