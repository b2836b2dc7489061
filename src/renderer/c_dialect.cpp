#include "renderer/c_dialect.h"

#include "base/error.h"
#include "uop/number_formats.h"

#include <bit>

namespace lathe {

const CDialect kCDialect{
    .language = "C",
    .is_device = false,
    .signed_ints = {"int8_t", "int16_t", "int32_t", "int64_t"},
    .unsigned_ints = {"uint8_t", "uint16_t", "uint32_t", "uint64_t"},
    .boolean = "_Bool",
    .long_suffix = "ll",
    .nan = "__builtin_nanf(\"\")",
    .infinity = "__builtin_inff()",
    .function = "static inline __attribute__((always_inline))",
    .barrier = "__atomic_thread_fence(__ATOMIC_SEQ_CST);",
    .space = {"", "", ""},
    .literal = "({0}){{{1}}}",
    .convert = "__builtin_convertvector({1}, {0})",
    .reinterpret = "(({0}){1})",
    .lane = "{0}[{1}]",
};

const CDialect kOpenClDialect{
    .language = "OpenCL",
    .is_device = true,
    .signed_ints = {"char", "short", "int", "long"},
    .unsigned_ints = {"uchar", "ushort", "uint", "ulong"},
    .boolean = "bool",
    .long_suffix = "l",
    .nan = "NAN",
    .infinity = "INFINITY",
    .function = "static inline",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE);",
    .space = {"__global ", "__local ", ""},
    .literal = "(({0})({1}))",
    .convert = "convert_{0}({1})",
    .reinterpret = "as_{0}({1})",
    .lane = "{0}.s{1:x}",
};

CElement register_element(DType d) {
  CHECK(d != DType::Void && !is_weak(d) && !is_narrow_float(d), "C has no type for {}", dtype_name(d));
  if (is_bool(d)) return {'i', 8};
  return {is_float(d) ? 'f' : is_unsigned(d) ? 'u' : 'i', bit_width(d)};
}

std::string short_name(CElement e) { return fmt::format("{}{}", e.kind, e.bits); }

std::string CDialect::scalar_name(CElement e) const {
  if (e.kind == 'f') return e.bits == 64 ? "double" : "float";
  const auto at = static_cast<size_t>(std::countr_zero(static_cast<unsigned>(e.bits)) - 3);
  return std::string((e.kind == 'u' ? unsigned_ints : signed_ints)[at]);
}

std::string CDialect::memory_name(DType d) const {
  return scalar_name(is_bool(d) ? CElement{'u', 8} : register_element(d));
}

}  // namespace lathe
