#include "formats/gguf/dequantize.h"
#include "formats/gguf/quantize.h"
#include "tensor/tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support/gguf_reference.h"
#include "support/test.h"

using namespace lathe;

namespace {

// SHA-256 (FIPS 180-4), in hex.
std::string sha256(std::span<const std::byte> data) {
  // The first 32 bits of the fractional parts of cube roots and square roots of primes.
  std::vector<int> primes;
  for (int n = 2; primes.size() < 64; n++)
    if (std::all_of(primes.begin(), primes.end(), [n](int p) { return n % p; })) primes.push_back(n);
  const auto fraction = [](long double x) {
    return static_cast<uint32_t>((x - std::floor(x)) * 4294967296.0L);
  };
  std::array<uint32_t, 8> h;
  for (size_t i = 0; i < 8; i++) h[i] = fraction(std::sqrt(static_cast<long double>(primes[i])));
  std::string text(reinterpret_cast<const char*>(data.data()), data.size());
  text += '\x80';
  while (text.size() % 64 != 56) text += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(data.size() * 8 >> shift);
  for (size_t at = 0; at < text.size(); at += 64) {
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; i++) {
      w[i] = 0;
      for (size_t j = 0; j < 4; j++) w[i] = w[i] << 8 | static_cast<uint8_t>(text[at + 4 * i + j]);
    }
    for (size_t i = 16; i < 64; i++) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    std::array<uint32_t, 8> s = h;
    for (size_t i = 0; i < 64; i++) {
      const uint32_t e = s[4], a = s[0];
      const uint32_t t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                          ((e & s[5]) ^ (~e & s[6])) +
                          fraction(std::cbrt(static_cast<long double>(primes[i]))) + w[i];
      const uint32_t t2 =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (size_t i = 0; i < 8; i++) h[i] += s[i];
  }
  std::string out;
  for (const uint32_t word : h) out += fmt::format("{:08x}", word);
  return out;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) out += fmt::format("{:02x}", std::to_integer<int>(b));
  return out;
}

std::vector<double> unpacked(const std::vector<std::byte>& bytes, GgmlType type) {
  return test::reference_dequantize({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, type);
}
double rms_error(std::span<const float> x, const std::vector<double>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(sum / static_cast<double>(x.size()));
}

std::vector<float> golden_values() {
  std::vector<float> x(256);
  for (int i = 0; i < 256; i++)
    x[static_cast<size_t>(i)] = static_cast<float>((7919 * i + 13) % 1009 - 504) / 128;
  return x;
}

struct Golden {
  GgmlType type;
  const char* first;
  const char* sha256;
  double rms;
};
const Golden kGolden[] = {
    {GgmlType::Q4_0, "ac37907e4b29f6d4b18f6d3a", "1253a9ea065b5412", 0.15627},
    {GgmlType::Q4_1, "1138acc3907d4b28f6d4a18f", "1fee756d5bdaa63c", 0.14371},
    {GgmlType::Q5_0, "ac338ec7f13830ec9742fdb8", "20781547988f1c30", 0.06481},
    {GgmlType::Q5_1, "df33acc38ec7f13820eb9641", "f99a28b6ea71665d", 0.07078},
    {GgmlType::Q8_0, "bb27815e370fe8c099764e27", "64936687d5fcc1f1", 0.00880},
    {GgmlType::Q1_0, "f63f8ec3f1381c87e371380e", "6bc744f793fee88d", 1.14039},
    {GgmlType::Q2_0, "bc4358855660155a81566005", "83af29e6876246d5", 1.11680},
    {GgmlType::TQ1_0, "0eaf908584812bafe5a28c84", "feade5a59c0a1e44", 1.13106},
    {GgmlType::TQ2_0, "50420925955554420a29a595", "41c1ad2b89ebc301", 1.13106},
    {GgmlType::MXFP4, "7e3fa7d5f27b7e5f17c6e4f0", "624cb2879a5f3600", 0.31452},
    {GgmlType::NVFP4, "323232326f4605c1eafd6e57", "bf82e7bfafe5ebe2", 0.23407},
    {GgmlType::Q2_K, "ffceeeceeecedeefcedecede", "", 0.57604},
    {GgmlType::Q3_K, "88113377eecc88113377ffee", "", 0.29889},
    {GgmlType::Q4_K, "1420e02bfffffffffefefeff", "", 0.13857},
    {GgmlType::Q5_K, "d21b042cfffffffffefeffff", "", 0.04427},
    {GgmlType::Q6_K, "40a80e74da30960e64da3096", "", 0.02798},
    {GgmlType::IQ4_NL, "c327a06e4c19f6e3c18f5d3b", "", 0.16086},
};

// How far unpacked numbers may be from what was packed, against the largest magnitude of a group that shares
// a scale: half of the widest step, and what rounding the scale adds.
double tolerance(GgmlType type) {
  switch (type) {
    case GgmlType::Q8_0: return 0.5 / 127 + 1e-3;
    case GgmlType::Q4_0:
    case GgmlType::Q4_1: return 1.0 / 8;
    case GgmlType::Q5_0:
    case GgmlType::Q5_1: return 1.0 / 16;
    case GgmlType::Q4_K: return 0.2;
    case GgmlType::Q5_K: return 0.1;
    case GgmlType::Q6_K: return 0.08;
    case GgmlType::IQ4_NL:
    case GgmlType::IQ4_XS: return 0.2;
    case GgmlType::MXFP4: return 0.26;
    case GgmlType::NVFP4: return 0.25;
    default: return 1;
  }
}

// Of a block of one value: MXFP4 scales by powers of two, NVFP4 by small floats, of which the small ones have
// a bit or two.
double constant_error(GgmlType type) {
  return type == GgmlType::MXFP4 || type == GgmlType::NVFP4 ? 0.2 : 0.02;
}

}  // namespace

