// Element types: names, sizes, value ranges and the promotion lattice.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace lathe {

enum class DType : uint8_t {
#define DTYPE(name, ...) name,
#include "uop/dtypes.def"
};
inline constexpr int kNumDTypes = static_cast<int>(DType::Float64) + 1;

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;  // stored bits, without the implied leading one
};

// Short alias where one exists ("float", "half", "int", "uchar"), else the name; this is what messages print.
std::string_view dtype_name(DType d);
// "float32", "uint8", "bfloat16": the unambiguous name.
std::string_view dtype_full_name(DType d);
// Accepts names and aliases, case-insensitive.
std::optional<DType> parse_dtype(std::string_view text);

int bit_width(DType d);      // 1 for bool, 800 for weak types, 0 for void
int64_t item_size(DType d);  // bytes in storage; throws TypeError-kind UserError for weak types and void
FloatFormat float_format(DType d);

constexpr bool is_weak(DType d) { return d == DType::WeakInt || d == DType::WeakFloat; }
constexpr bool is_float(DType d) { return d >= DType::WeakFloat; }
constexpr bool is_bool(DType d) { return d == DType::Bool; }
constexpr bool is_int(DType d) { return d >= DType::WeakInt && d <= DType::UInt64; }  // bool is not an int
constexpr bool is_unsigned(DType d) {
  return d == DType::UInt8 || d == DType::UInt16 || d == DType::UInt32 || d == DType::UInt64;
}
constexpr bool is_signed_int(DType d) { return is_int(d) && !is_unsigned(d); }
constexpr bool is_fp8(DType d) { return d >= DType::Fp8E4M3 && d <= DType::Fp8E5M2Fnuz; }

// Least type above both in the lattice (bool → weakint → ints → weakfloat → fp8 → {half, bfloat16} → float →
// double).
DType join(DType a, DType b);
// weakint → default int, weakfloat → default float, everything else itself.
DType strong(DType d);
// The float type a transcendental of `d` is computed in: weakint → weakfloat, floats → themselves, ints →
// join with the default float.
DType least_upper_float(DType d);
// Accumulator of a sum: unsigned → join(uint32), int and bool → join(int32), floats → join(SUM_DTYPE).
DType sum_dtype(DType d);
// True when every value of `from` is exactly representable in `to`.
bool casts_losslessly(DType from, DType to);
DType default_float();
DType default_int();

}  // namespace lathe
