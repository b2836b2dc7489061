// Arithmetic of the LLVM renderer.
#include "renderer/llvm_writer.h"

namespace lathe {

using llvm_text::compute_dtype;
using llvm_text::scalar_type;
using llvm_text::suffix;
using llvm_text::type;
using llvm_text::with_lanes;

namespace {

std::string literal_lanes(DType d, const Scalar& v, int64_t n) {
  return n ? llvm_text::splat_literal(d, v) : llvm_text::literal(d, v);
}

}  // namespace

std::string LlvmWriter::call(const std::string& name, DType d, int64_t n,
                             std::initializer_list<std::string> args) {
  const std::string t = type(d, n), full = fmt::format("llvm.{}.{}", name, suffix(scalar_type(d), n));
  std::string types, values;
  for (const std::string& a : args) {
    types += (types.empty() ? "" : ", ") + t;
    values += fmt::format("{}{} {}", values.empty() ? "" : ", ", t, a);
  }
  module_.intrinsic(full, t, types);
  return value_of("call {} @{}({})", t, full, values);
}

// The operand in the type that arithmetic on it is done in.
std::string LlvmWriter::widened(const UOp& u, int64_t n) {
  if (u.dtype() != DType::BFloat16) return operand(u, n);
  if (strip_after(u).is_const())
    return literal_lanes(DType::Float32, cast_scalar(strip_after(u).value(), DType::BFloat16), n);
  return value_of("call {} @{}({})", with_lanes("float", n), module_.float_from_bfloat(n), typed(u, n));
}

std::string LlvmWriter::alu(const UOp& u) {
  check_operands(u);
  const int64_t n = lanes_of(u);
  if (has_flag(u.op(), kComparison)) return compare(u, n);
  if (u.op() == Op::Where) return where(u, n);
  if (is_bool(u.dtype())) return bool_alu(u, n);
  if (is_int(u.dtype())) return int_alu(u, n);
  const std::string r = float_alu(u, n);
  if (u.dtype() != DType::BFloat16) return r;
  return value_of("call {} @{}({} {})", with_lanes("i16", n), module_.bfloat_from_float(n),
                  with_lanes("float", n), r);
}

std::string LlvmWriter::where(const UOp& u, int64_t n) {
  const int64_t condition_lanes = lanes_of(u.src(0));
  return value_of("select {}, {}, {}", typed(u.src(0), condition_lanes), typed(u.src(1), n),
                  typed(u.src(2), n));
}

std::string LlvmWriter::compare(const UOp& u, int64_t n) {
  const DType d = u.src(0).dtype();
  const std::string a = widened(u.src(0), n), b = widened(u.src(1), n), t = type(compute_dtype(d), n);
  if (is_float(d)) {
    const char* predicate = u.op() == Op::CmpLt ? "olt" : u.op() == Op::CmpNe ? "une" : "oeq";
    return value_of("fcmp {} {} {}, {}", predicate, t, a, b);
  }
  const char* less = is_unsigned(d) || is_bool(d) ? "ult" : "slt";
  const char* predicate = u.op() == Op::CmpLt ? less : u.op() == Op::CmpNe ? "ne" : "eq";
  return value_of("icmp {} {} {}, {}", predicate, t, a, b);
}

// Sums and products of booleans are "or" and "and".
std::string LlvmWriter::bool_alu(const UOp& u, int64_t n) {
  const char* name = nullptr;
  switch (u.op()) {
    case Op::Add:
    case Op::Max:
    case Op::Or: name = "or"; break;
    case Op::Mul:
    case Op::And: name = "and"; break;
    case Op::Xor: name = "xor"; break;
    default: cannot_render(u, "LLVM");
  }
  return value_of("{} {} {}, {}", name, type(u.dtype(), n), operand(u.src(0), n), operand(u.src(1), n));
}

std::string LlvmWriter::int_alu(const UOp& u, int64_t n) {
  const bool is_signed = is_signed_int(u.dtype());
  const std::string t = type(u.dtype(), n), a = operand(u.src(0), n);
  if (u.op() == Op::Neg)
    return value_of("sub {}{} {}, {}", cannot_overflow(u) ? "nsw " : "", t, literal_lanes(u.dtype(), 0, n),
                    a);
  if (u.op() == Op::Trunc) return a;
  CHECK(u.n_srcs() > 1, "{} of {}", op_name(u.op()), dtype_name(u.dtype()));
  std::string b = operand(u.src(1), n);
  if (u.op() == Op::MulAcc) {
    const std::string product = value_of("mul {} {}, {}", t, a, b);
    return value_of("add {} {}, {}", t, product, operand(u.src(2), n));
  }
  const char* name = nullptr;
  bool wraps = false;
  switch (u.op()) {
    case Op::Add: name = "add", wraps = true; break;
    case Op::Sub: name = "sub", wraps = true; break;
    case Op::Mul: name = "mul", wraps = true; break;
    case Op::Shl: name = "shl", wraps = true; break;
    case Op::Shr: name = is_signed ? "ashr" : "lshr"; break;
    case Op::CDiv: name = is_signed ? "sdiv" : "udiv"; break;
    case Op::CMod: name = is_signed ? "srem" : "urem"; break;
    case Op::Xor: name = "xor"; break;
    case Op::Or: name = "or"; break;
    case Op::And: name = "and"; break;
    case Op::Max: return call(is_signed ? "smax" : "umax", u.dtype(), n, {a, b});
    default: cannot_render(u, "LLVM");
  }
  const DType count = u.src(1).dtype();
  if ((u.op() == Op::Shl || u.op() == Op::Shr) && bit_width(count) != bit_width(u.dtype()))
    b = value_of("{} {} {} to {}", bit_width(count) > bit_width(u.dtype()) ? "trunc" : "zext", type(count, n),
                 b, t);
  return value_of("{} {}{} {}, {}", name, wraps && cannot_overflow(u) ? "nsw " : "", t, a, b);
}

// "contract" alone: a product may fuse with a sum, and nothing else changes.
std::string LlvmWriter::float_alu(const UOp& u, int64_t n) {
  const DType d = compute_dtype(u.dtype());
  const std::string t = type(d, n), a = widened(u.src(0), n);
  switch (u.op()) {
    case Op::Neg: return value_of("fneg {} {}", t, a);
    case Op::Sqrt: return call("sqrt", d, n, {a});
    case Op::Trunc: return call("trunc", d, n, {a});
    case Op::Reciprocal: return value_of("fdiv {} {}, {}", t, literal_lanes(d, 1.0, n), a);
    default: break;
  }
  CHECK(u.n_srcs() > 1, "{} of {}", op_name(u.op()), dtype_name(u.dtype()));
  const std::string b = widened(u.src(1), n);
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
    case Op::MulAcc: return call(target_.has_fma ? "fma" : "fmuladd", d, n, {a, b, widened(u.src(2), n)});
    default: cannot_render(u, "LLVM");
  }
}

