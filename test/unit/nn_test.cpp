#include "nn/layers.h"
#include "nn/state.h"
#include "nn/training.h"

#include <cmath>

#include "support/test.h"

using namespace lathe;

namespace {

Tensor arange(std::initializer_list<int64_t> shape, double scale = 1) {
  int64_t count = 1;
  for (int64_t s : shape) count *= s;
  std::vector<float> values;
  for (int64_t i = 0; i < count; i++) values.push_back(static_cast<float>(scale * static_cast<double>(i)));
  Shape out;
  for (int64_t s : shape) out.push_back(s);
  return Tensor::from(values, out);
}

void check_close(const Tensor& t, const std::vector<double>& expected, double tolerance = 1e-5) {
  const std::vector<float> values = t.to_vector<float>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); i++) {
    CAPTURE(i);
    CHECK(values[i] == doctest::Approx(expected[i]).epsilon(tolerance));
  }
}

// Uniform in [-bound, bound): inside it, near its ends, and with its mean and variance.
void check_uniform(const Tensor& t, double bound) {
  const std::vector<float> values = t.to_vector<float>();
  double low = 0, high = 0, sum = 0, squares = 0;
  for (float v : values) {
    low = std::min<double>(low, v);
    high = std::max<double>(high, v);
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const double n = static_cast<double>(values.size());
  CHECK(low >= -bound * 1.0001);
  CHECK(high <= bound * 1.0001);
  CHECK(low < -0.9 * bound);
  CHECK(high > 0.9 * bound);
  CHECK(std::abs(sum / n) < 4 * bound / std::sqrt(3 * n));
  CHECK(squares / n == doctest::Approx(bound * bound / 3).epsilon(0.15));
}

}  // namespace

