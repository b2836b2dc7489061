#include "formats/mx_formats.h"

#include "base/error.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace lathe {
namespace {

constexpr int kScaleBias = 127, kLargestScale = 254;
constexpr FloatLayout kE2M1{2, 1, 1, 7, 7, 7, 7, false};

double largest_value(MxElement e) { return e == MxElement::E2M1 ? 6 : 448; }
uint8_t encode_element(double x, MxElement e) {
  return e == MxElement::E2M1 ? encode_e2m1(x) : static_cast<uint8_t>(encode_float(x, DType::Fp8E4M3));
}

void check_sizes(size_t values, size_t codes, size_t scales, MxElement e) {
  CHECK(values == scales * kMxBlock && codes == scales * mx_code_bytes(e),
        "{} values, {} code bytes, {} scales", values, codes, scales);
}

}  // namespace

double decode_e8m0(uint8_t code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - kScaleBias);
}

uint8_t encode_e2m1(double x) {
  const auto code = static_cast<uint8_t>(encode_narrow(x, kE2M1));
  return code & 7 ? code : 0;
}
double decode_e2m1(uint8_t code) { return decode_narrow(code & 15, kE2M1); }

uint8_t mx_scale(float largest, MxElement element, MxScaleRule rule) {
  const auto bits = static_cast<int>(std::bit_cast<uint32_t>(largest));
  if (bits == 0) return rule == MxScaleRule::Floor ? 0 : kScaleBias;
  constexpr int kMantissa = 23, kQuarter = 0x200000;
  int code = 0;
  switch (rule) {
    case MxScaleRule::OcpRound:
      code = static_cast<int>(std::nearbyint(std::clamp(
                 std::log2(static_cast<double>(largest) / largest_value(element)), -127.0, 127.0))) +
             kScaleBias;
      break;
    case MxScaleRule::BitRound: code = ((bits + kQuarter) >> kMantissa) - 2; break;
    case MxScaleRule::Floor:
      code = std::ilogb(largest) + kScaleBias - (element == MxElement::E2M1 ? 2 : 0);
      break;
  }
  return static_cast<uint8_t>(std::clamp(code, 0, kLargestScale));
}

void mx_quantize(std::span<const float> values, MxElement element, MxScaleRule rule, std::span<uint8_t> codes,
                 std::span<uint8_t> scales) {
  check_sizes(values.size(), codes.size(), scales.size(), element);
  std::fill(codes.begin(), codes.end(), uint8_t{0});
  for (size_t block = 0; block < scales.size(); block++) {
    const auto in = values.subspan(block * kMxBlock, kMxBlock);
    float largest = 0;
    for (const float v : in) largest = std::max(largest, std::fabs(v));
    scales[block] = mx_scale(largest, element, rule);
    const double inverse = 1 / decode_e8m0(scales[block]);
    const auto out = codes.subspan(block * mx_code_bytes(element), mx_code_bytes(element));
    for (size_t i = 0; i < kMxBlock; i++) {
      const uint8_t code = encode_element(static_cast<double>(in[i]) * inverse, element);
      if (element == MxElement::E2M1)
        out[i / 2] = static_cast<uint8_t>(out[i / 2] | code << (4 * (i % 2)));
      else
        out[i] = code;
    }
  }
}

void mx_dequantize(std::span<const uint8_t> codes, std::span<const uint8_t> scales, MxElement element,
                   std::span<float> values) {
  check_sizes(values.size(), codes.size(), scales.size(), element);
  for (size_t i = 0; i < values.size(); i++) {
    const double x = element == MxElement::E2M1
                         ? decode_e2m1(static_cast<uint8_t>(codes[i / 2] >> (4 * (i % 2))))
                         : decode_float(codes[i], DType::Fp8E4M3);
    values[i] = static_cast<float>(x * decode_e8m0(scales[i / kMxBlock]));
  }
}

void hadamard_16(std::span<float, 16> values) {
  for (size_t step = 1; step < 16; step *= 2)
    for (size_t i = 0; i < 16; i++)
      if (!(i & step)) {
        const float a = values[i], b = values[i + step];
        values[i] = a + b, values[i + step] = a - b;
      }
  for (float& v : values) v *= 0.25f;
}

}  // namespace lathe