TEST_CASE("quantisers give the bytes and errors of the reference") {
  CHECK(sha256(std::as_bytes(std::span(std::string_view("abc")))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::vector<float> x = golden_values();
  REQUIRE(x[1] == 2.8515625f);
  for (const Golden& g : kGolden) {
    CAPTURE(type_info(g.type).name);
    const std::vector<std::byte> bytes = quantize(x, 256, g.type);
    REQUIRE(static_cast<int64_t>(bytes.size()) == *row_bytes(g.type, 256));
    const double error = rms_error(x, unpacked(bytes, g.type));
    if (*g.sha256) {
      CHECK(hex(std::span(bytes).first(12)) == g.first);
      CHECK(sha256(bytes).substr(0, 16) == g.sha256);
      CHECK(std::abs(error - g.rms) <= 0.51e-5);
    } else {
      CHECK(std::abs(error - g.rms) <= 0.02 * g.rms);
    }
  }
}

TEST_CASE("unpacking gives back what was packed, about") {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(256 * 8);
  for (float& v : x) v = normal(random) * 0.05f;
  for (const GgmlTypeInfo& info : ggml_types()) {
    if (!is_quantized(info.type) || !can_quantize(info.type)) continue;
    CAPTURE(info.name);
    const std::vector<double> y = unpacked(quantize(x, 512, info.type), info.type);
    for (size_t i = 0; i < x.size(); i += 32) {
      double largest = 0;
      for (size_t j = i; j < i + 32; j++) largest = std::max(largest, std::abs(static_cast<double>(x[j])));
      // Groups of other sizes share their scale with neighbours.
      if (info.block_elements != 32) largest = 0.2;
      for (size_t j = i; j < i + 32; j++) REQUIRE(std::abs(x[j] - y[j]) <= tolerance(info.type) * largest);
    }
  }
}

TEST_CASE("IQ4_XS is about as good as IQ4_NL") {
  const std::vector<float> x = golden_values();
  const double error = rms_error(x, unpacked(quantize(x, 256, GgmlType::IQ4_XS), GgmlType::IQ4_XS));
  CHECK(error == doctest::Approx(0.16086).epsilon(0.05));
}

TEST_CASE("blocks of one value, zeros, single elements and subnormal numbers") {
  for (const GgmlTypeInfo& info : ggml_types()) {
    if (!is_quantized(info.type) || !can_quantize(info.type)) continue;
    CAPTURE(info.name);
    const auto round_trip = [&](const std::vector<float>& x) {
      return unpacked(quantize(x, static_cast<int64_t>(x.size()), info.type), info.type);
    };
    const auto n = static_cast<size_t>(info.block_elements);
    // Q1_0 has no zero: its scale is.
    for (const double v : round_trip(std::vector<float>(n)))
      CHECK(std::abs(v) == 0);  // without a zero: the scale is
    for (const float value : {1.0f, -1.0f, 0.01f, -300.0f})
      for (const double v : round_trip(std::vector<float>(n, value)))
        REQUIRE(std::abs(v - value) <= constant_error(info.type) * std::abs(value));
    for (const float value : {2.0f, -2.0f}) {
      std::vector<float> x(n);
      x[n / 2 + 1] = value;
      const std::vector<double> y = round_trip(x);
      for (size_t i = 0; info.type != GgmlType::Q1_0 && i < n; i++)
        REQUIRE(std::abs(y[i] - x[i]) <= (i == n / 2 + 1 ? 0.08 : 0.02));
    }
    for (const float tiny : {1e-40f, -1e-45f, 1e-30f, 1e-7f, std::numeric_limits<float>::min()}) {
      std::vector<float> x(n, tiny);
      x[0] = -tiny, x[1] = 0;
      for (const double v : round_trip(x)) REQUIRE(std::abs(v) <= 4 * std::max(1e-7, std::abs(double{tiny})));
    }
  }
}

TEST_CASE("plain types are rounded") {
  const std::vector<float> x = {1.0009765f, -2.7f, 65519};
  const auto halves = quantize(x, 3, GgmlType::F16);
  CHECK(hex(halves) == "013c66c1ff7b");
  CHECK(hex(quantize(x, 3, GgmlType::BF16)) == "803f2dc08047");
  CHECK(quantize(x, 3, GgmlType::F32).size() == 12);
}
