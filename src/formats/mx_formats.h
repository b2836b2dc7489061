// Microscaling block formats: 32 small floats share one power of two. Source: "OCP Microscaling Formats (MX)
// Specification" 1.0; it leaves the choice of the scale open, so the three rules in use have names.
#pragma once
#include "uop/number_formats.h"

#include <span>

namespace lathe {

inline constexpr size_t kMxBlock = 32;

enum class MxElement : uint8_t {
  E2M1,  // MXFP4: 0 .5 1 1.5 2 3 4 6 and negatives, two codes a byte, the earlier element in the low nibble
  E4M3,  // MXFP8: the codes of fp8e4m3
};

enum class MxScaleRule : uint8_t {
  OcpRound,  // log2(largest / greatest element value) to the nearest integer
  BitRound,  // exponent of the largest, one more from mantissa 1.75 on, less 2
  Floor,     // exponent of the largest; of E2M1 less 2, so that it fills the range
};

// 2^(code - 127); NaN for 255.
double decode_e8m0(uint8_t code);
// Nearest value, ties to the even code, saturating at 6; what rounds to zero has code 0, NaN that of 6.
uint8_t encode_e2m1(double x);
double decode_e2m1(uint8_t code);

// E8M0 code of the scale of a block by its largest magnitude, in [0, 254]; a block of zeros has 127 under the
// rounding rules and 0 under Floor.
uint8_t mx_scale(float largest, MxElement element, MxScaleRule rule);

// Bytes of the codes of one block: 16 or 32.
constexpr size_t mx_code_bytes(MxElement element) {
  return element == MxElement::E2M1 ? kMxBlock / 2 : kMxBlock;
}
// Whole blocks: `values` holds scales.size() * 32 numbers, `codes` the bytes of as many blocks.
void mx_quantize(std::span<const float> values, MxElement element, MxScaleRule rule, std::span<uint8_t> codes,
                 std::span<uint8_t> scales);
void mx_dequantize(std::span<const uint8_t> codes, std::span<const uint8_t> scales, MxElement element,
                   std::span<float> values);

// The orthonormal Walsh-Hadamard transform of 16 numbers, its own inverse; goes before BitRound in training,
// once for each half of a block, to spread outliers.
void hadamard_16(std::span<float, 16> values);

}  // namespace lathe
