// Weights as they are packed for products, and the products.
#include "llm/packed_matrix.h"

#include "base/knobs.h"
#include "formats/gguf/dequantize.h"
#include "formats/gguf/quantize.h"
#include "formats/gguf/writer.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/test.h"

using namespace lathe;

namespace {

constexpr int64_t kExperts = 2, kRows = 24, kColumns = 512;
struct Row {
  GgmlType type;
  int64_t block;  // of activations; 0: they stay as they are
};
constexpr Row kTypes[] = {{GgmlType::F32, 0},    {GgmlType::F16, 0},    {GgmlType::BF16, 0},
                          {GgmlType::Q5_0, 0},   {GgmlType::Q8_0, 32},  {GgmlType::Q4_0, 32},
                          {GgmlType::Q4_K, 256}, {GgmlType::Q6_K, 256}, {GgmlType::MXFP4, 32}};

std::vector<float> normal(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> out(n);
  for (float& x : out) x = draw(random);
  return out;
}

// Rounded to 8 bits by the largest of each block, as float32 does it.
std::vector<double> rounded(const std::vector<float>& x, int64_t block) {
  std::vector<double> out(x.begin(), x.end());
  for (size_t at = 0; block && at < x.size(); at += static_cast<size_t>(block)) {
    float largest = 0;
    for (size_t i = at; i < at + static_cast<size_t>(block); i++) largest = std::max(largest, std::abs(x[i]));
    const float scale = largest / 127;
    for (size_t i = at; i < at + static_cast<size_t>(block); i++)
      out[i] = scale == 0 ? 0 : double{scale} * std::nearbyint(double{x[i] / scale});
  }
  return out;
}

}  // namespace

TEST_CASE("packed matrices unpack to what their blocks say and multiply by rounded activations") {
  const std::vector<float> values = normal(kExperts * kRows * kColumns, 1);
  for (const auto& [type, block] : kTypes) {
    INFO(type_info(type).name);
    GgufWriter writer;
    writer.add("w", {kExperts, kRows, kColumns}, type, quantize(values, kColumns, type));
    const std::string bytes = writer.to_bytes();
    const GgufFile file = GgufFile::parse(std::as_bytes(std::span(bytes)), "w").or_throw();
    const PackedMatrix w = pack(file, file.at("w"), "");
    CHECK((w.rows == kRows && w.columns == kColumns));
    const std::vector<float> wanted = dequantize(file.packed("w"), type).to_vector<float>();
    REQUIRE(unpack(w).to_vector<float>() == wanted);

    constexpr int64_t kTokens = 3;
    const std::vector<float> x = normal(kTokens * kColumns, 2);
    const Tensor in = Tensor::from(x, {kTokens, kColumns}).realize();
    const PackedMatrix second = select(w, 1);
    const auto check = [&](const Tensor& product, const std::vector<double>& left) {
      const std::vector<float> got = product.to_vector<float>();
      for (size_t t = 0; t < kTokens; t++)
        for (size_t r = 0; r < kRows; r++) {
          double sum = 0, scale = 0;
          for (size_t c = 0; c < kColumns; c++) {
            const double term = left[t * kColumns + c] * double{wanted[(kRows + r) * kColumns + c]};
            sum += term, scale += std::abs(term);
          }
          REQUIRE(std::abs(got[t * kRows + r] - sum) < 1e-5 * scale);
        }
    };
    check(multiply(in, second), rounded(x, block));
    // Experts in front broadcast.
    check(multiply(in.unsqueeze(0), w).at(1), rounded(x, block));
    const KnobScope exact(Knob::INT8_ACTIVATIONS, 0);
    check(multiply(in, second), rounded(x, 0));
  }
}
