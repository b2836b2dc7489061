// sin by reduction to [-pi/4, pi/4]: Cody and Waite for ordinary arguments, Payne and Hanek for huge ones
// (J.-M. Muller, "Elementary Functions", chapter 11).
#include "codegen/decompose/coefficients_table.h"
#include "codegen/decompose/transcendental.h"
#include "codegen/decompose/typed.h"

#include <limits>
#include <numbers>

namespace lathe {
namespace {

using namespace typed;

// x = quarters * pi/2 + d + tail, |d| <= pi/4, |tail| far below the last place of d. Only the low two bits of
// `quarters` count.
struct Reduced {
  UOp quarters;  // int32 or int64
  UOp d, tail;
};

struct CodyWaite {
  DType bits;
  double round;
  // pi/2 in parts. Products of the first three with the number of quarters are exact, and so are the
  // differences.
  double parts[4];
};
constexpr CodyWaite kReduction32{
    DType::Int32,
    0x1.8p23,
    {1.5703125, 4.837512969970703125e-4, 7.549533620476722717285156e-8, 2.56334415159e-12}};
constexpr CodyWaite kReduction64{DType::Int64,
                                 0x1.8p52,
                                 {1.57079632580280303955078125, 9.92093518448200484272092580795e-10,
                                  6.1232339320535942510208282652e-17, 6.36831716351095013961776675769e-25}};

Reduced reduce_small(const UOp& x) {
  const CodyWaite& r = x.dtype() == DType::Float32 ? kReduction32 : kReduction64;
  const UOp t = add(mul(x, 2 / std::numbers::pi), r.round);
  const UOp n = sub(t, r.round);
  const auto minus = [&](const UOp& a, int part) { return a + mul(n, -r.parts[part]); };
  const UOp rest = minus(minus(x, 0), 1);
  const UOp d = minus(rest, 2);
  // What rounding took from d, and the last part.
  return {bitcast(t, r.bits), d, minus(minus(sub(rest, d), 2), 3)};
}

// 32 bits of 1/(2 pi) from `bit` after the point; zeros before it.
constexpr uint32_t inverse_two_pi(int bit) {
  const auto word = [](int i) { return i < 0 ? uint64_t{0} : uint64_t{kInverseTwoPi[i]}; };
  const int i = bit >= 0 ? bit / 32 : -((31 - bit) / 32);
  const uint64_t both = word(i) << 32 | word(i + 1);
  return static_cast<uint32_t>(both >> (32 - (bit - 32 * i)));
}
static_assert(inverse_two_pi(0) == 0x28be60db && inverse_two_pi(-32) == 0 &&
              inverse_two_pi(-8) == 0x0028be60);
static_assert(inverse_two_pi(36) == 0x391054a7);

// n words (as uint64, below 2^32 each) of 1/(2 pi) from bit `base` + `offset`, 0 <= offset < 32 * 2^levels.
// The words are picked by halving a list of candidates once for each bit of the word number.
std::vector<UOp> window(const UOp& offset, int base, int n, int levels) {
  std::vector<UOp> words;
  for (int i = 0; i < n + (1 << levels); i++)
    words.push_back(constant(DType::UInt32, int64_t{inverse_two_pi(base + 32 * i)}));
  for (int level = levels - 1; level >= 0; level--) {
    const UOp far = differs(bits_and(offset, int64_t{32} << level), 0);
    for (size_t i = 0; i + (size_t{1} << level) < words.size(); i++)
      words[i] = where(far, words[i + (size_t{1} << level)], words[i]);
    words.resize(words.size() - (size_t{1} << level));
  }
  const UOp shift = bits_and(offset, 31), back = sub(num(shift, 31), shift);
  std::vector<UOp> out;
  for (int i = 0; i < n; i++) {
    const size_t k = static_cast<size_t>(i);
    out.push_back(cast((words[k] << shift) | (shr(words[k + 1], 1) >> back), DType::UInt64));
  }
  return out;
}

// |x| / (2 pi) without its whole part: high * 2^-64 + low * 2^-128.
struct Turns {
  UOp high, low;  // uint64; no low word where high alone is exact enough
};

UOp low_half(const UOp& v) { return bits_and(v, int64_t{0xffffffff}); }

// 24 bits of mantissa times 96 of the constant: the least distance of a float from a multiple of pi/2 is
// 2^-30, so 64 bits of the product leave 30 good ones.
Turns turns_of_single(const UOp& magnitude_bits) {
  const UOp mantissa = cast(bits_or(bits_and(magnitude_bits, 0x7fffff), 0x800000), DType::UInt64);
  const UOp offset = sub(shr(magnitude_bits, 23), 127);
  const std::vector<UOp> f = window(offset, -23, 3, 2);
  return {shl(mantissa * f[0], 32) + mantissa * f[1] + shr(mantissa * f[2], 32), {}};
}

// 53 bits times 192, in columns of 32 bits; the least distance is 2^-62.
Turns turns_of_double(const UOp& magnitude_bits) {
  const UOp mantissa =
      bits_or(bits_and(magnitude_bits, Scalar((int64_t{1} << 52) - 1)), Scalar(int64_t{1} << 52));
  const UOp offset = cast(sub(shr(magnitude_bits, 52), 1043), DType::UInt32);
  const std::vector<UOp> f = window(offset, -32, 6, 5);
  const UOp m[2] = {low_half(mantissa), shr(mantissa, 32)};
  UOp columns[7];
  const auto put = [&](int column, const UOp& v) {
    if (column < 6) columns[column] = columns[column] ? columns[column] + v : v;
  };
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < 2; k++) {
      const UOp product = m[k] * f[static_cast<size_t>(5 - i)];
      put(i + k, low_half(product));
      put(i + k + 1, shr(product, 32));
    }
  for (int i = 1; i < 6; i++) columns[i] = columns[i] + shr(columns[i - 1], 32);
  return {shl(columns[5], 32) + low_half(columns[4]), shl(low_half(columns[3]), 32) + low_half(columns[2])};
}

UOp magnitude_bits_of(const UOp& x) {
  const DType bits = x.dtype() == DType::Float32 ? DType::UInt32 : DType::UInt64;
  return bits_and(bitcast(x, bits), Scalar((int128{1} << (bit_width(bits) - 1)) - 1));
}

Reduced reduce_huge(const UOp& x, const UOp& magnitude_bits, bool has_double) {
  const bool is_single = x.dtype() == DType::Float32;
  const Turns turns = is_single ? turns_of_single(magnitude_bits) : turns_of_double(magnitude_bits);
  const UOp quarters = shr(add(turns.high, Scalar(int64_t{1} << 61)), 62);
  const UOp rest = cast(sub(turns.high, shl(quarters, 62)), DType::Int64);
  const DType wide = is_single && !has_double ? DType::Float32 : DType::Float64;
  UOp angle = cast(rest, wide);
  if (turns.low) angle = angle + mul(cast(turns.low, wide), 0x1p-64);
  angle = mul(angle, 2 * std::numbers::pi * 0x1p-64);
  const UOp negative = less(x, 0.0);
  angle = where(negative, sub(num(angle, 0.0), angle), angle);
  const UOp forward = cast(quarters, is_single ? DType::Int32 : DType::Int64);
  const UOp d = cast(angle, x.dtype());
  const UOp tail = wide == x.dtype() ? num(x, 0.0) : cast(sub(angle, cast(d, wide)), x.dtype());
  return {where(negative, sub(num(forward, 0), forward), forward), d, tail};
}

// `turned` more quarters.
UOp sin_of_reduced(const Reduced& r, int turned = 0) {
  const bool is_single = r.d.dtype() == DType::Float32;
  const UOp square = r.d * r.d;
  const UOp series = is_single ? polynomial(square, kSin32) : polynomial(square, kSin64);
  const UOp sine = r.d + (series * square * r.d + r.tail);
  const UOp cosine = is_single ? polynomial(square, kCos32) : polynomial(square, kCos64);
  const UOp quarters = turned ? add(r.quarters, turned) : r.quarters;
  const UOp value = where(differs(bits_and(quarters, 1), 0), cosine, sine);
  // Bit 1 of the quarters becomes the sign bit.
  const UOp sign = shl(bits_and(quarters, 2), bit_width(quarters.dtype()) - 2);
  return bitcast(bitcast(value, quarters.dtype()) ^ sign, r.d.dtype());
}

}  // namespace

UOp sin_of_ordinary(const UOp& x, int quarters) { return sin_of_reduced(reduce_small(x), quarters); }

UOp sin_of_huge(const UOp& x, bool has_double, int quarters) {
  return sin_of_reduced(reduce_huge(x, magnitude_bits_of(x), has_double), quarters);
}

// Unsigned, so that one comparison leaves out what is below the limit, infinities and NaN, which give NaN
// anyway.
UOp is_huge_angle(const UOp& x) {
  const double limit = x.dtype() == DType::Float32 ? kSinReduction32 : kSinReduction64;
  const auto first = static_cast<int128>(encode(Scalar(limit), x.dtype()));
  const auto infinity =
      static_cast<int128>(encode(Scalar(std::numeric_limits<double>::infinity()), x.dtype()));
  return less(sub(magnitude_bits_of(x), Scalar(first)), Scalar(infinity - first));
}

}  // namespace lathe
