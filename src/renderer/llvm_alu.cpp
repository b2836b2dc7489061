// Types and arithmetic of the LLVM renderer.
#include "renderer/llvm_writer.h"
#include "uop/number_formats.h"

#include <bit>

namespace lathe {

// ---- types and literals

std::string LlvmWriter::with_lanes(std::string_view scalar, int64_t lanes) {
  return lanes ? fmt::format("<{} x {}>", lanes, scalar) : std::string(scalar);
}

std::string_view LlvmWriter::scalar_type(DType d) {
  static constexpr std::string_view kInts[] = {"i8", "i16", "i32", "i64"},
                                    kFloats[] = {"", "half", "float", "double"};
  if (is_bool(d)) return "i1";
  CHECK(d != DType::Void && !is_weak(d) && (!is_narrow_float(d) || d == DType::Float16),
        "LLVM has no type for {}", d);
  return (is_float(d) ? kFloats : kInts)[std::countr_zero(static_cast<uint64_t>(item_size(d)))];
}

std::string_view LlvmWriter::memory_type(DType d) { return d == DType::Bool ? "i8" : scalar_type(d); }
std::string LlvmWriter::type(DType d, int64_t lanes) { return with_lanes(scalar_type(d), lanes); }

std::string LlvmWriter::literal(DType d, const Scalar& v, int64_t lanes) {
  if (lanes) return fmt::format("splat ({} {})", scalar_type(d), literal(d, v));
  const Scalar x = cast_scalar(v, d);
  if (d == DType::Bool) return x.as_bool() ? "true" : "false";
  if (d == DType::Float16) return fmt::format("0xH{:04X}", encode(x, d));
  if (is_float(d)) return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(x.as_double()));
  if (d == DType::UInt64) return fmt::format("{}", static_cast<uint64_t>(x.as_int()));
  return fmt::format("{}", x.as_i64());
}

std::string LlvmWriter::suffix(std::string_view scalar, int64_t lanes) {
  const std::string s = scalar == "float"    ? "f32"
                        : scalar == "double" ? "f64"
                        : scalar == "half"   ? "f16"
                                             : std::string(scalar);
  return lanes ? fmt::format("v{}{}", lanes, s) : s;
}

// ---- arithmetic

std::string LlvmWriter::call(const std::string& name, DType d, int64_t n,
                             std::initializer_list<std::string> args) {
  const std::string t = type(d, n), full = fmt::format("llvm.{}.{}", name, suffix(scalar_type(d), n));
  std::string types, values;
  for (const std::string& a : args) {
    types += (types.empty() ? "" : ", ") + t;
    values += fmt::format("{}{} {}", values.empty() ? "" : ", ", t, a);
  }
  declare(t, full, types);
  return value_of("call {} @{}({})", t, full, values);
}

void LlvmWriter::alu(const UOp& u) {
  if (u.op() == Op::Dot) return dot(u);
  if (!target_.native_ops.contains(u.op())) cannot_render(u, kLanguage);
  check_operands(u);
  const int64_t n = lanes_of(u);
  if (has_flag(u.op(), kComparison)) return define(u, compare(u, n));
  if (u.op() == Op::Where)
    return define(u, value_of("select {}, {}, {}", typed(u.src(0), lanes_of(u.src(0))), typed(u.src(1), n),
                              typed(u.src(2), n)));
  define(u, is_float(u.dtype()) ? float_alu(u, n) : int_alu(u, n));
}

std::string LlvmWriter::compare(const UOp& u, int64_t n) {
  const DType d = u.src(0).dtype();
  const bool less = u.op() == Op::CmpLt, differs = u.op() == Op::CmpNe;
  const char* predicate = is_float(d)        ? (less      ? "fcmp olt"
                                                : differs ? "fcmp une"
                                                          : "fcmp oeq")
                          : !less            ? (differs ? "icmp ne" : "icmp eq")
                          : is_signed_int(d) ? "icmp slt"
                                             : "icmp ult";
  return value_of("{} {}, {}", predicate, typed(u.src(0), n), operand(u.src(1), n));
}

