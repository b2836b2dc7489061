#include "uop/print.h"

#include "uop/arg_fields.h"
#include "uop/arg_kind.h"
#include "uop/derive.h"

#include <unordered_map>

namespace lathe {
namespace {

constexpr size_t kMaxInlineLanes = 8;

// Constants whose text reads back as the same node.
bool is_plain_const(const UOp& u) {
  if (u.op() != Op::Const || kind_of(u.arg()) != ArgKind::Scalar || u.dtype() == DType::Void) return false;
  const Scalar& v = u.value();
  return v.is_invalid() ? u.dtype() == DType::Bool : cast_scalar(v, u.dtype()) == v;
}

// Nodes that are written at their uses and need no line of their own.
bool is_inline(const UOp& u) {
  if (u.op() == Op::Const) return is_plain_const(u);
  if (u.op() != Op::Stack || u.n_srcs() > kMaxInlineLanes || kind_of(u.arg()) != ArgKind::None) return false;
  for (const UOp& lane : u.srcs())
    if (!is_plain_const(lane)) return false;
  return u.dtype() == derive_dtype(Op::Stack, u.srcs(), {});
}

void put(std::string& out, const std::string& s) {
  out += '"';
  for (const char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (byte < 32 || byte == 127)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  out += '"';
}

void put_literal(std::string& out, const UOp& u) {
  if (u.op() == Op::Const) {
    out += u.value().to_string();
    if (u.dtype() != weak_dtype(u.value())) (out += ':') += dtype_name(u.dtype());
    return;
  }
  out += '[';
  for (size_t i = 0; i < u.n_srcs(); i++) {
    if (i) out += ' ';
    put_literal(out, u.src(i));
  }
  out += ']';
}

void put(std::string& out, std::integral auto v) { out += fmt::format("{}", v); }
void put(std::string& out, const Scalar& v) { out += v.to_string(); }
void put(std::string& out, AxisType t) { out += axis_name(t); }
void put(std::string& out, AddrSpace s) { out += addr_space_name(s); }
void put(std::string& out, Op op) { out += op_name(op); }
void put(std::string& out, DType d) { out += dtype_name(d); }
void put(std::string& out, const Action& a) {
  out += fmt::format("{}({},{})", action_kind_name(a.kind), a.axis, a.amount);
}
void put(std::string& out, const std::pair<int64_t, int64_t>& p) {
  out += fmt::format("[{} {}]", p.first, p.second);
}
template <class T>
void put(std::string& out, std::span<const T> list) {
  out += '[';
  for (size_t i = 0; i < list.size(); i++) put(i ? out += ' ' : out, list[i]);
  out += ']';
}
void put(std::string& out, const std::vector<Action>& list) { put(out, std::span(list)); }
template <class T>
void put(std::string& out, const std::optional<T>& v) {
  put(out, *v);
}
void put(std::string& out, std::string_view name, const auto& value) { put((out += name) += '=', value); }

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  // Gives `u` the next number; its line may be asked for from then on.
  void add(const UOp& u) {
    numbers_.emplace(u.node(), static_cast<uint32_t>(numbers_.size()));
    if (options_.renumber && u.op() == Op::Buffer) slots_.emplace(u.param().slot, slots_.size());
  }
  bool has(const UOp& u) const { return numbers_.contains(u.node()); }

  void put_line(std::string& out, const UOp& u) const {
    out += fmt::format("%{} = ", numbers_.at(u.node()));
    if (is_inline(u)) {
      put_literal(out, u);
    } else {
      out += op_name(u.op());
      if (u.dtype() != DType::Void) (out += ' ') += dtype_name(u.dtype());
      for (const UOp& s : u.srcs()) {
        out += ' ';
        if (is_inline(s))
          put_literal(out, s);
        else
          out += fmt::format("%{}", numbers_.at(s.node()));
      }
      put_arg(out, u);
    }
    if (options_.shapes && u.has_shape()) out += fmt::format("  # {}", u.shape());
    out += '\n';
  }

  void put_arg(std::string& out, const UOp& u) const {
    const Arg& arg = u.arg();
    if (kind_of(arg) == ArgKind::None) return;
    out += " {";
    std::visit([&](const auto& payload) { put_payload(out, u, payload); }, arg);
    out += '}';
  }

 private:
  void put_payload(std::string&, const UOp&, std::monostate) const {}
  void put_payload(std::string& out, const UOp&, const Scalar& v) const { put(out, "value", v); }
  void put_payload(std::string& out, const UOp&, const AxesArg& a) const { put(out, "axes", a.span()); }
  void put_payload(std::string& out, const UOp&, const TextArg& t) const { put(out, "text", *t.text); }
  void put_payload(std::string& out, const UOp&, const DeviceArg& d) const { put(out, "device", *d.device); }
  void put_payload(std::string& out, const UOp& u, const ParamPtr& p) const {
    const auto label = u.op() == Op::Buffer ? slots_.find(p->slot) : slots_.end();
    ParamArg blank;
    blank.dtype = u.dtype();
    put_fields(out, *p, blank, label == slots_.end() ? "" : fmt::format("@{}", label->second));
  }
  template <class T>
  void put_payload(std::string& out, const UOp&, const std::shared_ptr<T>& p) const {
    put_fields(out, *p, {});
  }
  template <class T>
  void put_payload(std::string& out, const UOp&, const T& p) const {
    put_fields(out, p, {});
  }

  // `label` stands for the first field, unless empty.
  template <class T>
  static void put_fields(std::string& out, const T& p, const std::type_identity_t<T>& blank,
                         const std::string& label = "") {
    auto put_first = [&](const auto& first, const auto&... rest) {
      if (label.empty())
        put(out, first.name, p.*first.member);
      else
        out += fmt::format("{}={}", first.name, label);
      auto put_field = [&](const auto& f) {
        if (f.always || p.*f.member != blank.*f.member) put(out += ' ', f.name, p.*f.member);
      };
      (put_field(rest), ...);
    };
    std::apply(put_first, kFields<std::remove_const_t<T>>);
  }

  PrintOptions options_;
  std::unordered_map<const Node*, uint32_t> numbers_;
  std::unordered_map<int64_t, size_t> slots_;
};

// The nodes that get a line, in order.
std::vector<UOp> lines_of(const UOp& root, Printer& printer) {
  std::vector<UOp> lines;
  for (const UOp& u : toposort(root, nullptr, true)) {
    if (is_inline(u) && !(u == root)) continue;
    printer.add(u);
    lines.push_back(u);
  }
  return lines;
}

}  // namespace

std::string print(const UOp& root, const PrintOptions& options) {
  return print_head(root, SIZE_MAX, options);
}

std::string print_list(std::span<const UOp> list, const PrintOptions& options) {
  Printer printer(options);
  std::string out;
  auto put = [&](const UOp& u) {
    printer.add(u);
    printer.put_line(out, u);
  };
  for (const UOp& u : list) {
    bool closed = true;
    for (const UOp& s : u.srcs()) closed = closed && (printer.has(s) || is_inline(s));
    if (!closed)
      for (const UOp& below : toposort(u, [&](const UOp& s) { return !printer.has(s); }, true))
        if (!(below == u) && !is_inline(below)) put(below);
    if (!printer.has(u)) put(u);
  }
  return out;
}

std::string print_head(const UOp& root, size_t n, const PrintOptions& options) {
  Printer printer(options);
  const std::vector<UOp> lines = lines_of(root, printer);
  std::string out;
  const bool all = lines.size() / 2 < n || lines.size() <= 2 * n;
  for (size_t i = 0; i < lines.size(); i++) {
    if (!all && i == n) {
      out += fmt::format("# {} more lines\n", lines.size() - 2 * n);
      i = lines.size() - n;
      if (i == lines.size()) break;
    }
    printer.put_line(out, lines[i]);
  }
  return out;
}

std::string print_arg(const UOp& u) {
  std::string out;
  Printer(PrintOptions{}).put_arg(out, u);
  return out;
}

std::string print_node(const UOp& u) {
  auto head = [](const UOp& x) {
    return x.dtype() == DType::Void ? std::string(op_name(x.op())) : fmt::format("{} {}", x.op(), x.dtype());
  };
  constexpr size_t kMaxSources = 8;
  std::string out = head(u);
  if (u.n_srcs()) out += " (";
  for (size_t i = 0; i < std::min(u.n_srcs(), kMaxSources); i++) (out += i ? ", " : "") += head(u.src(i));
  if (u.n_srcs() > kMaxSources) out += fmt::format(", {} more", u.n_srcs() - kMaxSources);
  if (u.n_srcs()) out += ')';
  return out + print_arg(u);
}

}  // namespace lathe
