#include "renderer/program.h"

#include "uop/eval.h"

#include <algorithm>

namespace lathe {
namespace {

struct NotRendered {
  OpSet ops;
  std::string_view reason;
};
constexpr NotRendered kNotRendered[] = {
    {{Op::Exp2, Op::Log2, Op::Sin, Op::Pow, Op::Threefry, Op::FloorDiv, Op::FloorMod},
     "codegen decomposes it"},
    {{Op::Dot}, "it is for targets with such an instruction"},
    {{Op::Call, Op::Result, Op::Linear, Op::Copy}, "it is about whole kernels, not part of one"},
    {{Op::Reshape, Op::Permute, Op::Expand, Op::Pad, Op::Flip, Op::Reduce, Op::Stage, Op::Contiguous,
      Op::ContiguousBackward, Op::Detach, Op::Multi},
     "graphs only: lowering turns it into loops, indices and memory"},
};

// Where in the signature the Special of that name stands.
UOp& place_of(Signature& s, std::string_view name) {
  if (name == "core_id") return s.core_id;
  const int axis = name.size() == 5 ? name[4] - '0' : -1;
  CHECK(axis >= 0 && axis < 3 && (name.starts_with("gidx") || name.starts_with("lidx")),
        "unknown launch index {}", name);
  return (name[0] == 'g' ? s.groups : s.items)[static_cast<size_t>(axis)];
}

}  // namespace

std::string_view why_not_rendered(Op op) {
  for (const NotRendered& row : kNotRendered)
    if (row.ops.contains(op)) return row.reason;
  return {};
}

void cannot_render(const UOp& u, std::string_view renderer) {
  std::string_view reason = why_not_rendered(u.op());
  if (reason.empty()) reason = "it has no place in a linear program in this form";
  CHECK(false, "the {} renderer cannot print {} of {}: {}", renderer, u.op(), u.dtype(), reason);
  __builtin_unreachable();
}

int64_t launch_extent(const UOp& special) { return special ? special.src(0).value().as_i64() : 1; }

Signature signature_of(std::span<const UOp> linear) {
  Signature s;
  for (const UOp& u : linear) {
    if (u.op() == Op::Param) (u.param().space == AddrSpace::Alu ? s.variables : s.buffers).push_back(u);
    if (u.op() == Op::Special) place_of(s, *u.arg_as<TextArg>().text) = u;
  }
  std::ranges::sort(s.buffers, {}, [](const UOp& u) { return u.param().slot; });
  std::ranges::sort(s.variables, {}, [](const UOp& u) { return u.param().name; });
  for (size_t i = 1; i < s.buffers.size(); i++)
    CHECK(s.buffers[i].param().slot != s.buffers[i - 1].param().slot, "two Params in slot {}",
          s.buffers[i].param().slot);
  for (size_t i = 1; i < s.variables.size(); i++)
    CHECK(s.variables[i].param().name != s.variables[i - 1].param().name, "two variables {}",
          s.variables[i].param().name);
  return s;
}

void refuse_work_groups(const Signature& s, std::string_view renderer) {
  for (size_t i = 0; i < s.groups.size(); i++)
    CHECK(!s.groups[i] && !s.items[i], "the {} renderer knows no work groups", renderer);
}

int64_t lanes_of(const UOp& u) {
  if (!u.has_shape() || u.shape().empty()) return 0;
  CHECK(u.ndim() == 1, "value of shape {} in a linear program", u.shape());
  return u.shape()[0].value();
}

Address address_of(const UOp& address) {
  CHECK(is_address(address), "{} is not an address", address.op());
  const UOp& u = strip_after(address);
  Address a;
  a.buffer = strip_after(u.src(0));
  if (u.op() == Op::Index) {
    CHECK(u.n_srcs() == 2, "{} coordinates into flat memory", u.n_srcs() - 1);
    a.index = u.src(1);
    a.lanes = lanes_of(u.src(1));
    a.scattered = a.lanes > 0;
  } else {
    CHECK(u.src(1).n_srcs() == 1 && u.src(2).n_srcs() == 1, "address with {} offsets", u.src(1).n_srcs());
    a.index = u.src(1).src(0);
    a.lanes = u.src(2).src(0).value().as_i64();
    CHECK(a.lanes > 0, "address of {} elements", a.lanes);
  }
  CHECK(is_int(a.index.dtype()) && !is_weak(a.index.dtype()), "index of dtype {}", a.index.dtype());
  return a;
}

Access access_of(const UOp& u) {
  CHECK(u.op() == Op::Load || u.op() == Op::Store, "{} is no memory access", u.op());
  Access a;
  a.at = address_of(u.src(0));
  if (u.n_srcs() > 1) a.value = u.src(1);
  if (u.n_srcs() > 2) a.gate = u.src(2);
  CHECK(u.op() == Op::Store || u.n_srcs() != 2, "an alternative without a gate");
  for (size_t i = 1; i < u.n_srcs(); i++) {
    const int64_t lanes = lanes_of(u.src(i));
    CHECK(lanes == 0 || lanes == a.at.lanes, "{} lanes at an address of {}", lanes, a.at.lanes);
  }
  return a;
}

std::optional<std::vector<int64_t>> picked_lanes(const UOp& u) {
  const UOp& which = u.src(1);
  std::vector<int64_t> lanes;
  if (which.op() == Op::Const) {
    lanes.push_back(which.value().as_i64());
  } else if (which.op() == Op::Stack) {
    for (const UOp& k : which.srcs()) {
      if (!k.is_const()) return std::nullopt;
      lanes.push_back(k.value().as_i64());
    }
  } else {
    return std::nullopt;
  }
  for (int64_t k : lanes) CHECK(k >= 0 && k < lanes_of(u.src(0)), "lane {} of {}", k, lanes_of(u.src(0)));
  return lanes;
}

int64_t element_count(const UOp& buffer) { return prod(buffer.shape()).value(); }

// All of these ops are monotonic in each source, so the extremes are among the values at the sources' bounds.
bool cannot_overflow(const UOp& u) {
  for (const UOp& s : u.srcs())
    if (!is_signed_int(s.dtype()) && u.op() != Op::Shl) return false;
  if (!is_signed_int(u.dtype())) return false;
  for (int corner = 0; corner < 1 << u.n_srcs(); corner++) {
    SmallVec<Scalar, 2> at;
    for (size_t i = 0; i < u.n_srcs(); i++)
      at.push_back(corner >> i & 1 ? u.src(i).bounds().hi : u.src(i).bounds().lo);
    const std::optional<Scalar> exact = eval(u.op(), DType::WeakInt, at);
    if (!exact || exact->less(min_value(u.dtype())) || max_value(u.dtype()).less(*exact)) return false;
  }
  return true;
}

void check_operands(const UOp& u) {
  const bool compares = has_flag(u.op(), kComparison), shifts = u.op() == Op::Shl || u.op() == Op::Shr;
  for (size_t i = 0; i < u.n_srcs(); i++) {
    const DType d = u.src(i).dtype();
    const bool fits = u.op() == Op::Where && i == 0 ? is_bool(d)
                      : shifts && i == 1            ? is_int(d)
                      : compares                    ? d == u.src(0).dtype()
                                                    : d == u.dtype();
    CHECK(fits && !is_weak(d), "operand {} of a {} of {} is {}", i, u.op(), u.dtype(), d);
  }
}

std::string to_identifier(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (digit && out.empty()) out += '_';
    out += letter || digit ? c : '_';
  }
  return out.empty() ? "_" : out;
}