// Sums and products of booleans are "or" and "and".
std::string LlvmWriter::int_alu(const UOp& u, int64_t n) {
  const DType d = u.dtype();
  const bool is_signed = is_signed_int(d);
  const std::string t = type(d, n), a = operand(u.src(0), n);
  if (u.op() == Op::Neg)
    return value_of("sub {}{} {}, {}", cannot_overflow(u) ? "nsw " : "", t, literal(d, 0, n), a);
  if (u.op() == Op::Trunc) return a;
  CHECK(u.n_srcs() > 1, "{} of {}", u.op(), d);
  std::string b = operand(u.src(1), n);
  if (u.op() == Op::MulAcc) {
    const std::string product = value_of("mul {} {}, {}", t, a, b);
    return value_of("add {} {}, {}", t, product, operand(u.src(2), n));
  }
  const bool wraps = u.op() == Op::Add || u.op() == Op::Sub || u.op() == Op::Mul || u.op() == Op::Shl;
  const char* name = nullptr;
  switch (u.op()) {
    case Op::Add: name = is_bool(d) ? "or" : "add"; break;
    case Op::Mul: name = is_bool(d) ? "and" : "mul"; break;
    case Op::Xor: name = "xor"; break;
    case Op::Or: name = "or"; break;
    case Op::And: name = "and"; break;
    case Op::Max:
      if (!is_bool(d)) return call(is_signed ? "smax" : "umax", d, n, {a, b});
      name = "or";
      break;
    case Op::Sub: name = "sub"; break;
    case Op::Shl: name = "shl"; break;
    case Op::Shr: name = is_signed ? "ashr" : "lshr"; break;
    case Op::CDiv: name = is_signed ? "sdiv" : "udiv"; break;
    case Op::CMod: name = is_signed ? "srem" : "urem"; break;
    default: cannot_render(u, kLanguage);
  }
  const int count_bits = bit_width(u.src(1).dtype());
  if ((u.op() == Op::Shl || u.op() == Op::Shr) && count_bits != bit_width(d))
    b = value_of("{} {} to {}", count_bits > bit_width(d) ? "trunc" : "zext", typed(u.src(1), n), t);
  return value_of("{} {}{} {}, {}", name, wraps && cannot_overflow(u) ? "nsw " : "", t, a, b);
}

// "contract" alone: a product may fuse with a sum, and nothing else changes.
std::string LlvmWriter::float_alu(const UOp& u, int64_t n) {
  const DType d = u.dtype();
  const std::string t = type(d, n), a = operand(u.src(0), n);
  switch (u.op()) {
    case Op::Neg: return value_of("fneg {} {}", t, a);
    case Op::Sqrt: return call("sqrt", d, n, {a});
    case Op::Trunc: return call("trunc", d, n, {a});
    case Op::Reciprocal: return value_of("fdiv {} {}, {}", t, literal(d, 1.0, n), a);
    default: break;
  }
  CHECK(u.n_srcs() > 1, "{} of {}", u.op(), u.dtype());
  const std::string b = operand(u.src(1), n);
  switch (u.op()) {
    case Op::Add: return value_of("fadd contract {} {}, {}", t, a, b);
    case Op::Sub: return value_of("fsub contract {} {}, {}", t, a, b);
    case Op::Mul: return value_of("fmul contract {} {}, {}", t, a, b);
    case Op::FDiv: return value_of("fdiv {} {}, {}", t, a, b);
    case Op::Max: {
      const std::string less = value_of("fcmp olt {} {}, {}", t, a, b);
      return value_of("select {} {}, {} {}, {} {}", with_lanes("i1", n), less, t, b, t, a);
    }
    // Where there is no instruction, fma would be a slow exact function.
    case Op::MulAcc: return call(target_.has_fma ? "fma" : "fmuladd", d, n, {a, b, operand(u.src(2), n)});
    default: cannot_render(u, kLanguage);
  }
}

// ---- dot instructions

// `count` lanes of a vector from lane `first` on; those beyond its `n` lanes are anything.
std::string LlvmWriter::lanes_from(const std::string& x, std::string_view scalar, int64_t n, int64_t first,
                                   int64_t count) {
  if (first == 0 && count == n) return x;
  std::vector<int64_t> mask;
  for (int64_t i = first; i < first + count; i++) mask.push_back(i >= 0 && i < n ? i : -1);
  return shuffle(scalar, n, x, "poison", mask);
}

// An operand of a Dot as `n` lanes of 32 bits, one a group.
std::string LlvmWriter::words(const UOp& u, int64_t group, int64_t n) {
  const int64_t own = lanes_of(u);
  const std::string x = typed(u, own ? own : group);
  if (own == n * group) return value_of("bitcast {} to {}", x, with_lanes("i32", n));
  return splat(value_of("bitcast {} to i32", x), "i32", n);
}

