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
    case DType::UInt16: return "i16";
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

std::string literal(DType d, const Scalar& v) {
  const Scalar x = cast_scalar(v, d);
  if (d == DType::Bool) return x.as_bool() ? "true" : "false";
  if (d == DType::Float16) return fmt::format("0xH{:04X}", encode(x, d));
  if (is_float(d)) return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(x.as_double()));
  if (d == DType::UInt64) return fmt::format("{}", static_cast<uint64_t>(x.as_int()));
  return fmt::format("{}", x.as_i64());
}

std::string literal(DType d, const Scalar& v, int64_t lanes) {
  return lanes ? fmt::format("splat ({} {})", scalar_type(d), literal(d, v)) : literal(d, v);
}

std::string suffix(std::string_view scalar, int64_t lanes) {
  const std::string s = scalar == "float"    ? "f32"
                        : scalar == "double" ? "f64"
                        : scalar == "half"   ? "f16"
                                             : std::string(scalar);
  return lanes ? fmt::format("v{}{}", lanes, s) : s;
}

}  // namespace lathe::llvm_text
