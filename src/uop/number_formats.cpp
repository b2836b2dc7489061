#include "uop/number_formats.h"

#include "base/error.h"

#include <bit>
#include <cmath>
#include <limits>

namespace lathe {
namespace {

static_assert(std::size(kFloatLayouts) ==
              static_cast<size_t>(DType::BFloat16) - static_cast<size_t>(DType::Fp8E4M3) + 1);

constexpr int kDoubleMantissa = 52;
constexpr int kDoubleBias = 1023;
constexpr uint64_t kDoubleHidden = uint64_t{1} << kDoubleMantissa;

// v / 2^shift to the nearest integer, ties to even; 1 <= shift <= 63.
constexpr uint64_t shift_right_even(uint64_t v, int shift) {
  const uint64_t quotient = v >> shift;
  const uint64_t rest = v & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1)));
}

// Magnitude code of a finite double given by its bits without the sign. A carry out of the mantissa moves
// into the exponent by itself; the result is not bounded above.
constexpr uint64_t round_magnitude(uint64_t bits, const FloatLayout& f) {
  const int field = static_cast<int>(bits >> kDoubleMantissa);
  // Subnormal doubles lie far below half the least subnormal of every layout.
  if (field == 0) return 0;
  int exponent = field - kDoubleBias + f.bias;
  int shift = kDoubleMantissa - f.mantissa_bits;
  if (exponent < 1) {
    shift += 1 - exponent;
    exponent = 1;
    if (shift > kDoubleMantissa + 2) return 0;
  }
  const uint64_t mantissa = shift_right_even((bits & (kDoubleHidden - 1)) | kDoubleHidden, shift);
  // The hidden one in `mantissa` adds the last step of the exponent, and is absent for subnormals.
  return (static_cast<uint64_t>(exponent - 1) << f.mantissa_bits) + mantissa;
}

}  // namespace

uint32_t encode_narrow(double x, const FloatLayout& f) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint32_t sign = bits >> 63 ? f.sign_bit() : 0;
  if (std::isnan(x)) return sign | f.nan;
  if (std::isinf(x)) return sign | f.infinity;
  const uint64_t magnitude = round_magnitude(bits & ~(uint64_t{1} << 63), f);
  if (magnitude > f.largest) return sign | f.overflow;
  if (magnitude == 0 && f.finite_only) return 0;
  return sign | static_cast<uint32_t>(magnitude);
}

double decode_narrow(uint32_t code, const FloatLayout& f) {
  const uint32_t magnitude = code & (f.sign_bit() - 1);
  const bool negative = code & f.sign_bit();
  if (f.finite_only && negative && magnitude == 0) return std::numeric_limits<double>::quiet_NaN();
  double value;
  if (magnitude > f.largest) {
    const bool infinite = magnitude == f.infinity && f.infinity != f.nan;
    value = infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (const uint64_t exponent = magnitude >> f.mantissa_bits; exponent == 0) {
    value = std::ldexp(static_cast<double>(magnitude), 1 - f.bias - f.mantissa_bits);
  } else {
    const uint64_t rebiased =
        uint64_t{magnitude} + (static_cast<uint64_t>(kDoubleBias - f.bias) << f.mantissa_bits);
    value = std::bit_cast<double>(rebiased << (kDoubleMantissa - f.mantissa_bits));
  }
  return negative ? -value : value;
}

uint64_t encode_float(double x, DType d) {
  switch (d) {
    case DType::Float64: return std::bit_cast<uint64_t>(x);
    case DType::Float32: return std::bit_cast<uint32_t>(static_cast<float>(x));
    case DType::BFloat16: return encode_narrow(static_cast<float>(x), float_layout(d));
    default: break;
  }
  CHECK(is_narrow_float(d), "{} has no float codes", dtype_name(d));
  return encode_narrow(x, float_layout(d));
}

double decode_float(uint64_t code, DType d) {
  switch (d) {
    case DType::Float64: return std::bit_cast<double>(code);
    case DType::Float32: return std::bit_cast<float>(static_cast<uint32_t>(code));
    default: break;
  }
  CHECK(is_narrow_float(d), "{} has no float codes", dtype_name(d));
  return decode_narrow(static_cast<uint32_t>(code), float_layout(d));
}

}  // namespace lathe