TEST_CASE("linear") {
  const nn::Linear layer(50, 40);
  CHECK(to_string(layer.weight.shape()) == "(40, 50)");
  CHECK(to_string(layer.bias->shape()) == "(40,)");
  check_uniform(layer.weight, 1 / std::sqrt(50.0));
  CHECK(!nn::Linear(2, 2, false).bias);

  nn::Linear small(3, 2);
  small.weight.assign(Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  small.bias->assign(Tensor::from<float>({10, 20}));
  check_close(small(Tensor::from<float>({1, 0, -1, 2, 2, 2}, {2, 3})), {8, 18, 22, 50});
}

TEST_CASE("conv2d") {
  const nn::Conv2d layer(8, 16, Ints{3, 5}, {.groups = 2});
  CHECK(to_string(layer.weight.shape()) == "(16, 4, 3, 5)");
  check_uniform(layer.weight, 1 / std::sqrt(8.0 * 15));
  CHECK(to_string(nn::Conv2d(1, 2, 3).weight.shape()) == "(2, 1, 3, 3)");
  CHECK(!nn::Conv2d(1, 2, 3, {.bias = false}).bias);

  nn::Conv2d ones(1, 1, 2, {.stride = 2, .bias = false});
  ones.weight.assign(Tensor::ones({1, 1, 2, 2}));
  check_close(ones(arange({1, 1, 4, 4})), {10, 18, 42, 50});
}

TEST_CASE("padding that keeps the size") {
  nn::Conv2d even(1, 1, Ints{2, 3}, {.padding = "same", .bias = false});
  even.weight.assign(Tensor::ones({1, 1, 2, 3}));
  const Tensor out = even(arange({1, 1, 2, 3}));
  CHECK(to_string(out.shape()) == "(1, 1, 2, 3)");
  check_close(out, {8, 15, 12, 7, 12, 9});
  CHECK(to_string(nn::Conv2d(1, 1, 3, {.padding = "same", .dilation = 2})(arange({1, 1, 7, 5})).shape()) ==
        "(1, 1, 7, 5)");
  auto error = test::user_error([] { nn::Conv2d(1, 1, 3, {.padding = "valid"}); });
  CHECK(error.kind() == UserError::Kind::Value);
  CHECK(std::string(error.what()) == "Invalid padding string 'valid', only 'same' is supported");
  error = test::user_error([] { nn::Conv2d(1, 1, 3, {.stride = 2, .padding = "same"}); });
  CHECK(error.kind() == UserError::Kind::Value);
  error = test::user_error([] { nn::Conv2d(3, 4, 3, {.groups = 2}); });
  CHECK(std::string(error.what()) == "3 input and 4 output channels cannot be split into 2 groups");
}

TEST_CASE("batch norm by running statistics") {
  const nn::BatchNorm layer(2);
  const double scale = 1 / std::sqrt(1 + 1e-5);
  std::vector<double> expected;
  for (int i = 0; i < 8; i++) expected.push_back(i * scale);
  check_close(layer(arange({2, 2, 2})), expected);
  check_close(*layer.running_mean, {0, 0});
  CHECK(layer.num_batches_tracked->item<int64_t>() == 0);
}

TEST_CASE("batch norm in training learns its statistics") {
  const nn::BatchNorm layer(2, {.momentum = 0.25});
  const Tensor x = arange({2, 2, 2});  // channel 0: 0 1 4 5, channel 1: 2 3 6 7
  {
    nn::TrainingScope training;
    const Tensor y = layer(x);
    const double d = 1 / std::sqrt(4.25 + 1e-5);
    check_close(y, {-2.5 * d, -1.5 * d, -2.5 * d, -1.5 * d, 1.5 * d, 2.5 * d, 1.5 * d, 2.5 * d});
    // The running variance is that of a sample: 4.25·8/6.
    check_close(*layer.running_mean, {0.625, 1.125});
    check_close(*layer.running_var, {0.75 + 0.25 * 4.25 * 8 / 6, 0.75 + 0.25 * 4.25 * 8 / 6});
    CHECK(layer.num_batches_tracked->item<int64_t>() == 1);
    layer(x);
    CHECK(layer.num_batches_tracked->item<int64_t>() == 2);
    check_close(*layer.running_mean, {0.75 * 0.625 + 0.625, 0.75 * 1.125 + 1.125});
  }
  layer(x);
  CHECK(layer.num_batches_tracked->item<int64_t>() == 2);
}

TEST_CASE("batch norm without statistics or weights") {
  const nn::BatchNorm layer(1, {.affine = false, .track_running_stats = false});
  CHECK(nn::state_dict(layer).empty());
  check_close(layer(Tensor::from<float>({1, 3}, {2, 1})), {-0.999995, 0.999995});
}

TEST_CASE("batch norm refuses what it cannot normalise") {
  const nn::BatchNorm layer(2);
  auto error = test::user_error([&] { layer(arange({2, 3, 2})); });
  CHECK(std::string(error.what()) == "batch norm of 2 channels got an input of shape (2, 3, 2)");
  nn::TrainingScope training;
  error = test::user_error([&] { layer(arange({1, 2})); });
  CHECK(std::string(error.what()) ==
        "batch norm cannot train on fewer than two values a channel (shape (1, 2))");
}

TEST_CASE("layer norm and RMS norm") {
  const Tensor m = Tensor::from<float>({1, 2, 3, 2, 2, 5}, {2, 3});
  check_close(nn::LayerNorm(3)(m), {-1.224736, 0, 1.224736, -0.707105, -0.707105, 1.41421});
  check_close(nn::RMSNorm(3)(m), {.46291, .92582, 1.38873, .6030227, .6030227, 1.507557});

  nn::LayerNorm affine(3);
  affine.weight->assign(Tensor::from<float>({1, 2, 3}));
  affine.bias->assign(Tensor::from<float>({1, 1, 1}));
  check_close(affine(m), {-0.224736, 1, 4.674208, 0.292895, -0.41421, 5.24263});
  // Over the last two axes: mean 2.5, variance 1.583333.
  const double d = 1 / std::sqrt(19.0 / 12 + 1e-5);
  check_close(nn::LayerNorm(Ints{2, 3}, 1e-5, false)(m),
              {-1.5 * d, -0.5 * d, 0.5 * d, -0.5 * d, -0.5 * d, 2.5 * d});
  const auto error = test::user_error([&] { nn::LayerNorm(Ints{3, 3})(m); });
  CHECK(std::string(error.what()) == "layer norm over (3, 3) got an input of shape (2, 3)");

  CHECK(nn::RMSNorm(3, 1e-6, false)(m.half()).dtype() == DType::Float16);
  CHECK(nn::state_dict(nn::RMSNorm(3, 1e-6, false)).empty());
}

TEST_CASE("embedding") {
  nn::Embedding layer(4, 2);
  check_uniform(nn::Embedding(64, 32).weight, std::sqrt(6.0 / (64 + 32)));
  layer.weight.assign(arange({4, 2}));
  const Tensor out = layer(Tensor::from({{3, 0}, {4, -1}}));
  CHECK(to_string(out.shape()) == "(2, 2, 2)");
  check_close(out, {6, 7, 0, 1, 0, 0, 0, 0});
  const auto error = test::user_error([&] { layer(Tensor::from<float>({1})); });
  CHECK(error.kind() == UserError::Kind::Type);
  CHECK(std::string(error.what()) == "Expected integer dtype for index in embedding, got dtypes.float");
}

TEST_CASE("the gradient of an embedding counts its rows") {
  nn::Embedding layer(3, 2);
  layer(Tensor::from({2, 0, 2})).sum().backward();
  check_close(*layer.weight.grad(), {1, 1, 0, 0, 2, 2});
}

TEST_CASE("dropout drops in training only") {
  Tensor::manual_seed(3);
  const nn::Dropout layer(0.25);
  const Tensor x = Tensor::ones({10000});
  check_close(layer(x).sum(), {10000});
  nn::TrainingScope training;
  const std::vector<float> values = layer(x).to_vector<float>();
  int dropped = 0;
  for (float v : values) {
    if (v == 0)
      dropped++;
    else
      CHECK(v == doctest::Approx(4.0 / 3));
  }
  CHECK(dropped > 2350);
  CHECK(dropped < 2650);
}

TEST_CASE("training mode nests and ends with its scope") {
  CHECK(!nn::is_training());
  {
    nn::TrainingScope training;
    CHECK(nn::is_training());
    nn::TrainingScope evaluation(false);
    CHECK(!nn::is_training());
  }
  CHECK(!nn::is_training());
}
