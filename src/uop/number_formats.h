// Bit layouts of the float types narrower than float32, and rounding onto the grid of every type.
#pragma once
#include "uop/dtype.h"
#include "uop/scalar.h"

#include <cstdint>

namespace lathe {

// Codes are sign, exponent, mantissa from the top bit down; the codes below are magnitudes (sign bit clear).
struct FloatLayout {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint32_t largest;   // largest finite magnitude
  uint32_t overflow;  // what finite values round to beyond it
  uint32_t infinity;  // what an infinity becomes
  uint32_t nan;
  bool finite_only;  // "fnuz": one NaN (the code of -0.0), no infinity, no negative zero

  constexpr int width() const { return 1 + exponent_bits + mantissa_bits; }
  constexpr uint32_t sign_bit() const { return uint32_t{1} << (width() - 1); }
};

// In the order of DType from Fp8E4M3 to BFloat16. float8 OCP formats: "OCP 8-bit Floating Point
// Specification" 1.0, with saturating conversion; fnuz formats: arXiv 2206.02915.
inline constexpr FloatLayout kFloatLayouts[] = {
    {4, 3, 7, 0x7e, 0x7e, 0x7f, 0x7f, false},            // fp8e4m3
    {4, 3, 8, 0x7f, 0x7f, 0x80, 0x80, true},             // fp8e4m3fnuz
    {5, 2, 15, 0x7b, 0x7b, 0x7c, 0x7f, false},           // fp8e5m2
    {5, 2, 16, 0x7f, 0x7f, 0x80, 0x80, true},            // fp8e5m2fnuz
    {5, 10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7e00, false},  // float16
    {8, 7, 127, 0x7f7f, 0x7f80, 0x7f80, 0x7fc0, false},  // bfloat16
};
constexpr bool is_narrow_float(DType d) { return d >= DType::Fp8E4M3 && d <= DType::BFloat16; }
constexpr const FloatLayout& float_layout(DType d) {
  return kFloatLayouts[static_cast<int>(d) - static_cast<int>(DType::Fp8E4M3)];
}

// Code of `x` in a layout, rounded once to nearest even, and the value of a code.
uint32_t encode_narrow(double x, const FloatLayout& f);
double decode_narrow(uint32_t code, const FloatLayout& f);

// Storage pattern of `x` in a strong float type: rounds to nearest even once from double, except bfloat16,
// which rounds to float32 first as its hardware conversions do.
uint64_t encode_float(double x, DType d);
double decode_float(uint64_t code, DType d);

// Nearest value of a float type; weakfloat is held in double.
inline double round_float(double x, DType d) {
  if (d == DType::Float32) return static_cast<float>(x);
  return is_narrow_float(d) ? decode_float(encode_float(x, d), d) : x;
}

// The low bits of `v` as a value of an integer type; weakint keeps all 128.
constexpr int128 wrap_integer(int128 v, DType d) {
  switch (d) {
    case DType::Int8: return static_cast<int8_t>(v);
    case DType::UInt8: return static_cast<uint8_t>(v);
    case DType::Int16: return static_cast<int16_t>(v);
    case DType::UInt16: return static_cast<uint16_t>(v);
    case DType::Int32: return static_cast<int32_t>(v);
    case DType::UInt32: return static_cast<uint32_t>(v);
    case DType::Int64: return static_cast<int64_t>(v);
    case DType::UInt64: return static_cast<uint64_t>(v);
    default: return v;
  }
}

}  // namespace lathe
