// Arithmetic of the C family.
#include "renderer/c_writer.h"

namespace lathe {
namespace {

constexpr OpSet kChains{Op::Add, Op::Mul, Op::Xor, Op::Or, Op::And};

// Results that may leave the type and then wrap.
constexpr OpSet kWraps{Op::Add, Op::Sub, Op::Mul, Op::Shl, Op::Neg, Op::MulAcc};

}  // namespace

// The table's spelling; a left operand that is a chain of the same operator loses its parentheses.
std::string CWriter::spelled(const UOp& u, const std::string& a, const std::string& b, const std::string& c) {
  const bool chained =
      kChains.contains(u.op()) && value(u.src(0)).chain == u.op() && value(u.src(0)).text == a;
  return fmt::format(fmt::runtime(info(u.op()).spelling), chained ? without_parentheses(a) : a, b, c);
}

// Ops that are a function call on both scalars and vectors; empty for others.
std::string CWriter::function_alu(const UOp& u, int64_t n) {
  const CElement e = register_element(u.dtype());
  const auto operand = [&](size_t i) {
    return without_parentheses(n ? lanes(u.src(i), n) : scalar(u.src(i)));
  };
  if (u.op() == Op::Trunc && !is_float(u.dtype())) return operand(0);
  if (u.op() == Op::Sqrt || u.op() == Op::Trunc)
    return fmt::format("{}({})", helpers_.rounding(u.op() == Op::Sqrt ? "sqrt" : "trunc", e, n), operand(0));
  if (u.op() == Op::Max && !is_bool(u.dtype()))
    return fmt::format("{}({}, {})", helpers_.max(e, n), operand(0), operand(1));
  return "";
}

// ---- scalars

void CWriter::alu(const UOp& u) {
  if (!target_.native_ops.contains(u.op())) cannot_render(u, dialect_.language);
  check_operands(u);
  const int64_t n = lanes_of(u);
  define(u, n ? vector_alu(u, n) : scalar_alu(u), true);
}

CWriter::Value CWriter::scalar_alu(const UOp& u) {
  const DType d = u.dtype();
  const std::string a = scalar(u.src(0)), b = u.n_srcs() > 1 ? scalar(u.src(1)) : "",
                    c = u.n_srcs() > 2 ? scalar(u.src(2)) : "";
  if (const std::string call = function_alu(u, 0); !call.empty()) return {call};
  if (is_bool(d) && !has_flag(u.op(), kComparison)) {
    if (u.op() == Op::Add || u.op() == Op::Max) return {fmt::format("({}|{})", a, b)};
    if (u.op() == Op::Mul) return {fmt::format("({}&{})", a, b)};
    if (u.op() != Op::Xor && u.op() != Op::Or && u.op() != Op::And && u.op() != Op::Where)
      cannot_render(u, dialect_.language);
    return {spelled(u, a, b, c), u.op()};
  }
  if (u.op() == Op::Reciprocal) return {fmt::format("({}/{})", float_literal(d, 1.0), a)};
  const bool wraps = kWraps.contains(u.op());
  if (!is_int(d) || has_flag(u.op(), kComparison) || u.op() == Op::Where)
    return {spelled(u, a, b, c), u.op()};
  if (bit_width(d) >= 32 && (!wraps || is_unsigned(d) || (u.op() != Op::MulAcc && cannot_overflow(u))))
    return {spelled(u, a, b, c), u.op()};
  // Signed overflow is undefined and narrow operands become int: wrap in an unsigned type, then come back.
  const std::string t = scalar_type(d);
  if (!wraps) return {fmt::format("(({}){})", t, spelled(u, a, b, c))};
  const std::string wide = dialect_.scalar_name({'u', std::max(bit_width(d), 32)});
  const auto unsign = [&](const std::string& x) { return x.empty() ? x : fmt::format("({}){}", wide, x); };
  return {fmt::format("(({}){})", t, spelled(u, unsign(a), u.op() == Op::Shl ? b : unsign(b), unsign(c)))};
}

// ---- vectors

CWriter::Value CWriter::vector_where(const UOp& u, int64_t n) {
  CElement e = register_element(u.dtype());
  const bool masks = is_bool(u.dtype());
  if (masks)
    for (size_t i = 1; i < 3; i++)
      if (lanes_of(u.src(i))) e.bits = std::max(e.bits, value(u.src(i)).mask_bits);
  const std::string a = lanes(u.src(1), n, e.bits), b = lanes(u.src(2), n, e.bits);
  const int mask_bits = masks ? e.bits : 0;
  if (lanes_of(u.src(0)) == 0)
    return {fmt::format("({} ? {} : {})", scalar(u.src(0)), a, b), Op::Noop, mask_bits};
  return {fmt::format("{}({}, {}, {})", helpers_.where(e, n), lanes(u.src(0), n, e.bits), a, b), Op::Noop,
          mask_bits};
}

CWriter::Value CWriter::vector_alu(const UOp& u, int64_t n) {
  const DType d = u.dtype(), from = u.src(0).dtype();
  if (u.op() == Op::Where) return vector_where(u, n);
  if (is_bool(d) && is_bool(from)) return vector_bool(u, n);
  if (is_bool(d)) {
    const int bits = register_element(from).bits;
    return {reinterpret(spelled(u, lanes(u.src(0), n), lanes(u.src(1), n), ""), {'i', bits}, n), Op::Noop,
            bits};
  }
  if (const std::string call = function_alu(u, n); !call.empty()) return {call};
  if (is_int(d)) return vector_int(u, n);
  const std::string a = lanes(u.src(0), n);
  if (u.op() == Op::Reciprocal)
    return {fmt::format("({}({})/{})", helpers_.splat(register_element(d), n), float_literal(d, 1.0), a)};
  return {spelled(u, a, u.n_srcs() > 1 ? lanes(u.src(1), n) : "", u.n_srcs() > 2 ? lanes(u.src(2), n) : ""),
          u.op()};
}

// Lanes are 0 or -1.
CWriter::Value CWriter::vector_bool(const UOp& u, int64_t n) {
  int bits = 0;
  for (const UOp& s : u.srcs())
    if (lanes_of(s)) bits = std::max(bits, value(s).mask_bits);
  if (u.n_srcs() != 2) cannot_render(u, dialect_.language);
  const std::string a = lanes(u.src(0), n, bits), b = lanes(u.src(1), n, bits);
  const auto mask = [&](const char* form) {
    return Value{fmt::format(fmt::runtime(form), a, b), Op::Noop, bits};
  };
  switch (u.op()) {
    case Op::Add:
    case Op::Max:
    case Op::Or: return mask("({}|{})");
    case Op::Mul:
    case Op::And: return mask("({}&{})");
    case Op::Xor:
    case Op::CmpNe: return mask("({}^{})");
    case Op::CmpEq: return mask("(~({}^{}))");
    case Op::CmpLt: return mask("(~{}&{})");
    default: cannot_render(u, dialect_.language);
  }
}

CWriter::Value CWriter::vector_int(const UOp& u, int64_t n) {
  const DType d = u.dtype();
  const CElement e = register_element(d);
  std::string a = lanes(u.src(0), n), b = u.n_srcs() > 1 ? lanes(u.src(1), n) : "",
              c = u.n_srcs() > 2 ? lanes(u.src(2), n) : "";
  if (u.op() == Op::Shl || u.op() == Op::Shr) b = convert(b, register_element(u.src(1).dtype()), e, n);
  const bool divides = u.op() == Op::CDiv || u.op() == Op::CMod;
  if (divides && n != padded_lanes(n))
    return {fmt::format("{}({}, {})", helpers_.divide(e, n, u.op() == Op::CMod), a, b)};
  if (!kWraps.contains(u.op()) || is_unsigned(d)) return {spelled(u, a, b, c), u.op()};
  const CElement wide{'u', e.bits};
  const auto unsign = [&](const std::string& x) { return x.empty() ? x : convert(x, e, wide, n); };
  return {convert(spelled(u, unsign(a), unsign(b), unsign(c)), wide, e, n)};
}

// ---- conversions

CWriter::Value CWriter::cast_value(const UOp& u) {
  if (const int64_t n = lanes_of(u)) return vector_cast(u, n);
  return {scalar_cast(scalar(u.src(0)), u.src(0).dtype(), u.dtype())};
}

// Floats that leave a narrow integer wrap as far as int32 carries them, uint32 as far as int64.
std::string CWriter::scalar_cast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  if (is_bool(to)) return fmt::format("({}!=0)", x);
  const int via = !is_float(from) || !is_int(to) ? 0 : bit_width(to) < 32 ? 32 : to == DType::UInt32 ? 64 : 0;
  return fmt::format("(({}){}{})", scalar_type(to),
                     via ? fmt::format("({})", dialect_.scalar_name({'i', via})) : "", x);
}

