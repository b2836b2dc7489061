#pragma once

// Blocks of GGUF's quantised types one element at a time in double precision, after the formulas of the
// format. Nothing is shared with the library but the grids.

#include "formats/gguf/ggml_type.h"
#include "formats/gguf/grid_table.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace lathe::test {

class GgufBlock {
 public:
  GgufBlock(std::span<const uint8_t> bytes, GgmlType type) : b_(bytes), type_(type) {}

  double element(int e) const {
    switch (type_) {
      case GgmlType::Q4_0: return f16(0) * (nib(2, e) - 8);
      case GgmlType::Q4_1: return f16(0) * nib(4, e) + f16(2);
      case GgmlType::Q5_0: return f16(0) * ((nib(6, e) | bit(u32(2), e) << 4) - 16);
      case GgmlType::Q5_1: return f16(0) * (nib(8, e) | bit(u32(4), e) << 4) + f16(2);
      case GgmlType::Q8_0: return f16(0) * i8(2 + e);
      case GgmlType::Q2_K: {
        const int s = b_[e / 16], q = two_bits(16, e);
        return f16(80) * (s & 15) * q - f16(82) * (s >> 4);
      }
      case GgmlType::Q3_K: {
        const int g = e / 16;
        const int sc =
            ((b_[96 + g % 8] >> (4 * (g / 8))) & 15) | (((b_[104 + g % 4] >> (2 * (g / 4))) & 3) << 4);
        const int hi = (b_[e % 32] >> (4 * (e / 128) + e % 128 / 32)) & 1;
        return f16(108) * (sc - 32) * (two_bits(32, e) - (hi ? 0 : 4));
      }
      case GgmlType::Q4_K: return affine(e, high_or_low(16, e));
      case GgmlType::Q5_K: return affine(e, high_or_low(48, e) | ((b_[16 + e % 32] >> (e / 32)) & 1) << 4);
      case GgmlType::Q6_K: {
        const int h = e / 128, j = e % 128 / 32, l = e % 32;
        const int lo = (b_[64 * h + 32 * (j % 2) + l] >> (4 * (j / 2))) & 15;
        return f16(208) * i8(192 + e / 16) * ((lo | two_bits(128, e) << 4) - 32);
      }
      case GgmlType::IQ4_NL: return f16(0) * nonlinear(nib(2, e));
      case GgmlType::IQ4_XS: {
        const int g = e / 32, ls = ((b_[4 + g / 2] >> (4 * (g % 2))) & 15) | (((u16(2) >> (2 * g)) & 3) << 4);
        return f16(0) * (ls - 32) * nonlinear((b_[8 + 16 * g + e % 16] >> (4 * (e % 32 / 16))) & 15);
      }
      default: return small_element(e);
    }
  }

 private:
  double small_element(int e) const {
    switch (type_) {
      case GgmlType::IQ2_XXS: {
        const uint32_t a0 = u32(2 + 8 * (e / 32)), a1 = u32(6 + 8 * (e / 32));
        const int l8 = e % 32 / 8;
        return iq2(e, a1 >> 28, gguf_grids::kIq2xxs[(a0 >> (8 * l8)) & 255], signs((a1 >> (7 * l8)) & 127));
      }
      case GgmlType::IQ2_XS: {
        const int w = u16(2 + 2 * (e / 8));
        return iq2(e, scale4(66, e / 16), gguf_grids::kIq2xs[w & 511], signs(w >> 9));
      }
      case GgmlType::IQ2_S: {
        const int g = e / 8, row = b_[2 + g] | (((b_[66 + g / 4] >> (2 * (g % 4))) & 3) << 8);
        return iq2(e, scale4(74, e / 16), gguf_grids::kIq2s[row], b_[34 + g]);
      }
      case GgmlType::IQ3_XXS: {
        const uint32_t a = u32(66 + 4 * (e / 32));
        const int c = (gguf_grids::kIq3xxs[b_[2 + e / 4]] >> (3 * (e % 4))) & 7;
        return f16(0) * (0.5 + (a >> 28)) * 0.5 * (c == 7 ? 62 : 8 * c + 4) *
               sign(signs((a >> (7 * (e % 32 / 8))) & 127), e);
      }
      case GgmlType::IQ3_S: {
        const int q = e / 4, row = b_[2 + q] | (((b_[66 + q / 8] >> (q % 8)) & 1) << 8);
        const int c = (gguf_grids::kIq3s[row] >> (3 * (e % 4))) & 7;
        return f16(0) * (1 + 2 * scale4(106, e / 32)) * (2 * c + 1) * sign(b_[74 + e / 8], e);
      }
      case GgmlType::IQ1_S: {
        const int hw = u16(34 + 2 * (e / 32));
        const int row = b_[2 + e / 8] | (((hw >> (3 * (e % 32 / 8))) & 7) << 8);
        return f16(0) * (2 * ((hw >> 12) & 7) + 1) * (iq1(row, e) + (hw & 0x8000 ? -0.125 : 0.125));
      }
      case GgmlType::IQ1_M: {
        const int g = e / 8, n = (b_[32 + g / 2] >> (4 * (g % 2))) & 15, row = b_[g] | ((n & 7) << 8);
        const int s3 = (u16(48 + 2 * (e / 64)) >> (3 * (e / 16 % 4))) & 7;
        int d = 0;
        for (int i = 0; i < 4; i++) d |= (u16(48 + 2 * i) >> 12) << (4 * i);
        return half(d) * (2 * s3 + 1) * (iq1(row, e) + (n & 8 ? -0.125 : 0.125));
      }
      case GgmlType::TQ1_0: {
        const int n = e < 160 ? e / 32 : e < 240 ? (e - 160) / 16 : (e - 240) / 4;
        int byte = b_[e < 160 ? e % 32 : e < 240 ? 32 + (e - 160) % 16 : 48 + (e - 240) % 4];
        for (int i = 0; i < n; i++) byte = byte * 3 & 255;
        return f16(52) * ((byte * 3 >> 8) - 1);
      }
      case GgmlType::TQ2_0: return f16(64) * (two_bits(0, e) - 1);
      case GgmlType::MXFP4: return e2m1(nib(1, e)) * std::ldexp(1.0, b_[0] - 128);
      case GgmlType::NVFP4: {
        const int s = e / 16, r = e % 16;
        return e2m1((b_[4 + 8 * s + r % 8] >> (4 * (r / 8))) & 15) * ue4m3(b_[s]) * 0.5;
      }
      case GgmlType::Q1_0: return (b_[2 + e / 8] >> (e % 8)) & 1 ? f16(0) : -f16(0);
      case GgmlType::Q2_0: return f16(0) * (((b_[2 + e / 4] >> (2 * (e % 4))) & 3) - 1);
      default: return std::nan("");
    }
  }