// ---- conversions

std::string LlvmWriter::cast(const UOp& u) {
  const int64_t n = lanes_of(u);
  const DType from = u.src(0).dtype(), to = u.dtype();
  const std::string x = operand(u.src(0), n), f = type(from, n), t = type(to, n);
  if (from == to) return x;
  if (is_float(from) && is_float(to)) return cast_float(x, from, to, n);
  if (is_bool(to)) {
    if (is_float(from))
      return value_of("fcmp une {} {}, {}", type(compute_dtype(from), n), widened(u.src(0), n),
                      literal_lanes(compute_dtype(from), 0.0, n));
    return value_of("icmp ne {} {}, {}", f, x, literal_lanes(from, 0, n));
  }
  if (is_float(from)) return int_from_float(x, from, to, n);
  if (is_float(to)) return float_from_int(x, from, to, n);
  const int from_bits = bit_width(from), to_bits = bit_width(to);
  if (from_bits == to_bits) return x;
  if (from_bits > to_bits) return value_of("trunc {} {} to {}", f, x, t);
  return value_of("{} {} {} to {}", is_signed_int(from) ? "sext" : "zext", f, x, t);
}

std::string LlvmWriter::cast_float(const std::string& x, DType from, DType to, int64_t n) {
  const std::string single = with_lanes("float", n);
  if (from == DType::BFloat16) {
    const std::string wide =
        value_of("call {} @{}({} {})", single, module_.float_from_bfloat(n), type(from, n), x);
    return cast_float(wide, DType::Float32, to, n);
  }
  if (from == to) return x;
  if (from == DType::Float64 && to == DType::Float16) {
    const std::string odd =
        value_of("call {} @{}({} {})", single, module_.float_from_double_odd(n), type(from, n), x);
    return cast_float(odd, DType::Float32, to, n);
  }
  if (to == DType::BFloat16) {
    const std::string wide = cast_float(x, from, DType::Float32, n);
    return value_of("call {} @{}({} {})", type(to, n), module_.bfloat_from_float(n), single, wide);
  }
  const char* name = bit_width(to) > bit_width(from) ? "fpext" : "fptrunc";
  return value_of("{} {} {} to {}", name, type(from, n), x, type(to, n));
}

// Integers wrap as far as one wider conversion carries them: narrow types go through int32, uint32 through
// int64.
std::string LlvmWriter::int_from_float(std::string x, DType from, DType to, int64_t n) {
  if (from != DType::Float64) x = cast_float(x, from, DType::Float32, n);
  const DType source = from == DType::Float64 ? from : DType::Float32;
  if (to == DType::UInt64)
    return value_of("call {} @{}({} {})", type(to, n), module_.uint64_from(source, n), type(source, n), x);
  const DType via = bit_width(to) < 32 ? DType::Int32 : to == DType::UInt32 ? DType::Int64 : to;
  const std::string r = value_of("fptosi {} {} to {}", type(source, n), x, type(via, n));
  return via == to ? r : value_of("trunc {} {} to {}", type(via, n), r, type(to, n));
}

std::string LlvmWriter::float_from_int(const std::string& x, DType from, DType to, int64_t n) {
  // Every integer that float rounds is far beyond the largest half; bfloat16 rounds to float first by
  // definition.
  const DType via = bit_width(to) < 32 ? DType::Float32 : to;
  const std::string r =
      value_of("{} {} {} to {}", is_signed_int(from) ? "sitofp" : "uitofp", type(from, n), x, type(via, n));
  return cast_float(r, via, to, n);
}

std::string LlvmWriter::bitcast(const UOp& u) {
  const int64_t n = lanes_of(u.src(0)), m = lanes_of(u);
  const DType from = u.src(0).dtype(), to = u.dtype();
  std::string x = operand(u.src(0), n), f = type(from, n);
  if (is_bool(from)) {
    x = to_memory(x, from, n);
    f = with_lanes("i8", n);
  }
  const std::string t = with_lanes(llvm_text::memory_type(to), m);
  const std::string r = f == t ? x : value_of("bitcast {} {} to {}", f, x, t);
  return from_memory(r, to, m);
}

}  // namespace lathe