CWriter::Value CWriter::vector_cast(const UOp& u, int64_t n) {
  const DType from = u.src(0).dtype(), to = u.dtype();
  const Value& x = value(u.src(0));
  const CElement e = register_element(to);
  if (is_bool(from)) {
    if (is_bool(to)) return x;
    const CElement mask{'i', x.mask_bits};
    return {convert(fmt::format("({}&1)", x.text), mask, e, n)};
  }
  if (is_bool(to)) {
    const int bits = register_element(from).bits;
    return {reinterpret(fmt::format("({}!=0)", x.text), {'i', bits}, n), Op::Noop, bits};
  }
  const CElement f = register_element(from);
  CElement via = e;
  if (is_float(from) && is_int(to) && e.bits < 32) via = {'i', 32};
  if (is_float(from) && to == DType::UInt32) via = {'i', 64};
  return {convert(convert(x.text, f, via, n), via, e, n)};
}

CWriter::Value CWriter::bitcast_value(const UOp& u) {
  const DType from = u.src(0).dtype(), to = u.dtype();
  const int64_t n = lanes_of(u.src(0)), m = lanes_of(u);
  if (is_bool(from) || is_bool(to)) {  // a boolean's bits are its byte
    if (n) {
      if (is_bool(from))
        return {convert(fmt::format("({}&1)", value(u.src(0)).text), {'i', value(u.src(0)).mask_bits},
                        register_element(to), n)};
      return {reinterpret(fmt::format("({}!=0)", scalar(u.src(0))), {'i', 8}, n), Op::Noop, 8};
    }
    return {scalar_cast(scalar(u.src(0)), from, to)};
  }
  const std::string x = scalar(u.src(0));
  const CElement f = register_element(from), t = register_element(to);
  if (n)
    CHECK(m * t.bits == n * f.bits && (n == m || (n == padded_lanes(n) && m == padded_lanes(m))),
          "bitcast of {} lanes to {}", n, m);
  if (f == t) return {x};
  if (n) return {reinterpret(x, t, m)};
  if (f.kind != 'f' && t.kind != 'f') return {fmt::format("(({}){})", dialect_.scalar_name(t), x)};
  return {fmt::format("{}({})", helpers_.bitcast(f, t), without_parentheses(x))};
}

