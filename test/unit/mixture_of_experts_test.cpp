#include "llm/mixture_of_experts.h"

#include <cmath>
#include <limits>

#include "support/test.h"

using namespace lathe;

namespace {

PackedMatrix packed(const std::vector<float>& values, const Shape& shape) {
  const size_t n = shape.size();
  return {GgmlType::F32, shape[n - 2].value(), shape[n - 1].value(), {Tensor::from(values, shape)}};
}

// Matrices (experts, rows, columns) of factor[e] · I.
PackedMatrix diagonal(const std::vector<float>& factor, int64_t rows, int64_t columns) {
  const auto count = static_cast<int64_t>(factor.size());
  std::vector<float> values(static_cast<size_t>(count * rows * columns));
  for (int64_t e = 0; e < count; e++)
    for (int64_t i = 0; i < std::min(rows, columns); i++)
      values[static_cast<size_t>((e * rows + i) * columns + i)] = factor[static_cast<size_t>(e)];
  return packed(values, {count, rows, columns});
}

// Four experts of which two are used, over rows of 8 ones, hidden 16; the router's logits are given.
MixtureOfExperts experts(const std::vector<float>& gate, const std::vector<float>& up,
                         const std::vector<float>& logits) {
  MixtureOfExperts m{.config = {.count = 4, .used = 2, .hidden = 16}};
  std::vector<float> router(32);
  for (size_t e = 0; e < 4; e++) router[e * 8] = logits[e];
  m.router.weight = packed(router, {4, 8});
  m.gate = diagonal(gate, 16, 8), m.up = diagonal(up, 16, 8), m.down = diagonal({1, 1, 1, 1}, 8, 16);
  return m;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }

void check_all(const MixtureOfExperts& m, double want) {
  for (const int64_t rows : {1, 3})
    for (const float y : forward(m, Tensor::ones({rows, 8})).to_vector<float>())
      REQUIRE(y == doctest::Approx(want).epsilon(1e-6));
}

std::vector<int32_t> chosen(const ExpertConfig& config, const std::vector<float>& logits,
                            std::optional<std::vector<float>> bias = std::nullopt) {
  const auto n = static_cast<int64_t>(logits.size());
  std::optional<Tensor> correction;
  if (bias) correction = Tensor::from(*bias);
  return route(config, Tensor::from(logits, {1, n}), correction).experts.to_vector<int32_t>();
}

}  // namespace

TEST_CASE("two experts equally, and a shared one") {
  MixtureOfExperts m = experts({1, 2, 3, 4}, {1, 1, 1, 1}, {2, 0, 2, 0});
  m.config.normalize = true;
  check_all(m, (silu(1) + silu(3)) / 2);
  const auto square = [](float factor, int64_t rows, int64_t columns) {
    PackedMatrix one = diagonal({factor}, rows, columns);
    one.parts[0] = one.parts[0].squeeze(0);
    return Linear{one, std::nullopt};
  };
  m.shared = FeedForward{Activation::Silu, square(2, 16, 8), square(1, 16, 8), square(1, 8, 16)};
  check_all(m, (silu(1) + silu(3)) / 2 + silu(2));
  m.shared_gate = Tensor::zeros({8});
  check_all(m, (silu(1) + silu(3)) / 2 + silu(2) / 2);
}

TEST_CASE("gating functions, with weights as they are and normalised") {
  const double all = std::exp(4) + std::exp(3) + 1 + std::exp(-1);
  const double soft[] = {std::exp(4) / all, std::exp(3) / all}, each[] = {sigmoid(4), sigmoid(3)};
  const double root[] = {std::sqrt(std::log1p(std::exp(4))), std::sqrt(std::log1p(std::exp(3)))};
  const auto check = [](Gating gating, bool normalize, double w0, double w1) {
    MixtureOfExperts m = experts({1, 1, 1, 1}, {1, 2, 3, 4}, {4, 3, 0, -1});
    m.config.gating = gating, m.config.normalize = normalize;
    check_all(m, (w0 + 2 * w1) * sigmoid(1));
    m.config.scale = 2.5;
    check_all(m, 2.5 * (w0 + 2 * w1) * sigmoid(1));
  };
  check(Gating::Softmax, false, soft[0], soft[1]);
  check(Gating::Softmax, true, sigmoid(1), sigmoid(-1));
  check(Gating::Sigmoid, false, each[0], each[1]);
  check(Gating::Sigmoid, true, each[0] / (each[0] + each[1]), each[1] / (each[0] + each[1]));
  check(Gating::SelectedSoftmax, false, sigmoid(1), sigmoid(-1));
  check(Gating::SelectedSoftmax, true, sigmoid(1), sigmoid(-1));
  check(Gating::SqrtSoftplus, false, root[0], root[1]);
  check(Gating::SqrtSoftplus, true, root[0] / (root[0] + root[1]), root[1] / (root[0] + root[1]));
}

TEST_CASE("the choice: order, ties, corrections, groups") {
  ExpertConfig config{.count = 8, .used = 3, .hidden = 1, .gating = Gating::Sigmoid};
  using Ids = std::vector<int32_t>;
  CHECK(chosen(config, {0, 5, 1, 4, 2, 9, 3, -7}) == Ids{5, 1, 3});
  CHECK(chosen(config, {1, 1, 2, 1, 2, 1, 1, 2}) == Ids{2, 4, 7});
  CHECK(chosen(config, std::vector<float>(8, 1.0F)) == Ids{0, 1, 2});
  const std::vector<float> bias = {0, 0, 0, 0, 0, 1, 0, 2};
  CHECK(chosen(config, std::vector<float>(8, 1.0F), bias) == Ids{7, 5, 0});
  // Weights are those of the scores without the correction.
  const Route r = route(config, Tensor::from(std::vector<float>(8, 1.0F), {1, 8}), Tensor::from(bias));
  for (const float w : r.weights.to_vector<float>()) CHECK(w == doctest::Approx(sigmoid(1)));
  // Groups of two: 0.5 + 0.5, 0.98 + 0.02, 0.73 + 0.73, 0.88 + 0.12; two of them are used.
  config.groups = 4, config.groups_used = 2;
  CHECK(chosen(config, {0, 0, 4, -4, 1, 1, 2, -2}) == Ids{4, 5, 0});
  CHECK(chosen(config, {0, 0, 0, 0, 0, 0, 0, 0}) == Ids{0, 1, 2});
  config.groups_used = 1;
  config.used = 2;
  CHECK(chosen(config, {0, 0, 4, -4, 1, 1, 2, -2}) == Ids{4, 5});
}

TEST_CASE("experts that are not used are not read") {
  MixtureOfExperts m = experts({1, 2, 3, 4}, {1, 1, 1, 1}, {2, -9, 2, -9});
  m.config.normalize = true;
  for (PackedMatrix* w : {&m.gate, &m.up, &m.down}) {
    // What is read of them would make the sum NaN, if only by a factor of 0.
    const Tensor used = Tensor::from(std::vector<float>{1, 0, 1, 0}).reshape({4, 1, 1}) == 1;
    w->parts[0] = used.where(w->parts[0], std::numeric_limits<double>::quiet_NaN()).contiguous().realize();
  }
  check_all(m, (silu(1) + silu(3)) / 2);
}
