#include "uop/print.h"

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

void put_string(std::string& out, std::string_view s) {
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

void put_actions(std::string& out, const std::vector<Action>& actions) {
  out += '[';
  for (size_t i = 0; i < actions.size(); i++) {
    const Action& a = actions[i];
    out += fmt::format("{}{}({},{})", i ? " " : "", action_kind_name(a.kind), a.axis, a.amount);
  }
  out += ']';
}

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
    if (options_.shapes && u.has_shape()) out += fmt::format("  # {}", to_string(u.shape()));
    out += '\n';
  }

  void put_arg(std::string& out, const UOp& u) const {
    const Arg& arg = u.arg();
    if (kind_of(arg) == ArgKind::None) return;
    out += " {";
    if (const auto* v = std::get_if<Scalar>(&arg)) out += fmt::format("value={}", v->to_string());
    if (const auto* r = std::get_if<RangeArg>(&arg))
      out += fmt::format("id={} type={}", r->id, axis_name(r->type));
    if (const auto* r = std::get_if<ReduceArg>(&arg)) {
      out += fmt::format("op={}", op_name(r->op));
      if (r->n_axes) out += fmt::format(" n_axes={}", r->n_axes);
    }
    if (const auto* axes = std::get_if<AxesArg>(&arg)) {
      out += "axes=[";
      for (size_t i = 0; i < axes->span().size(); i++)
        out += fmt::format("{}{}", i ? " " : "", axes->span()[i]);
      out += ']';
    }
    if (const auto* p = std::get_if<ParamPtr>(&arg)) put_param(out, u, **p);
    if (const auto* k = std::get_if<KernelPtr>(&arg)) {
      put_string(out += "kernel=", (*k)->name);
      if (!(*k)->actions.empty()) put_actions(out += " actions=", (*k)->actions);
      if ((*k)->given) put_actions(out += " given=", *(*k)->given);
      if (!(*k)->source.empty()) put_string(out += " source=", (*k)->source);
      if ((*k)->is_binary) out += " binary=true";
      if ((*k)->n_cores != 1) out += fmt::format(" cores={}", (*k)->n_cores);
    }
    if (const auto* c = std::get_if<CallPtr>(&arg)) {
      put_string(out += "call=", (*c)->name);
      if ((*c)->n_written) out += fmt::format(" written={}", (*c)->n_written);
      if ((*c)->precompile) out += " precompile=true";
      if ((*c)->recompute) out += " recompute=true";
      if ((*c)->gradient_id) out += fmt::format(" gradient={}", (*c)->gradient_id);
    }
    if (const auto* t = std::get_if<TextArg>(&arg)) put_string(out += "text=", *t->text);
    if (const auto* d = std::get_if<DeviceArg>(&arg)) put_string(out += "device=", *d->device);
    if (const auto* s = std::get_if<StageArg>(&arg))
      out += fmt::format("space={} removable={}", addr_space_name(s->space), s->removable);
    out += '}';
  }

 private:
  void put_param(std::string& out, const UOp& u, const ParamArg& p) const {
    const auto label = slots_.find(p.slot);
    if (u.op() == Op::Buffer && label != slots_.end())
      out += fmt::format("slot=@{}", label->second);
    else
      out += fmt::format("slot={}", p.slot);
    if (p.dtype != u.dtype()) out += fmt::format(" dtype={}", dtype_name(p.dtype));
    if (p.space != AddrSpace::Global) out += fmt::format(" space={}", addr_space_name(p.space));
    if (!p.name.empty()) put_string(out += " name=", p.name);
    if (!p.device.empty()) put_string(out += " device=", p.device);
    if (p.bounds) out += fmt::format(" bounds=[{} {}]", p.bounds->first, p.bounds->second);
    if (p.multiple_of != 1) out += fmt::format(" multiple_of={}", p.multiple_of);
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
    return x.dtype() == DType::Void ? std::string(op_name(x.op()))
                                    : fmt::format("{} {}", op_name(x.op()), dtype_name(x.dtype()));
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
