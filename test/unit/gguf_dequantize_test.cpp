#include "engine/counters.h"
#include "formats/gguf/dequantize.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/writer.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "support/data.h"
#include "support/gguf_reference.h"
#include "support/test.h"

using namespace lathe;

namespace {

// Where the scales of a block are, so that random bytes can be given sensible ones.
struct Scales {
  GgmlType type;
  std::vector<size_t> halves;
};
const Scales kScales[] = {
    {GgmlType::Q4_0, {0}},    {GgmlType::Q4_1, {0, 2}},   {GgmlType::Q5_0, {0}},    {GgmlType::Q5_1, {0, 2}},
    {GgmlType::Q8_0, {0}},    {GgmlType::Q2_K, {80, 82}}, {GgmlType::Q3_K, {108}},  {GgmlType::Q4_K, {0, 2}},
    {GgmlType::Q5_K, {0, 2}}, {GgmlType::Q6_K, {208}},    {GgmlType::IQ2_XXS, {0}}, {GgmlType::IQ2_XS, {0}},
    {GgmlType::IQ3_XXS, {0}}, {GgmlType::IQ1_S, {0}},     {GgmlType::IQ4_NL, {0}},  {GgmlType::IQ3_S, {0}},
    {GgmlType::IQ2_S, {0}},   {GgmlType::IQ4_XS, {0}},    {GgmlType::IQ1_M, {}},    {GgmlType::TQ1_0, {52}},
    {GgmlType::TQ2_0, {64}},  {GgmlType::MXFP4, {}},      {GgmlType::NVFP4, {}},    {GgmlType::Q1_0, {0}},
    {GgmlType::Q2_0, {0}},
};

void set_half(std::span<uint8_t> block, size_t at, uint16_t bits) {
  block[at] = static_cast<uint8_t>(bits), block[at + 1] = static_cast<uint8_t>(bits >> 8);
}
// IQ1_M has its scale in the top nibbles of four words.
void set_spread_half(std::span<uint8_t> block, uint16_t bits) {
  for (size_t i = 0; i < 4; i++)
    block[49 + 2 * i] = static_cast<uint8_t>((block[49 + 2 * i] & 15) | (bits >> (4 * i) & 15) << 4);
}

Tensor to_tensor(const std::vector<uint8_t>& bytes, const Shape& shape) {
  return Tensor::from_bytes(std::as_bytes(std::span(bytes)), shape, DType::UInt8);
}
std::vector<float> dequantized(const std::vector<uint8_t>& bytes, GgmlType type) {
  return dequantize(to_tensor(bytes, {SInt(static_cast<int64_t>(bytes.size()))}), type).to_vector<float>();
}

// Random blocks with scales that are finite and of either sign.
std::vector<uint8_t> random_blocks(const Scales& s, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto block_bytes = static_cast<size_t>(type_info(s.type).block_bytes);
  std::vector<uint8_t> bytes(block_bytes * count);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  const auto scale = [&] { return static_cast<uint16_t>((random() & 0x83ff) | (random() % 30) << 10); };
  for (size_t i = 0; i < count; i++) {
    const auto block = std::span(bytes).subspan(i * block_bytes, block_bytes);
    for (const size_t at : s.halves) set_half(block, at, scale());
    if (s.type == GgmlType::IQ1_M) set_spread_half(block, scale());
    if (s.type == GgmlType::MXFP4) block[0] = static_cast<uint8_t>(random() % 250);
    if (s.type == GgmlType::MXFP4 && i < 3) block[0] = static_cast<uint8_t>(i);
    if (s.type == GgmlType::NVFP4 && i == 0) block[0] = 0, block[1] = 127, block[2] = 1, block[3] = 126;
  }
  return bytes;
}

struct Golden {
  GgmlType type;
  double first[4], middle, last, sum, weighted;
};
const Golden kGolden[] = {
    {GgmlType::Q4_0, {-0.299927, 0.299927, -0.699829, -0.0999756}, -0.299927, 0.199951, -4.198975, -7.498169},
    {GgmlType::Q4_1, {0.131226, 0.731079, 1.33093, 0.431152}, 1.03101, 1.53088, 24.294312, 87.891968},
    {GgmlType::Q5_0, {1.29968, -1.19971, 1.09973, -1.39966}, 1.39966, 0.399902, -0.299927, -3.399170},
    {GgmlType::Q5_1, {2.73059, 0.231201, 0.93103, 0.131226}, 1.93079, 1.03101, 47.688599, 173.571045},
    {GgmlType::Q8_0, {8.49792, 12.297, -9.49768, -5.69861}, -5.09875, 8.79785, 35.991211, 253.538086},
    {GgmlType::Q2_K, {3.29919, 0, 1.09973, 3.29919}, 3.20544, 0.243652, 192.540771, 771.743652},
    {GgmlType::Q3_K, {8.09802, -10.7974, 2.69934, 8.09802}, 0.999756, -0.0, 24.793945, 322.221313},
    {GgmlType::Q4_K, {34.4474, 11.353, 41.0458, 21.2506}, 44.6827, 1.04321, 5792.324219, 23303.054077},
    {GgmlType::Q5_K, {87.2345, 37.7466, 93.8329, 100.431}, 110.267, 2.84277, 12928.581543, 51264.425903},
    {GgmlType::Q6_K, {-143.065, 169.559, 58.2858, -143.065}, 332.019, 35.9912, -1199.906982, -2647.653442},
    {GgmlType::IQ2_XXS, {-6.98579, 6.98579, -4.06151, -4.06151}, -2.49939, -5.3112, 4.586380, 173.345169},
    {GgmlType::IQ2_XS, {-1.09973, 1.09973, -3.43666, -3.43666}, -14.509, -0.699829, 88.815811, 664.225296},
    {GgmlType::IQ3_XXS, {-14.2965, 9.89758, -7.69812, 3.29919}, -41.8398, -10.4974, -78.030945, -102.275024},
    {GgmlType::IQ1_S, {-0.787308, -0.0874786, 0.61235, 0.61235}, 0.562363, 1.01225, -4.398926, 14.046570},
    {GgmlType::IQ4_NL, {-3.49915, 3.79907, -10.3975, -0.999756}, -3.49915, 2.49939, -58.985596, -113.672241},
    {GgmlType::IQ3_S, {-5.69861, 17.0958, 24.694, -13.2968}, -5.69861, -5.69861, -173.557617, -807.002930},
    {GgmlType::IQ2_S, {-10.21, 5.93605, -1.89954, 1.89954}, -10.21, -3.09924, -84.754303, -302.826050},
    {GgmlType::IQ4_XS, {-56.9861, 124.47, -19.4952, 155.962}, 110.173, 14.9963, -58.185791, -714.125610},
    {GgmlType::IQ1_M,
     {-0.0874786, 0.61235, -0.0874786, -0.0874786},
     -0.337418,
     0.787308,
     5.098755,
     51.512421},
    {GgmlType::TQ1_0, {-0.0999756, -0.0999756, -0.0999756, 0}, 0, 0, 0.199951, 0.499878},
    {GgmlType::TQ2_0, {0.199951, -0.0999756, 0, 0.199951}, 0.199951, -0.0999756, 13.196777, 47.088501},
    {GgmlType::MXFP4, {0, 0.75, -0.375, 0.125}, 0.375, 1.5, 5.125, 18.625},
    {GgmlType::NVFP4, {0.5, 6, -3, 2}, 0.125, -0.00292969, 7.750977, 17.881836},
    {GgmlType::Q1_0,
     {0.0999756, -0.0999756, 0.0999756, -0.0999756},
     0.0999756,
     0.0999756,
     -0.399902,
     -2.499390},
    {GgmlType::Q2_0, {0, 0, 0, 0}, 0, 0.0999756, 2.699341, 10.397461},
};

// The block of the golden vectors: bytes by formula, scales 0.0999756 and 0.03125.
std::vector<uint8_t> golden_block(GgmlType type) {
  std::vector<uint8_t> bytes(static_cast<size_t>(type_info(type).block_bytes));
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = static_cast<uint8_t>(37 * i + 11 + (i * i >> 3));
  const auto s =
      std::find_if(std::begin(kScales), std::end(kScales), [&](auto& x) { return x.type == type; });
  for (size_t i = 0; i < s->halves.size(); i++) set_half(bytes, s->halves[i], i ? 0x2800 : 0x2e66);
  if (type == GgmlType::IQ1_M) set_spread_half(bytes, 0x2e66);
  if (type == GgmlType::MXFP4) bytes[0] = 125;
  if (type == GgmlType::NVFP4) bytes[0] = 56, bytes[1] = 64, bytes[2] = 40, bytes[3] = 1;
  return bytes;
}

// Equal to what has six significant digits.
bool is_printed_as(double x, double digits) { return std::abs(x - digits) <= 0.51e-5 * std::abs(digits); }

}  // namespace

