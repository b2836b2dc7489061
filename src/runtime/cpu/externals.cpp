#include "runtime/cpu/externals.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_map>

extern "C" {
__extension__ typedef __int128 lathe_i128;
__extension__ typedef unsigned __int128 lathe_u128;
lathe_i128 __divti3(lathe_i128, lathe_i128);
lathe_i128 __modti3(lathe_i128, lathe_i128);
lathe_u128 __udivti3(lathe_u128, lathe_u128);
lathe_u128 __umodti3(lathe_u128, lathe_u128);
}

namespace lathe {
namespace {

// Conversions of the compiler support library. In the System V ABI half and bfloat16 travel in the low 16
// bits of an XMM register, whose other bits mean nothing: a float parameter or result with those bits is the
// same thing, and compilers without these types can build it.
uint16_t low_half(float carrier) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(carrier)); }
float in_low_half(uint32_t bits) { return std::bit_cast<float>(bits); }

uint32_t half_bits(float x) {
  uint32_t f = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (f >> 16) & 0x8000;
  f &= 0x7fffffff;
  if (f > 0x7f800000) return sign | 0x7e00 | (f >> 13 & 0x1ff);  // NaN, made quiet
  if (f >= 0x477ff000) return sign | 0x7c00;                     // 65520 and up round to infinity
  if (f < 0x38800000) {  // below 2^-14: the ulp of 0.5 is the smallest half
    float shifted = std::bit_cast<float>(f) + 0.5f;
    return sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f));
  }
  f += 0xfff + (f >> 13 & 1) - (112u << 23);
  return sign | f >> 13;
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) {
    uint32_t mantissa = (magnitude & 0x3ff) << 13;
    return std::bit_cast<float>(sign | 0x7f800000 | mantissa | (mantissa ? 0x400000u : 0u));
  }
  if (magnitude < 0x400) {
    float value = static_cast<float>(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

uint32_t bfloat_bits(float x) {
  uint32_t f = std::bit_cast<uint32_t>(x);
  if ((f & 0x7fffffff) > 0x7f800000) return f >> 16 | 0x40;
  return (f + 0x7fff + (f >> 16 & 1)) >> 16;
}

// Truncates and sets the last bit when anything was cut off, so that a second rounding gives the result of
// one.
float round_to_odd(double x) {
  float near = static_cast<float>(x);
  if (std::isnan(x) || static_cast<double>(near) == x) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (std::fabs(static_cast<double>(near)) > std::fabs(x)) bits--;
  return std::bit_cast<float>(bits | 1);
}

float truncsfhf2(float x) { return in_low_half(half_bits(x)); }
float truncdfhf2(double x) { return in_low_half(half_bits(round_to_odd(x))); }
float extendhfsf2(float carrier) { return half_to_float(low_half(carrier)); }
double extendhfdf2(float carrier) { return half_to_float(low_half(carrier)); }
float truncsfbf2(float x) { return in_low_half(bfloat_bits(x)); }
float truncdfbf2(double x) { return in_low_half(bfloat_bits(round_to_odd(x))); }
float extendbfsf2(float carrier) {
  return std::bit_cast<float>(static_cast<uint32_t>(low_half(carrier)) << 16);
}

// 0 where both halves are equal numbers; both names mean the same.
long nehf2(float a, float b) { return half_to_float(low_half(a)) != half_to_float(low_half(b)); }

template <class F>
const void* address(F* function) {
  return reinterpret_cast<const void*>(function);
}

using One32 = float(float);
using One64 = double(double);
using Two32 = float(float, float);
using Two64 = double(double, double);

// One row for both precisions: name and name + "f".
#define LATHE_UNARY(name) \
  {#name, address<One64>(std::name)}, { #name "f", address<One32>(std::name) }
#define LATHE_BINARY(name) \
  {#name, address<Two64>(std::name)}, { #name "f", address<Two32>(std::name) }

const std::unordered_map<std::string_view, const void*>& table() {
  static const auto* const kTable = new std::unordered_map<std::string_view, const void*>{
      {"memcpy", address<void*(void*, const void*, size_t)>(std::memcpy)},
      {"memmove", address<void*(void*, const void*, size_t)>(std::memmove)},
      {"memset", address<void*(void*, int, size_t)>(std::memset)},
      {"memcmp", address<int(const void*, const void*, size_t)>(std::memcmp)},
      {"bcmp", address<int(const void*, const void*, size_t)>(std::memcmp)},
      LATHE_UNARY(sqrt),
      LATHE_UNARY(trunc),
      LATHE_UNARY(floor),
      LATHE_UNARY(ceil),
      LATHE_UNARY(round),
      LATHE_UNARY(rint),
      LATHE_UNARY(nearbyint),
      LATHE_UNARY(fabs),
      LATHE_UNARY(exp),
      LATHE_UNARY(exp2),
      LATHE_UNARY(expm1),
      LATHE_UNARY(log),
      LATHE_UNARY(log2),
      LATHE_UNARY(log10),
      LATHE_UNARY(log1p),
      LATHE_UNARY(sin),
      LATHE_UNARY(cos),
      LATHE_UNARY(tan),
      LATHE_UNARY(asin),
      LATHE_UNARY(acos),
      LATHE_UNARY(atan),
      LATHE_UNARY(sinh),
      LATHE_UNARY(cosh),
      LATHE_UNARY(tanh),
      LATHE_UNARY(erf),
      LATHE_BINARY(pow),
      LATHE_BINARY(fmod),
      LATHE_BINARY(atan2),
      LATHE_BINARY(copysign),
      LATHE_BINARY(fmin),
      LATHE_BINARY(fmax),
      {"fma", address<double(double, double, double)>(std::fma)},
      {"fmaf", address<float(float, float, float)>(std::fma)},
      {"ldexp", address<double(double, int)>(std::ldexp)},
      {"ldexpf", address<float(float, int)>(std::ldexp)},
      {"sincos", address<void(double, double*, double*)>(::sincos)},
      {"sincosf", address<void(float, float*, float*)>(::sincosf)},
      {"exp10", address<One64>(::exp10)},
      {"exp10f", address<One32>(::exp10f)},
      {"__truncsfhf2", address(truncsfhf2)},
      {"__truncdfhf2", address(truncdfhf2)},
      {"__extendhfsf2", address(extendhfsf2)},
      {"__extendhfdf2", address(extendhfdf2)},
      {"__nehf2", address(nehf2)},
      {"__eqhf2", address(nehf2)},
      {"__truncsfbf2", address(truncsfbf2)},
      {"__truncdfbf2", address(truncdfbf2)},
      {"__extendbfsf2", address(extendbfsf2)},
      {"__divti3", address(__divti3)},
      {"__modti3", address(__modti3)},
      {"__udivti3", address(__udivti3)},
      {"__umodti3", address(__umodti3)},
  };
  return *kTable;
}

}  // namespace

const void* external_symbol(std::string_view name) {
  auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace lathe