  static double half(int bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 31) return mantissa ? std::nan("") : bits & 0x8000 ? -INFINITY : INFINITY;
    const double x = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
    return bits & 0x8000 ? -x : x;
  }
  int u16(int o) const { return b_[o] | b_[o + 1] << 8; }
  uint32_t u32(int o) const {
    return static_cast<uint32_t>(u16(o)) | static_cast<uint32_t>(u16(o + 2)) << 16;
  }
  double f16(int o) const { return half(u16(o)); }
  int i8(int o) const { return static_cast<int8_t>(b_[o]); }
  static int bit(uint32_t x, int i) { return static_cast<int>(x >> i & 1); }
  int nib(int o, int e) const { return (b_[o + e % 16] >> (4 * (e / 16))) & 15; }
  int two_bits(int o, int e) const { return (b_[o + 32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32))) & 3; }
  int high_or_low(int o, int e) const { return (b_[o + 32 * (e / 64) + e % 32] >> (4 * (e / 32 % 2))) & 15; }
  int scale4(int o, int g) const { return (b_[o + g / 2] >> (4 * (g % 2))) & 15; }
  double affine(int e, int q) const {
    const auto s = [&](int i) { return static_cast<int>(b_[4 + i]); };
    const int j = e / 32;
    const int sc = j < 4 ? s(j) & 63 : (s(j + 4) & 15) | (s(j - 4) >> 6) << 4;
    const int mn = j < 4 ? s(j + 4) & 63 : s(j + 4) >> 4 | (s(j) >> 6) << 4;
    return f16(0) * sc * q - f16(2) * mn;
  }
  static double nonlinear(int code) {
    constexpr int kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    return kValues[code];
  }
  static double e2m1(int code) {
    constexpr double kValues[] = {0, 1, 2, 3, 4, 6, 8, 12};
    return code & 8 ? -kValues[code & 7] : kValues[code & 7];
  }
  static double ue4m3(int x) {
    if (x == 0 || x == 127) return 0;
    const int exponent = x >> 3 & 15, m = x & 7;
    return exponent ? std::ldexp(1 + m / 8.0, exponent - 7) : std::ldexp(m, -9);
  }
  static int signs(int seven) { return seven | (std::popcount(static_cast<unsigned>(seven)) & 1) << 7; }
  static double sign(int byte, int e) { return byte >> (e % 8) & 1 ? -1 : 1; }
  double iq2(int e, int scale, int row, int sign_byte) const {
    constexpr double kValues[] = {8, 25, 43};
    return f16(0) * (0.5 + scale) * 0.25 * kValues[row >> (2 * (e % 8)) & 3] * sign(sign_byte, e);
  }
  static double iq1(int row, int e) { return (gguf_grids::kIq1s[row] >> (2 * (e % 8)) & 3) - 1; }

  std::span<const uint8_t> b_;
  GgmlType type_;
};

// The elements of whole blocks.
inline std::vector<double> reference_dequantize(std::span<const uint8_t> bytes, GgmlType type) {
  const GgmlTypeInfo& info = type_info(type);
  std::vector<double> out;
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(info.block_bytes)) {
    const GgufBlock block(bytes.subspan(at, static_cast<size_t>(info.block_bytes)), type);
    for (int e = 0; e < info.block_elements; e++) out.push_back(block.element(e));
  }
  return out;
}

}  // namespace lathe::test
