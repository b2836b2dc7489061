// Random numbers: the generator's check values, and the distributions.
#include "base/knobs.h"
#include "tensor/random.h"
#include "unit/tensor_check.h"

#include <algorithm>

using namespace lathe;
using namespace lathe::test;

TEST_CASE("the first key word is the end of a SHA-256") { CHECK(device_key(0) == 0x14b81119); }

TEST_CASE("threefry words of a known key") {
  const Tensor key = Tensor::from(std::vector<uint64_t>{uint64_t{1337} << 32});
  CHECK(threefry_words(key, 20).to_vector<uint32_t>() ==
        std::vector<uint32_t>{2221762175, 1752107825, 653745012,  1967534793, 1395205442,
                              3840423848, 2159346757, 603508235,  3319473678, 3363866483,
                              3544324138, 1436466838, 2169858556, 2570072943, 2387150698,
                              3678370550, 2911697663, 403244401,  2560861638, 1692360114});
  CHECK(threefry_words(key, 7).shape()[0].value() == 7);
}

TEST_CASE("draws follow each other") {
  Tensor::manual_seed(1337);
  const std::vector<float> first = {
      .45735931396484375f, .6311527490615845f,  .15571284294128418f, .8149417638778687f,  .7862188816070557f,
      .8008807897567749f,  .568588376045227f,   .9852620363235474f,  .42314577102661133f, .9811755418777466f,
      .38059568405151367f, .09186363220214844f, .9497315883636475f,  .5826880931854248f,  .3796330690383911f,
      .5610522031784058f,  .16122901439666748f, .3732343912124634f,  .9795231819152832f,  .3280656337738037f};
  CHECK(Tensor::rand({20}).to_vector<float>() == first);
  const std::vector<float> second = Tensor::rand({20}).to_vector<float>(),
                           third = Tensor::rand({10}).to_vector<float>();
  CHECK(std::vector<float>(second.begin(), second.begin() + 4) ==
        std::vector<float>{.09199333190917969f, .9130761623382568f, .7048608064651489f, .22254979610443115f});
  CHECK(std::vector<float>(third.begin(), third.begin() + 2) ==
        std::vector<float>{.3198714256286621f, .7984923124313354f});
}

TEST_CASE("draws that run together or late are the same numbers") {
  Tensor::manual_seed(1337);
  const Tensor a = Tensor::rand({20}), b = Tensor::rand({20});
  CHECK(b.to_vector<float>()[0] == .09199333190917969f);
  CHECK(a.to_vector<float>()[0] == .45735931396484375f);
  Tensor::manual_seed(1337);
  {
    const Tensor dropped = Tensor::rand({20});
  }
  CHECK(Tensor::rand({20}).to_vector<float>()[0] == .09199333190917969f);
}

TEST_CASE("every kind of draw") {
  Tensor::manual_seed(42);
  CHECK(Tensor::rand({5}).to_vector<float>() == std::vector<float>{.38104248046875f, .009775400161743164f,
                                                                   .1128007173538208f, .1176995038986206f,
                                                                   .505361795425415f});
  check_values(Tensor::randn({3}), {1.76887751, 2.88710093, -.81834316}, 2e-6);
  CHECK(Tensor::randint({5}).to_vector<int32_t>() == std::vector<int32_t>{9, 5, 4, 3, 7});
  CHECK(Tensor::rand({4}, {DType::Float16}).to_vector<float>() ==
        std::vector<float>{.681640625f, .669921875f, .583984375f, .240234375f});
}

namespace {

// Largest distance between the empirical distribution and `cdf` (Kolmogorov and Smirnov), in units of
// 1/sqrt(n).
template <class F>
double distance(const Tensor& sample, F cdf) {
  std::vector<double> x = sample.to_vector<double>();
  std::sort(x.begin(), x.end());
  const double n = static_cast<double>(x.size());
  double most = 0;
  for (size_t i = 0; i < x.size(); i++) {
    const double at = cdf(x[i]), low = static_cast<double>(i) / n, high = static_cast<double>(i + 1) / n;
    most = std::max({most, std::abs(at - low), std::abs(high - at)});
  }
  return most * std::sqrt(n);
}

// Exceeded by chance once in 10^5 samples; the seed is fixed.
constexpr double kRejected = 2.5;

double uniform_cdf(double x, double low, double high) {
  return std::clamp((x - low) / (high - low), 0.0, 1.0);
}
double normal_cdf(double x, double mean, double std) {
  return 0.5 * std::erfc(-(x - mean) / (std * std::sqrt(2.0)));
}

}  // namespace

TEST_CASE("distributions") {
  Tensor::manual_seed(7);
  const Shape shape{16, 32};
  CHECK(distance(Tensor::rand(shape), [](double x) { return uniform_cdf(x, 0, 1); }) < kRejected);
  CHECK(distance(Tensor::rand(shape, {DType::Float64}), [](double x) { return uniform_cdf(x, 0, 1); }) <
        kRejected);
  CHECK(distance(Tensor::randn(shape), [](double x) { return normal_cdf(x, 0, 1); }) < kRejected);
  CHECK(distance(Tensor::normal(shape, 3, 2), [](double x) { return normal_cdf(x, 3, 2); }) < kRejected);
  CHECK(distance(Tensor::uniform(shape, -2, 5), [](double x) { return uniform_cdf(x, -2, 5); }) < kRejected);
  const double fan = 32, gain = 1 + 0.01 * 0.01, uniform_bound = std::sqrt(6 / gain / fan),
               glorot = std::sqrt(6.0 / 48);
  CHECK(distance(Tensor::kaiming_uniform(shape),
                 [&](double x) { return uniform_cdf(x, -uniform_bound, uniform_bound); }) < kRejected);
  CHECK(distance(Tensor::kaiming_normal(shape),
                 [&](double x) { return normal_cdf(x, 0, std::sqrt(2 / gain / fan)); }) < kRejected);
  CHECK(distance(Tensor::glorot_uniform(shape), [&](double x) { return uniform_cdf(x, -glorot, glorot); }) <
        kRejected);
  const double scaled = 1 / std::sqrt(512.0);
  CHECK(distance(Tensor::scaled_uniform(shape), [&](double x) { return uniform_cdf(x, -scaled, scaled); }) <
        kRejected);
  for (int32_t v : Tensor::randint({500}, -3, 4).to_vector<int32_t>()) {
    CHECK(v >= -3);
    CHECK(v < 4);
  }
}

TEST_CASE("dropout scales what it keeps, and only in training") {
  const Tensor x = Tensor::ones({1000});
  CHECK(x.dropout(0.5).is_same(x));
  const KnobScope training(Knob::TRAINING, 1);
  Tensor::manual_seed(3);
  int zeros = 0;
  for (float v : x.dropout(0.25).to_vector<float>()) {
    CHECK((v == 0 || std::abs(v - 1 / 0.75f) < 1e-6f));
    zeros += v == 0;
  }
  CHECK(zeros > 200);
  CHECK(zeros < 300);
  CHECK(x.dropout(0).is_same(x));
  CHECK(x.dropout(1).sum().item<float>() == 0);
}
