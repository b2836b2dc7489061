#include "formats/mx_formats.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

struct Quantized {
  std::vector<uint8_t> codes, scales;
  std::vector<float> values;  // what the codes stand for
};
Quantized quantize(std::vector<float> in, MxElement e, MxScaleRule rule = MxScaleRule::OcpRound) {
  in.resize((in.size() + kMxBlock - 1) / kMxBlock * kMxBlock);
  const size_t blocks = in.size() / kMxBlock;
  Quantized q{std::vector<uint8_t>(blocks * mx_code_bytes(e)), std::vector<uint8_t>(blocks),
              std::vector<float>(in.size())};
  mx_quantize(in, e, rule, q.codes, q.scales);
  mx_dequantize(q.codes, q.scales, e, q.values);
  return q;
}
std::vector<float> repeated(const std::vector<float>& v, int times) {
  std::vector<float> out;
  for (int i = 0; i < times; i++) out.insert(out.end(), v.begin(), v.end());
  return out;
}

const std::vector<float> kAllE2M1{0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};

}  // namespace

TEST_CASE("e2m1 codes") {
  for (uint8_t code = 0; code < 16; code++) {
    CHECK(decode_e2m1(code) == static_cast<double>(kAllE2M1[code]));
    CHECK(encode_e2m1(decode_e2m1(code)) == (code == 8 ? 0 : code));
  }
  const double rows[][2] = {{.25, 0},  {.2500001, .5}, {.75, 1},  {1.25, 1}, {1.75, 2}, {2.5, 2}, {3.5, 4},
                            {4.99, 4}, {5, 4},         {5.01, 6}, {7, 6},    {1e30, 6}, {.1, 0}};
  for (const auto& [x, want] : rows) {
    CHECK(decode_e2m1(encode_e2m1(x)) == want);
    CHECK(decode_e2m1(encode_e2m1(-x)) == -want);
  }
  CHECK_FALSE(std::signbit(decode_e2m1(encode_e2m1(-0.1))));
  CHECK(encode_e2m1(std::nan("")) == 7);
}

TEST_CASE("e8m0 codes") {
  CHECK(decode_e8m0(127) == 1);
  CHECK(decode_e8m0(0) == 0x1p-127);
  CHECK(decode_e8m0(254) == 0x1p127);
  CHECK(std::isnan(decode_e8m0(255)));
}

TEST_CASE("mxfp4 blocks") {
  const Quantized all = quantize(repeated(kAllE2M1, 2), MxElement::E2M1);
  const std::array<uint8_t, 8> packed{0x10, 0x32, 0x54, 0x76, 0x90, 0xba, 0xdc, 0xfe};
  for (size_t i = 0; i < 16; i++) CHECK(all.codes[i] == packed[i % 8]);
  CHECK(all.scales[0] == 127);
  CHECK(all.values == repeated(kAllE2M1, 2));
  CHECK_FALSE(std::signbit(all.values[8]));

  struct Row {
    std::vector<float> in, want;
    uint8_t scale;
  };
  const Row rows[] = {
      {{12, -12}, {12, -12}, 128},
      {{8}, {6}, 127},
      {{0}, {0}, 127},
      {{.25f, .75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -.25f, -.75f, -1.25f, -1.75f, -2.5f, -3.5f, -5},
       {0, 1, 1, 2, 2, 4, 4, 0, -1, -1, -2, -2, -4, -4},
       127},
  };
  for (const Row& r : rows) {
    const Quantized q = quantize(r.in, MxElement::E2M1);
    CHECK(q.scales[0] == r.scale);
    for (size_t i = 0; i < r.want.size(); i++) CHECK(q.values[i] == r.want[i]);
  }
}

TEST_CASE("mxfp8 blocks") {
  struct Row {
    std::vector<float> in, want;
  };
  const std::vector<float> exact = repeated({0, .5f, 1, 1.5f, 2, -3, 4, -6}, 4);
  const Row rows[] = {
      {exact, exact},
      {{1, 1.0625f, 1.07f, 0x1p-9f, 0x1p-10f}, {.875f, .875f, .875f, 0x1p-9f, 0x1p-10f}},
      {{448, 416, 400, -448}, {448, 416, 384, -448}},
      {{512}, {448}},
  };
  for (const Row& r : rows) {
    const Quantized q = quantize(r.in, MxElement::E4M3);
    for (size_t i = 0; i < r.want.size(); i++) CHECK(q.values[i] == r.want[i]);
  }
}

TEST_CASE("the three scale rules") {
  using enum MxScaleRule;
  struct Row {
    float largest;
    MxElement element;
    int ocp_round, bit_round, floor;
  };
  constexpr float kLargest = std::numeric_limits<float>::max(), kLeast = 0x1p-149f;
  const Row rows[] = {
      {0, MxElement::E2M1, 127, 127, 0},          {6, MxElement::E2M1, 127, 127, 127},
      {4, MxElement::E2M1, 126, 127, 127},        {6.9999f, MxElement::E2M1, 127, 127, 127},
      {7, MxElement::E2M1, 127, 128, 127},        {8, MxElement::E2M1, 127, 128, 128},
      {12, MxElement::E2M1, 128, 128, 128},       {448, MxElement::E4M3, 127, 134, 135},
      {1, MxElement::E4M3, 118, 125, 127},        {kLargest, MxElement::E2M1, 252, 253, 252},
      {kLargest, MxElement::E4M3, 246, 253, 254}, {kLeast, MxElement::E2M1, 0, 0, 0},
  };
  for (const Row& r : rows) {
    INFO(r.largest);
    CHECK(mx_scale(r.largest, r.element, OcpRound) == r.ocp_round);
    CHECK(mx_scale(r.largest, r.element, BitRound) == r.bit_round);
    CHECK(mx_scale(r.largest, r.element, Floor) == r.floor);
  }
}

TEST_CASE("the hadamard transform is its own inverse and keeps the length") {
  std::array<float, 16> v{};
  for (size_t i = 0; i < 16; i++) v[i] = static_cast<float>(i * i) - 20;
  std::array<float, 16> t = v;
  hadamard_16(t);
  float before = 0, after = 0, sum = 0;
  for (size_t i = 0; i < 16; i++) before += v[i] * v[i], after += t[i] * t[i], sum += v[i];
  CHECK(before == doctest::Approx(after));
  CHECK(t[0] == sum / 4);
  hadamard_16(t);
  for (size_t i = 0; i < 16; i++) CHECK(t[i] == doctest::Approx(v[i]));
}

TEST_CASE("sizes are checked") {
  std::vector<float> values(32);
  std::vector<uint8_t> codes(15), scales(1);
  CHECK_THROWS_AS(mx_quantize(values, MxElement::E2M1, MxScaleRule::Floor, codes, scales), InternalError);
  CHECK_THROWS_AS(mx_dequantize(codes, scales, MxElement::E2M1, values), InternalError);
}