TEST_CASE("golden blocks of every quantised GGUF type") {
  REQUIRE(std::size(kGolden) == 25);
  for (const Golden& g : kGolden) {
    CAPTURE(type_info(g.type).name);
    const std::vector<float> x = dequantized(golden_block(g.type), g.type);
    REQUIRE(static_cast<int64_t>(x.size()) == type_info(g.type).block_elements);
    for (size_t i = 0; i < 4; i++) CHECK(is_printed_as(x[i], g.first[i]));
    CHECK(is_printed_as(x[x.size() / 2], g.middle));
    CHECK(is_printed_as(x.back(), g.last));
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < x.size(); i++) sum += x[i], weighted += x[i] * static_cast<double>(i % 7 + 1);
    // Sums are exact in double precision, and printed to six decimals.
    CHECK(std::abs(sum - g.sum) <= 5.1e-7);
    CHECK(std::abs(weighted - g.weighted) <= 5.1e-7);
  }
}

TEST_CASE("golden blocks of small types") {
  std::vector<uint8_t> q8(34);
  q8[1] = 0x40;
  for (uint8_t i = 0; i < 32; i++) q8[2u + i] = static_cast<uint8_t>(i + 1);
  const std::vector<float> doubled = dequantized(q8, GgmlType::Q8_0);
  for (size_t i = 0; i < 32; i++) CHECK(doubled[i] == 2 * static_cast<float>(i + 1));

  std::vector<uint8_t> codes(17);
  codes[0] = 128;
  for (uint8_t i = 0; i < 16; i++) codes[1u + i] = i;
  const float values[] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
  const std::vector<float> fp4 = dequantized(codes, GgmlType::MXFP4);
  for (size_t i = 0; i < 16; i++) {
    CHECK(fp4[i] == values[i]);
    CHECK(std::signbit(fp4[i]) == std::signbit(values[i]));
    CHECK(fp4[16 + i] == 0);
  }
  const std::vector<uint8_t> real = {0x7a, 0x29, 0xab, 0x61, 0x10, 0x21, 0x02, 0x4a, 0x15,
                                     0xca, 0x05, 0x01, 0x9b, 0x39, 0x0b, 0x0b, 0x1c};
  const int units[] = {-1, -3, 1, 0, 1, 2, -2, 6, -2, 6, 1, -3, -1, -3, -3, -4,
                       2,  -2, 8, 1, 2, 0, 4,  1, -4, 0, 0, -1, 3,  0,  0,  1};
  const std::vector<float> x = dequantized(real, GgmlType::MXFP4);
  for (size_t i = 0; i < 32; i++) CHECK(x[i] * 64 == units[i]);

  std::vector<uint8_t> q1(18);
  for (size_t i = 2; i < 18; i++) q1[i] = static_cast<uint8_t>(i * 77);
  q1[1] = 0x40;
  const std::vector<float> bits = dequantized(q1, GgmlType::Q1_0);
  for (size_t i = 0; i < 128; i++) CHECK(bits[i] == (q1[2 + i / 8] >> (i % 8) & 1 ? 2 : -2));
}

