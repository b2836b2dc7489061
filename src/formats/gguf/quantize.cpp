#include "formats/gguf/quantize.h"

#include "base/thread_pool.h"
#include "formats/gguf/block_writer.h"
#include "formats/gguf/grid_table.h"
#include "tensor/tensor.h"

#include <array>
#include <bit>
#include <cmath>
#include <iterator>

// Each type by the rules of ggml's reference, in float32: products with the reciprocal of the unrounded
// scale, which is stored as float16.

namespace lathe {
namespace {

using In = std::span<const float>;
using Out = std::span<uint8_t>;

float largest_magnitude(In x) { return std::fabs(largest(x)); }

// Four or five bits a code, of which the fifth ones are bits of a word at `high`.
void put_codes(Out out, size_t high, size_t low, std::span<const uint8_t> codes, bool is_five) {
  put_nibbles(out, low, codes);
  for (size_t i = 0; is_five && i < codes.size(); i++) put_bits(out, high + i / 8, codes[i] >> 4, i % 8);
}

// Codes around 2^(bits-1), which stands for 0, so that the largest magnitude has code 0.
template <int kBits>
void symmetric(In x, Out out) {
  constexpr int kZero = 1 << (kBits - 1);
  const float d = largest(x) / -static_cast<float>(kZero), id = inverse(d);
  put_half(out, 0, d);
  std::array<uint8_t, 32> codes;
  for (size_t i = 0; i < x.size(); i++)
    codes[i] = static_cast<uint8_t>(std::min(2 * kZero - 1, static_cast<int>(x[i] * id + (kZero + 0.5f))));
  put_codes(out, 2, kBits == 5 ? 6 : 2, codes, kBits == 5);
}

// A scale and a minimum.
template <int kBits>
void affine(In x, Out out) {
  constexpr int kMost = (1 << kBits) - 1;
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const float least = *low, d = (*high - least) / kMost, id = inverse(d);
  put_half(out, 0, d);
  put_half(out, 2, least);
  std::array<uint8_t, 32> codes;
  for (size_t i = 0; i < x.size(); i++)
    codes[i] = static_cast<uint8_t>(std::min(kMost, static_cast<int>((x[i] - least) * id + 0.5f)));
  put_codes(out, 4, kBits == 5 ? 8 : 4, codes, kBits == 5);
}

void q8_0(In x, Out out) {
  const float d = largest_magnitude(x) / 127, id = inverse(d);
  put_half(out, 0, d);
  for (size_t i = 0; i < x.size(); i++)
    out[2 + i] = static_cast<uint8_t>(static_cast<int>(std::round(x[i] * id)));
}

void q1_0(In x, Out out) {
  float sum = 0;
  for (const float v : x) sum += std::fabs(v);
  put_half(out, 0, sum / static_cast<float>(x.size()));
  for (size_t i = 0; i < x.size(); i++) put_bits(out, 2 + i / 8, x[i] >= 0, i % 8);
}

// round(x/d) + 1 for the largest magnitude d: 0, 1 or 2.
struct Ternary {
  float d, id;
  explicit Ternary(In x) : d(largest_magnitude(x)), id(inverse(d)) {}
  int code(float x) const { return static_cast<int>(std::round(x * id)) + 1; }
};
void q2_0(In x, Out out) {
  const Ternary t(x);
  put_half(out, 0, t.d);
  for (size_t i = 0; i < x.size(); i++) put_bits(out, 2 + i / 4, t.code(x[i]), 2 * (i % 4));
}
void tq2_0(In x, Out out) {
  const Ternary t(x);
  for (size_t i = 0; i < x.size(); i++)
    put_bits(out, i / 128 * 32 + i % 32, t.code(x[i]), static_cast<int>(2 * (i % 128 / 32)));
  put_half(out, 64, t.d);
}
void tq1_0(In x, Out out) {
  const Ternary t(x);
  // Five digits a byte, the most significant first; where there are four the last one is 0. A number below
  // 243 is stored as the next larger of its 256ths, so that multiplying by 3 brings out digit after digit.
  const auto put = [&](size_t from, size_t at, size_t bytes, int digits) {
    for (size_t i = 0; i < bytes; i++) {
      int number = 0;
      for (int n = 0; n < 5; n++)
        number = 3 * number + (n < digits ? t.code(x[from + i + static_cast<size_t>(n) * bytes]) : 0);
      out[at + i] = static_cast<uint8_t>((number * 256 + 242) / 243);
    }
  };
  put(0, 0, 32, 5);
  put(160, 32, 16, 5);
  put(240, 48, 4, 4);
  put_half(out, 52, t.d);
}

// Position of the nearest FP4 value times `scale`, the lower one of two that are as near. The values are
// doubled.
uint8_t nearest_e2m1(float x, float scale) {
  constexpr float kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  uint8_t best = 0;
  for (uint8_t i = 1; i < 16; i++)
    if (std::fabs(kValues[i] * scale - x) < std::fabs(kValues[best] * scale - x)) best = i;
  return best;
}

void mxfp4(In x, Out out) {
  // The exponent of the largest, less 2, so that it fills the range.
  const float most = largest_magnitude(x);
  out[0] = most == 0 ? 0 : static_cast<uint8_t>(std::clamp(std::ilogb(most) + 127 - 2, 0, 254));
  const float scale = std::ldexp(1.0f, out[0] - 128);
  std::array<uint8_t, 32> codes;
  for (size_t i = 0; i < x.size(); i++) codes[i] = nearest_e2m1(x[i], scale);
  put_nibbles(out, 1, codes);
}

// E4M3 without its sign and with bias 7; halves are rounded up.
uint8_t encode_ue4m3(float x) {
  constexpr int kLargest = 0x7e, kMantissa = 20, kBias = 7;
  const auto bits = std::bit_cast<uint32_t>(std::min(x, 448.0f));
  const int exponent = static_cast<int>(bits >> 23) - 127 + kBias;
  if (exponent <= 0) return static_cast<uint8_t>(std::min(7, static_cast<int>(x * 512 + 0.5f)));
  const auto mantissa = static_cast<int>((bits >> kMantissa & 7) + (bits >> (kMantissa - 1) & 1));
  return static_cast<uint8_t>(std::min(kLargest, exponent * 8 + mantissa));
}
float decode_ue4m3(uint8_t code) {
  const int exponent = code >> 3, mantissa = code & 7;
  return exponent ? std::ldexp(static_cast<float>(8 + mantissa), exponent - 10)
                  : static_cast<float>(mantissa) / 512;
}
void nvfp4(In x, Out out) {
  for (size_t g = 0; g < 4; g++) {
    const In part = x.subspan(16 * g, 16);
    out[g] = encode_ue4m3(largest_magnitude(part) / 6);
    std::array<uint8_t, 16> codes;
    for (size_t i = 0; i < 16; i++) codes[i] = nearest_e2m1(part[i], decode_ue4m3(out[g]) * 0.5f);
    put_nibbles(out, 4 + 8 * g, codes);
  }
}

struct Quantizer {
  GgmlType type;
  QuantizeBlock block;
};
constexpr Quantizer kQuantizers[] = {
    {GgmlType::Q4_0, symmetric<4>}, {GgmlType::Q4_1, affine<4>}, {GgmlType::Q5_0, symmetric<5>},
    {GgmlType::Q5_1, affine<5>},    {GgmlType::Q8_0, q8_0},      {GgmlType::Q1_0, q1_0},
    {GgmlType::Q2_0, q2_0},         {GgmlType::TQ1_0, tq1_0},    {GgmlType::TQ2_0, tq2_0},
    {GgmlType::MXFP4, mxfp4},       {GgmlType::NVFP4, nvfp4},
};

QuantizeBlock block_quantizer(GgmlType type) {
  for (const Quantizer& q : kQuantizers)
    if (q.type == type) return q.block;
  return quantize_superblock(type);
}

// Scales are sought in sums of fourth powers, which have to be finite, too; no scale of float16 reaches so
// far.
constexpr float kMostQuantized = 1e9f;
// What is less is rounded to a number of float16.
constexpr float kHalfOverflow = 65520;

void check_magnitudes(In values, float most, std::string_view form) {
  for (size_t i = 0; i < values.size(); i++)
    if (!(std::fabs(values[i]) < most)) value_error("element {} is {}, which has no {}", i, values[i], form);
}

}  // namespace

float put_half(Out out, size_t at, float x) {
  const auto bits = static_cast<uint16_t>(encode_float(static_cast<double>(x), DType::Float16));
  out[at] = static_cast<uint8_t>(bits), out[at + 1] = static_cast<uint8_t>(bits >> 8);
  const auto stored = static_cast<float>(decode_float(bits, DType::Float16));
  if (!std::isfinite(stored)) value_error("a block needs the scale {}, too large for float16", x);
  return stored;
}

void put_bits(Out out, size_t at, int bits, int shift) {
  out[at] = static_cast<uint8_t>(out[at] | bits << shift);
}

void put_nibbles(Out out, size_t at, std::span<const uint8_t> codes) {
  const size_t half = codes.size() / 2;
  for (size_t i = 0; i < half; i++)
    out[at + i] = static_cast<uint8_t>((codes[i] & 15) | (codes[half + i] & 15) << 4);
}

int nearest_nonlinear(float x) {
  const auto* above = std::upper_bound(std::begin(gguf_grids::kIq4), std::end(gguf_grids::kIq4), x);
  if (above == std::begin(gguf_grids::kIq4)) return 0;
  if (above == std::end(gguf_grids::kIq4)) return 15;
  const int i = static_cast<int>(above - std::begin(gguf_grids::kIq4));
  return x - above[-1] < above[0] - x ? i - 1 : i;
}

bool can_quantize(GgmlType type) { return !is_quantized(type) || block_quantizer(type); }

std::vector<std::byte> quantize(std::span<const float> values, int64_t row_length, GgmlType type) {
  const GgmlTypeInfo& info = type_info(type);
  const auto count = static_cast<int64_t>(values.size());
  if (row_length <= 0 || count % row_length != 0 || row_length % info.block_elements != 0)
    value_error("{} numbers in rows of {} are no whole blocks of {}, which has {} a block", count, row_length,
                info.name, info.block_elements);
  if (type == GgmlType::F16) check_magnitudes(values, kHalfOverflow, "form in F16");
  if (info.plain)
    return Tensor::from_bytes(std::as_bytes(values), {SInt(count)}, DType::Float32, "CPU")
        .cast(*info.plain)
        .bytes();
  const QuantizeBlock block = block_quantizer(type);
  if (!block) value_error("{} blocks can be read, but not made: that needs an importance matrix", info.name);
  check_magnitudes(values, kMostQuantized, "quantised form");
  const int64_t blocks = count / info.block_elements;
  std::vector<uint8_t> out(static_cast<size_t>(blocks * info.block_bytes));
  const int threads = thread_pool().size();
  thread_pool().run(threads, [&](int worker) {
    for (int64_t i = blocks * worker / threads; i < blocks * (worker + 1) / threads; i++)
      block(
          values.subspan(static_cast<size_t>(i * info.block_elements),
                         static_cast<size_t>(info.block_elements)),
          Out(out).subspan(static_cast<size_t>(i * info.block_bytes), static_cast<size_t>(info.block_bytes)));
  });
  const auto bytes = std::as_bytes(std::span(out));
  return {bytes.begin(), bytes.end()};
}

}  // namespace lathe
