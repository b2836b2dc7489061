#include "nn/optimizer.h"

#include "nn/training.h"

#include <functional>
#include <memory>

#include "support/test.h"

using namespace lathe;

namespace {

using MakeOptimizer = std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>&)>;

// The loss is the sum of squares of [[1, -2], [3, .5]]; the parameter after each of the steps.
void check_steps(const MakeOptimizer& make, const std::vector<std::vector<double>>& steps) {
  nn::TrainingScope training;
  const Tensor p = Tensor::from<float>({1, -2, 3, 0.5}, {2, 2});
  const auto optimizer = make({p});
  for (const std::vector<double>& expected : steps) {
    optimizer->zero_grad();
    p.square().sum().backward();
    optimizer->step();
    const std::vector<float> values = p.to_vector<float>();
    for (size_t i = 0; i < values.size(); i++) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("SGD") {
  check_steps([](const auto& p) { return std::make_unique<nn::SGD>(p, nn::SGD::Options{.lr = 0.1}); },
              {{.8, -1.6, 2.4, .4}, {.64, -1.28, 1.92, .32}});
}

TEST_CASE("SGD with Nesterov momentum and weight decay") {
  check_steps(
      [](const auto& p) {
        return std::make_unique<nn::SGD>(
            p, nn::SGD::Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
      },
      {{.601, -1.202, 1.803, .3005}, {.191101, -.3822021, .5733031, .09555052}});
}

TEST_CASE("SGD with classic momentum keeps the rate of each step") {
  nn::TrainingScope training;
  for (bool classic : {false, true}) {
    CAPTURE(classic);
    const Tensor p = Tensor::from<float>({1});
    nn::SGD sgd({p}, {.lr = 0.5, .momentum = 0.5, .classic = classic});
    p.sum().backward();
    sgd.step();
    CHECK(p.item<float>() == 0.5);
    sgd.lr.assign(Tensor::from<float>({0.25}));
    sgd.zero_grad();
    p.sum().backward();
    sgd.step();
    // classic: b = .5·.5 + .25·1; else: .25·(.5·1 + 1)
    CHECK(p.item<float>() == (classic ? 0.0f : 0.125f));
  }
}

TEST_CASE("Adam") {
  check_steps([](const auto& p) { return std::make_unique<nn::Adam>(p, nn::AdamOptions{.lr = 0.1}); },
              {{.9000007, -1.900001, 2.900001, .4000007}, {.8004139, -1.800168, 2.800104, .3011891}});
}

TEST_CASE("AdamW") {
  nn::AdamOptions options = nn::AdamW::kDefaults;
  options.lr = 0.1;
  check_steps([&](const auto& p) { return std::make_unique<nn::AdamW>(p, options); },
              {{.8990006, -1.898001, 2.897001, .3995007}, {.7985207, -1.796274, 2.794211, .3002995}});
}

TEST_CASE("each parameter is updated once, buffers never") {
  nn::TrainingScope training;
  const Tensor p = Tensor::from<float>({4});
  Tensor buffer = Tensor::from<float>({4});
  buffer.set_param(false);
  nn::SGD sgd({p, buffer, p}, {.lr = 1});
  CHECK(sgd.params().size() == 1);
  (p * 1 + buffer * 1).sum().backward();
  buffer.assign(buffer + 1);
  sgd.step();
  CHECK(p.item<float>() == 3);
  CHECK(buffer.is_realized());
  CHECK(buffer.item<float>() == 5);
}

TEST_CASE("parameters without axes and of half precision") {
  nn::TrainingScope training;
  const Tensor scalar = Tensor::from(NestedData(2.0));
  const Tensor half = Tensor::from({1.0, 2.0}, {.dtype = DType::Float16, .device = ""});
  for (int kind = 0; kind < 2; kind++) {
    std::unique_ptr<nn::Optimizer> optimizer;
    if (kind == 0)
      optimizer = std::make_unique<nn::SGD>(std::vector{scalar, half}, nn::SGD::Options{.lr = 0.5});
    else
      optimizer = std::make_unique<nn::Adam>(std::vector{scalar, half}, nn::AdamOptions{.lr = 0.5});
    optimizer->zero_grad();
    (scalar + half.sum().to_float()).backward();
    optimizer->step();
    CHECK(scalar.ndim() == 0);
    CHECK(half.dtype() == DType::Float16);
  }
  CHECK(scalar.item<float>() == doctest::Approx(1.0).epsilon(1e-4));
  CHECK(half.to_vector<float>()[1] == doctest::Approx(1.0).epsilon(1e-3));
}

TEST_CASE("wrong use of an optimizer") {
  const Tensor p = Tensor::from<float>({1});
  auto error = test::user_error([&] { nn::SGD({p}, {.lr = -1}); });
  CHECK(error.kind() == UserError::Kind::Value);
  CHECK(std::string(error.what()) == "Invalid learning rate: -1");
  Tensor buffer = Tensor::from<float>({1});
  buffer.set_param(false);
  error = test::user_error([&] { nn::SGD({buffer}); });
  CHECK(test::contains(error.what(), "optimizer must have at least one param"));
  nn::Adam adam({p});
  error = test::user_error([&] { adam.step(); });
  CHECK(error.kind() == UserError::Kind::Runtime);
  CHECK(test::contains(error.what(), "TRAINING"));
  nn::TrainingScope training;
  error = test::user_error([&] { adam.step(); });
  CHECK(std::string(error.what()) ==
        "parameter 0 of shape (1,) has no gradient: call backward() on a loss that depends on it");
}