TEST_CASE("random blocks of every quantised GGUF type") {
  REQUIRE(std::size(kScales) == 25);
  for (const Scales& s : kScales) {
    CAPTURE(type_info(s.type).name);
    const std::vector<uint8_t> bytes = random_blocks(s, 40, 7);
    const std::vector<double> want = test::reference_dequantize(bytes, s.type);
    const std::vector<float> got = dequantized(bytes, s.type);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); i++) {
      CAPTURE(i);
      REQUIRE(std::abs(got[i] - want[i]) <= 1e-6 * std::abs(want[i]));
    }
  }
}

TEST_CASE("rows of a GGUF tensor are picked before they are unpacked") {
  for (const Scales& s : kScales) {
    CAPTURE(type_info(s.type).name);
    constexpr int64_t kRows = 5, kBlocks = 2;
    const GgmlTypeInfo& info = type_info(s.type);
    const std::vector<uint8_t> bytes = random_blocks(s, kRows * kBlocks, 3);
    const Tensor packed = to_tensor(bytes, {SInt(kRows), SInt(kBlocks * info.block_bytes)});
    const Tensor ids = Tensor::from({3, 0, 3}, {.dtype = DType::Int32});
    const Tensor rows = dequantize(packed.at(ids), s.type);
    CHECK(rows.max_shape() == Shape{3, SInt(kBlocks * info.block_elements)});
    const std::vector<double> all = test::reference_dequantize(bytes, s.type);
    const std::vector<float> got = rows.to_vector<float>();
    const auto width = static_cast<size_t>(kBlocks * info.block_elements);
    for (size_t i = 0; i < got.size(); i++) {
      const double want = all[(i / width == 1 ? 0 : 3) * width + i % width];
      REQUIRE(std::abs(got[i] - want) <= 1e-6 * std::abs(want));
    }
  }
}