// In as many instructions as the lanes need; the last may have some to spare.
void LlvmWriter::dot(const UOp& u) {
  const DType a = u.src(1).dtype() == DType::UInt16 ? DType::BFloat16 : u.src(1).dtype();
  const DType b = u.src(2).dtype() == DType::UInt16 ? DType::BFloat16 : u.src(2).dtype();
  const int64_t n = std::max<int64_t>(lanes_of(u), 1), group = 32 / bit_width(a);
  const DotInstruction* dot = target_.dot(a, b, u.dtype());
  for (const DotInstruction& d : target_.dots)  // the narrowest that takes all, else the widest
    if (dot && d.a == dot->a && d.b == dot->b && d.lanes >= n) dot = &d;
  if (!dot) cannot_render(u, kLanguage);
  const int64_t w = dot->lanes;
  const std::string_view one = scalar_type(u.dtype());
  const std::string sums = with_lanes(one, w), all = with_lanes(one, n);
  const std::string operands = with_lanes(dot->element, dot->element == "i32" ? w : w * group);
  const bool single = lanes_of(u) == 0;
  const std::string acc =
      single ? value_of("insertelement {} poison, {}, i64 0", all, typed(u.src(0), 0)) : operand(u.src(0), n);
  std::string out;
  const std::string x = words(u.src(1), group, n), y = words(u.src(2), group, n);
  for (int64_t first = 0; first < n; first += w) {
    const auto part = [&](const std::string& v) {
      const std::string chunk = lanes_from(v, "i32", n, first, w);
      return dot->element == "i32" ? chunk : value_of("bitcast <{} x i32> {} to {}", w, chunk, operands);
    };
    const std::string p = part(x), q = part(y), start = lanes_from(acc, one, n, first, w);
    std::string sum;
    if (dot->adds) {
      declare(sums, std::string(dot->intrinsic), fmt::format("{}, {}, {}", sums, operands, operands));
      sum = value_of("call {0} @{1}({0} {2}, {3} {4}, {3} {5})", sums, dot->intrinsic, start, operands, p, q);
    } else {
      declare(sums, std::string(dot->intrinsic), fmt::format("{}, {}", operands, operands));
      const std::string products =
          value_of("call {0} @{1}({2} {3}, {2} {4})", sums, dot->intrinsic, operands, p, q);
      sum = value_of("add {} {}, {}", sums, start, products);
    }
    const std::string placed = lanes_from(sum, one, w, -first, n);
    std::vector<int64_t> mask;
    for (int64_t i = 0; i < n; i++) mask.push_back(i < first ? i : n + i);
    out = out.empty() ? placed : shuffle(one, n, out, placed, mask);
  }
  define(u, single ? value_of("extractelement {} {}, i64 0", all, out) : out);
}

// ---- conversions

void LlvmWriter::cast(const UOp& u) {
  const bool same = u.src(0).dtype() == u.dtype();
  define(u, same ? operand(u.src(0), lanes_of(u)) : converted(u, lanes_of(u)));
}

std::string LlvmWriter::converted(const UOp& u, int64_t n) {
  const DType from = u.src(0).dtype(), to = u.dtype();
  const std::string x = typed(u.src(0), n), t = type(to, n);
  if (is_bool(to))
    return value_of("{} {}, {}", is_float(from) ? "fcmp une" : "icmp ne", x, literal(from, 0, n));
  const int from_bits = bit_width(from), to_bits = bit_width(to);
  if (is_float(from) && is_int(to)) {
    // Integers wrap as far as one wider conversion carries them: narrow types go through int32, uint32
    // through int64.
    const DType via = to_bits < 32 ? DType::Int32 : to == DType::UInt32 ? DType::Int64 : to;
    const std::string r = value_of("{} {} to {}", is_unsigned(via) ? "fptoui" : "fptosi", x, type(via, n));
    return via == to ? r : value_of("trunc {} {} to {}", type(via, n), r, t);
  }
  if (!is_float(from) && is_float(to)) {
    // Every integer that float rounds is far beyond the largest half.
    const DType via = to_bits < 32 ? DType::Float32 : to;
    const std::string r = value_of("{} {} to {}", is_signed_int(from) ? "sitofp" : "uitofp", x, type(via, n));
    return via == to ? r : value_of("fptrunc {} {} to {}", type(via, n), r, t);
  }
  if (from_bits == to_bits) return operand(u.src(0), n);
  const char* name = is_float(to)          ? (from_bits > to_bits ? "fptrunc" : "fpext")
                     : from_bits > to_bits ? "trunc"
                     : is_signed_int(from) ? "sext"
                                           : "zext";
  return value_of("{} {} to {}", name, x, t);
}

void LlvmWriter::bitcast(const UOp& u) {
  const int64_t n = lanes_of(u.src(0)), m = lanes_of(u);
  const DType from = u.src(0).dtype(), to = u.dtype();
  std::string x = operand(u.src(0), n), f = type(from, n);
  if (is_bool(from)) {
    x = to_memory(x, from, n);
    f = with_lanes("i8", n);
  }
  const std::string t = with_lanes(memory_type(to), m);
  const std::string r = f == t ? x : value_of("bitcast {} {} to {}", f, x, t);
  define(u, from_memory(r, to, m));
}

}  // namespace lathe