std::string NamePool::unique(const std::string& base) {
  for (std::string name = base;; name = fmt::format("{}_{}", base, used_[base]++))
    if (used_.try_emplace(name, 1).second) return name;
}

std::vector<UOp> value_sources(const UOp& u) {
  constexpr OpSet kNone = {Op::Param, Op::Buffer,  Op::Const, Op::Sink,  Op::Group,
                           Op::Noop,  Op::Barrier, Op::End,   Op::EndIf, Op::Special};
  if (kNone.contains(u.op())) return {};
  switch (u.op()) {
    case Op::If:
    case Op::Range:
    case Op::After: return {u.src(0)};
    case Op::Index:
      if (is_memory(u.src(0))) return {u.srcs().begin() + 1, u.srcs().end()};
      if (picked_lanes(u)) return {u.src(0)};
      return {u.src(0), u.src(1)};
    case Op::Shrink: return {u.src(1).src(0)};
    default: return {u.srcs().begin(), u.srcs().end()};
  }
}

std::unordered_set<const Node*> written_buffers(std::span<const UOp> linear) {
  std::unordered_set<const Node*> written;
  for (const UOp& u : linear)
    if (u.op() == Op::Store) written.insert(address_of(u.src(0)).buffer.node());
  return written;
}

}  // namespace lathe