TEST_CASE("a product with packed weights is one kernel") {
  for (const Scales& s : kScales) {
    CAPTURE(type_info(s.type).name);
    constexpr int64_t kRows = 8;
    const GgmlTypeInfo& info = type_info(s.type);
    std::vector<uint8_t> bytes = random_blocks(s, kRows, 5);
    for (size_t i = 0; i < kRows; i++)
      for (const size_t at : s.halves)
        set_half(std::span(bytes).subspan(i * static_cast<size_t>(info.block_bytes)), at, 0x2e66);
    if (s.type == GgmlType::MXFP4)
      for (size_t i = 0; i < kRows; i++) bytes[17 * i] = 120;
    const Tensor packed = to_tensor(bytes, {SInt(kRows), SInt(info.block_bytes)}).realize();
    std::vector<float> x(static_cast<size_t>(info.block_elements));
    for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(static_cast<int>(i % 11) - 5) / 8;
    const Tensor vector = Tensor::from(x).realize();
    const Tensor product = dequantize(packed, s.type).matmul(vector);
    const uint64_t before = counters().kernels;
    product.realize();
    CHECK(counters().kernels - before == 1);
    const std::vector<float> got = product.to_vector<float>();
    const std::vector<double> w = test::reference_dequantize(bytes, s.type);
    for (size_t r = 0; r < kRows; r++) {
      double want = 0, scale = 0;
      for (size_t i = 0; i < x.size(); i++) {
        want += w[r * x.size() + i] * static_cast<double>(x[i]);
        scale += std::abs(w[r * x.size() + i] * static_cast<double>(x[i]));
      }
      CHECK(std::abs(got[r] - want) <= 1e-5 * scale);
    }
  }
}

TEST_CASE("plain GGUF types, and rows that are no blocks") {
  std::vector<uint8_t> bytes(8);
  const uint16_t bits[] = {0x3c00, 0xc000, 0x3f80, 0x4000};
  std::memcpy(bytes.data(), bits, 8);
  const Tensor packed = to_tensor(bytes, {SInt(2), SInt(4)});
  CHECK(dequantize(packed, GgmlType::F16).to_vector<float>() == std::vector<float>{1, -2, 1.875f, 2});
  CHECK(dequantize(packed, GgmlType::BF16).at(1).to_vector<float>() == std::vector<float>{1, 2});
  CHECK(dequantize(packed, GgmlType::I16).at(0, 0).item<float>() == 0x3c00);
  CHECK(std::string(test::user_error([&] { dequantize(packed, GgmlType::Q8_0); }).what()) ==
        "rows of shape (2, 4) are no whole blocks of Q8_0, which have 34 bytes");
  CHECK(test::contains(test::user_error([&] { dequantize(packed.to_int(), GgmlType::F16); }).what(),
                       "F16 blocks are rows of uint8, not "));
}

TEST_CASE("the grids are those of the format") {
  const auto folder = test::data_folder("gguf-grids");
  if (!folder) return;
  const auto check = [&](const char* name, std::span<const uint16_t> grid, std::vector<int> values) {
    std::ifstream in(*folder / name, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const size_t width = bytes.size() / grid.size(), bits = width == 8 ? 2 : 3;
    REQUIRE(bytes.size() == grid.size() * width);
    for (size_t i = 0; i < bytes.size(); i++)
      REQUIRE(static_cast<int8_t>(bytes[i]) ==
              values[grid[i / width] >> (bits * (i % width)) & ((1u << bits) - 1)]);
  };
  check("iq2xxs.bin", gguf_grids::kIq2xxs, {8, 25, 43, 0});
  check("iq2xs.bin", gguf_grids::kIq2xs, {8, 25, 43, 0});
  check("iq2s.bin", gguf_grids::kIq2s, {8, 25, 43, 0});
  check("iq3xxs.bin", gguf_grids::kIq3xxs, {4, 12, 20, 28, 36, 44, 52, 62});
  check("iq3s.bin", gguf_grids::kIq3s, {1, 3, 5, 7, 9, 11, 13, 15});
  check("iq1s.bin", gguf_grids::kIq1s, {-1, 0, 1, 0});
}