// ---- lanes

CWriter::Value CWriter::stack_value(const UOp& u) {
  const bool masks = is_bool(u.dtype());
  const CElement e = masks ? CElement{'i', 8} : register_element(u.dtype());
  const int64_t n = static_cast<int64_t>(u.n_srcs());
  std::string items;
  bool same = true;
  for (const UOp& lane : u.srcs()) {
    CHECK(lanes_of(lane) == 0, "a Stack of vectors in a linear program");
    same = same && lane == u.src(0);
    items += fmt::format("{}{}{}", items.empty() ? "" : ", ", masks ? "-" : "", scalar(lane));
  }
  if (same) return {lanes(u.src(0), n, 8), Op::Noop, masks ? 8 : 0};
  if (dialect_.is_device)
    for (int64_t i = n; i < padded_lanes(n); i++) items += ", 0";
  return {helpers_.literal(helpers_.vector_type(e, n), items), Op::Noop, masks ? 8 : 0};
}

CWriter::Value CWriter::pick_value(const UOp& u) {
  const UOp& x = u.src(0);
  const bool masks = is_bool(u.dtype());
  const auto picked = picked_lanes(u);
  const Value& v = value(x);
  CHECK(picked, "lane numbers must be constant");
  if (lanes_of(u) == 0) {
    const std::string lane = helpers_.lane(v.text, (*picked)[0]);
    return {masks ? fmt::format("({}!=0)", lane) : lane};
  }
  const CElement e = masks ? CElement{'i', v.mask_bits} : register_element(u.dtype());
  return {fmt::format("{}({})", helpers_.shuffle(e, lanes_of(x), *picked), without_parentheses(v.text)),
          Op::Noop, v.mask_bits};
}

}  // namespace lathe
