#include "renderer/llvm_text.h"

#include "base/error.h"

#include <fmt/core.h>

#include <bit>

namespace lathe::llvm_text {

std::string with_lanes(std::string_view scalar, int64_t lanes) {
  return lanes ? fmt::format("<{} x {}>", lanes, scalar) : std::string(scalar);
}

std::string_view scalar_type(DType d) {
  switch (d) {
    case DType::Bool: return "i1";
    case DType::Int8:
    case DType::UInt8: return "i8";
    case DType::Int16:
    case DType::UInt16:
    case DType::BFloat16: return "i16";
    case DType::Int32:
    case DType::UInt32: return "i32";
    case DType::Int64:
    case DType::UInt64: return "i64";
    case DType::Float16: return "half";
    case DType::Float32: return "float";
    case DType::Float64: return "double";
    default: break;
  }
  CHECK(false, "LLVM has no type for {}", dtype_name(d));
  __builtin_unreachable();
}

std::string_view memory_type(DType d) { return d == DType::Bool ? "i8" : scalar_type(d); }
std::string type(DType d, int64_t lanes) { return with_lanes(scalar_type(d), lanes); }
DType compute_dtype(DType d) { return d == DType::BFloat16 ? DType::Float32 : d; }

std::string literal(DType d, const Scalar& v) {
  const Scalar x = cast_scalar(v, d);
  if (d == DType::Bool) return x.as_bool() ? "true" : "false";
  if (d == DType::BFloat16) return fmt::format("{}", encode(x, d));
  if (d == DType::Float16) return fmt::format("0xH{:04X}", encode(x, d));
  if (is_float(d)) return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(x.as_double()));
  if (d == DType::UInt64) return fmt::format("{}", static_cast<uint64_t>(x.as_int()));
  return fmt::format("{}", x.as_i64());
}

std::string splat_literal(DType d, const Scalar& v) {
  return fmt::format("splat ({} {})", scalar_type(d), literal(d, v));
}

std::string suffix(std::string_view scalar, int64_t lanes) {
  const std::string s = scalar == "float"    ? "f32"
                        : scalar == "double" ? "f64"
                        : scalar == "half"   ? "f16"
                                             : std::string(scalar);
  return lanes ? fmt::format("v{}{}", lanes, s) : s;
}

std::string Module::intrinsic(const std::string& name, const std::string& result,
                              const std::string& arguments) {
  declarations_.insert(fmt::format("declare {} @{}({})\n", result, name, arguments));
  return name;
}

std::string Module::helper(const std::string& name, const std::string& definition) {
  helpers_.emplace(name, definition);
  return name;
}

std::string Module::bfloat_from_float(int64_t lanes) {
  const std::string f = with_lanes("float", lanes), i = with_lanes("i32", lanes),
                    h = with_lanes("i16", lanes);
  const std::string name = "bf16_from_" + suffix("float", lanes);
  const auto c = [&](int v) { return lanes ? fmt::format("splat (i32 {})", v) : fmt::format("{}", v); };
  return helper(name, fmt::format("define internal {5} @{0}({1} %x) #1 {{\n"
                                  "  %bits = bitcast {1} %x to {2}\n"
                                  "  %high = lshr {2} %bits, {6}\n"
                                  "  %odd = and {2} %high, {7}\n"
                                  "  %half = add {2} %odd, {8}\n"
                                  "  %sum = add {2} %bits, %half\n"
                                  "  %rounded = lshr {2} %sum, {6}\n"
                                  "  %quiet = or {2} %high, {9}\n"
                                  "  %isnan = fcmp uno {1} %x, %x\n"
                                  "  %chosen = select {3} %isnan, {2} %quiet, {2} %rounded\n"
                                  "  %r = trunc {2} %chosen to {4}\n"
                                  "  ret {4} %r\n}}\n",
                                  name, f, i, with_lanes("i1", lanes), h, h, c(16), c(1), c(0x7fff), c(64)));
}

std::string Module::float_from_bfloat(int64_t lanes) {
  const std::string f = with_lanes("float", lanes), i = with_lanes("i32", lanes),
                    h = with_lanes("i16", lanes);
  const std::string name = suffix("float", lanes) + "_from_bf16";
  return helper(name, fmt::format("define internal {1} @{0}({3} %x) #1 {{\n"
                                  "  %wide = zext {3} %x to {2}\n"
                                  "  %bits = shl {2} %wide, {4}\n"
                                  "  %r = bitcast {2} %bits to {1}\n"
                                  "  ret {1} %r\n}}\n",
                                  name, f, i, h, lanes ? "splat (i32 16)" : "16"));
}

std::string Module::float_from_double_odd(int64_t lanes) {
  const std::string d = with_lanes("double", lanes), f = with_lanes("float", lanes),
                    i = with_lanes("i32", lanes);
  const std::string b = with_lanes("i1", lanes);
  const std::string name = suffix("float", lanes) + "_from_f64_odd";
  const std::string fabs = intrinsic("llvm.fabs." + suffix("double", lanes), d, d);
  return helper(name, fmt::format("define internal {2} @{0}({1} %x) #1 {{\n"
                                  "  %near = fptrunc {1} %x to {2}\n"
                                  "  %back = fpext {2} %near to {1}\n"
                                  "  %inexact = fcmp une {1} %back, %x\n"
                                  "  %a = call {1} @{5}({1} %x)\n"
                                  "  %b = call {1} @{5}({1} %back)\n"
                                  "  %above = fcmp ogt {1} %b, %a\n"
                                  "  %bits = bitcast {2} %near to {3}\n"
                                  "  %step = zext {4} %above to {3}\n"
                                  "  %truncated = sub {3} %bits, %step\n"
                                  "  %sticky = zext {4} %inexact to {3}\n"
                                  "  %odd = or {3} %truncated, %sticky\n"
                                  "  %r = bitcast {3} %odd to {2}\n"
                                  "  ret {2} %r\n}}\n",
                                  name, d, f, i, b, fabs));
}

std::string Module::uint64_from(DType from, int64_t lanes) {
  const std::string f = type(from, lanes), i = with_lanes("i64", lanes), b = with_lanes("i1", lanes);
  const std::string name = "u64_from_" + suffix(scalar_type(from), lanes);
  const Scalar limit(9223372036854775808.0);
  const std::string big = lanes ? splat_literal(from, limit) : literal(from, limit);
  const std::string top = lanes ? "splat (i64 -9223372036854775808)" : "-9223372036854775808";
  return helper(name, fmt::format("define internal {2} @{0}({1} %x) #1 {{\n"
                                  "  %isbig = fcmp oge {1} %x, {4}\n"
                                  "  %less = fsub {1} %x, {4}\n"
                                  "  %small = select {3} %isbig, {1} %less, {1} %x\n"
                                  "  %low = fptosi {1} %small to {2}\n"
                                  "  %high = xor {2} %low, {5}\n"
                                  "  %r = select {3} %isbig, {2} %high, {2} %low\n"
                                  "  ret {2} %r\n}}\n",
                                  name, f, i, b, big, top));
}

std::string Module::text() const {
  std::string out;
  for (const auto& [name, definition] : helpers_) out += "\n" + definition;
  if (!declarations_.empty()) out += "\n";
  for (const std::string& d : declarations_) out += d;
  return out;
}

}  // namespace lathe::llvm_text
