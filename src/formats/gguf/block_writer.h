// What the quantisers of blocks share.
#pragma once
#include "formats/gguf/ggml_type.h"
#include "uop/number_formats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace lathe {

// `x` has the elements of one block, `out` its bytes, which are zero.
using QuantizeBlock = void (*)(std::span<const float> x, std::span<uint8_t> out);
// Of the types with scales in two levels (quantize_k.cpp); null for others.
QuantizeBlock quantize_superblock(GgmlType type);

// Writes a float16 and returns what it stands for. ValueError where x is too large for it.
float put_half(std::span<uint8_t> out, size_t at, float x);
void put_bits(std::span<uint8_t> out, size_t at, int bits, int shift);

// 1/x, and 0 where x is 0 or so small that the quotient is infinite: what is scaled by it is 0 in float16.
inline float inverse(float x) {
  const float i = 1 / x;
  return std::isfinite(i) ? i : 0;
}

// The element of the largest magnitude, the first of several.
inline float largest(std::span<const float> x) {
  float out = 0;
  for (const float v : x)
    if (std::fabs(v) > std::fabs(out)) out = v;
  return out;
}

inline int round_to_even(float x) { return static_cast<int>(std::lrint(x)); }
// A code in [low, high].
inline int nearest(float x, int low, int high) {
  return round_to_even(std::clamp(x, static_cast<float>(low), static_cast<float>(high)));
}

// Position of the nearest of IQ4's sixteen values; the lower one of two that are as near.
int nearest_nonlinear(float x);

// Two codes of four bits a byte: those of the first half of a block in the low nibbles.
void put_nibbles(std::span<uint8_t> out, size_t at, std::span<const uint8_t> codes);

}  // namespace lathe
