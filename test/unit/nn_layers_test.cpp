// Layers against values computed another way, and their gradients against differences.
#include "nn/layers.h"
#include "nn/training.h"
#include "unit/tensor_check.h"

#include <array>
#include <cmath>
#include <functional>

using namespace lathe;

namespace {

double dot(const Tensor& a, const Tensor& b) { return (a * b).sum().item<double>(); }

// In float64, the derivative along a random direction of each tensor of the layer, and of x, by backward()
// and by a central difference. `call` gives what the layer makes of x.
template <class Layer>
void check_gradients(const Layer& layer, const Tensor& input,
                     const std::function<Tensor(const Tensor&)>& call, double step = 1e-5,
                     double tolerance = 1e-5) {
  std::vector<Tensor> varied;
  nn::visit_tensors(layer, "", [&](const std::string&, Tensor t) {
    if (!is_float(t.dtype())) return;
    t.replace(t.to_double().realize());
    if (t.is_param()) varied.push_back(t);
  });
  const Tensor x = input.to_double().realize();
  varied.push_back(x);
  const Tensor out = call(x);
  const Tensor weights = Tensor::randn(out.shape()).to_double().realize();
  for (Tensor& t : varied) t.set_grad(std::nullopt);
  (out * weights).sum().backward();
  std::vector<Tensor> slopes;
  for (Tensor& t : varied) {
    REQUIRE(t.grad());
    slopes.push_back(*t.grad());
  }
  Tensor::realize(slopes);
  for (size_t i = 0; i < varied.size(); i++) {
    CAPTURE(i);
    Tensor& t = varied[i];
    const Tensor direction = Tensor::randn(t.shape()).to_double().realize(), here = t.clone().realize();
    const double expected = dot(slopes[i], direction);
    auto at = [&](double moved) {
      t.assign(here + moved * direction).realize();
      return dot(call(x), weights);
    };
    CHECK((at(step) - at(-step)) / (2 * step) == doctest::Approx(expected).epsilon(tolerance));
    t.assign(here).realize();
  }
}

void check_gradients(const auto& layer, const Tensor& input) {
  check_gradients(layer, input, [&](const Tensor& x) { return layer(x); });
}

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

void check_close(const Tensor& t, const std::vector<double>& expected) {
  test::check_values(t, expected, 1e-5);
}

// Of one row: (v - mean) / sqrt(variance + eps).
std::vector<double> normal(const std::vector<double>& row, double eps) {
  double mean = 0, variance = 0;
  for (const double v : row) mean += v / static_cast<double>(row.size());
  for (const double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(row.size());
  std::vector<double> out;
  for (const double v : row) out.push_back((v - mean) / std::sqrt(variance + eps));
  return out;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("convolutions over one and three axes") {
  nn::Conv1d line(1, 1, 3, {.stride = 2, .padding = 1});
  CHECK(to_string(line.weight.shape()) == "(1, 1, 3)");
  line.weight.assign(Tensor::from({{{1.0, 2.0, 3.0}}}));
  line.bias->assign(Tensor::from({10.0}));
  check_close(line(Tensor::from({{{1.0, 2.0, 3.0, 4.0}}})), {10 + 2 + 6, 10 + 2 + 6 + 12});

  nn::Conv3d volume(1, 2, 2, {.bias = false});
  CHECK(to_string(volume.weight.shape()) == "(2, 1, 2, 2, 2)");
  volume.weight.assign(Tensor::cat({Tensor::ones({1, 1, 2, 2, 2}), Tensor::full({1, 1, 2, 2, 2}, 0.5)}));
  check_close(volume(Tensor::arange(8).to_float().reshape({1, 1, 2, 2, 2})), {28, 14});

  auto error = test::user_error([] { nn::Conv2d(1, 1, Ints{3, 3, 3}); });
  CHECK(error.kind() == UserError::Kind::Value);
  CHECK(std::string(error.what()) == "a kernel of 3 sizes for 2 axes");
  error = test::user_error([] { nn::Conv3d(1, 1, 3, {.padding = "same", .dilation = Ints{2, 2}}); });
  CHECK(std::string(error.what()) == "a dilation of 2 sizes for 3 axes");
}

TEST_CASE("a layer without inputs has a bias of 0") {
  check_close(*nn::Linear(0, 2).bias, {0, 0});
  check_close(*nn::Conv2d(0, 3, 3).bias, {0, 0, 0});
}

TEST_CASE("gradients of convolutions") {
  Tensor::manual_seed(1);
  check_gradients(nn::Conv1d(2, 3, 3, {.padding = "same"}), Tensor::randn({2, 2, 5}));
  check_gradients(nn::Conv2d(4, 4, Ints{3, 2}, {.stride = 2, .padding = 1, .groups = 2}),
                  Tensor::randn({1, 4, 5, 4}));
}

TEST_CASE("transposed convolutions") {
  nn::ConvTranspose2d layer(1, 1, 2, {.stride = 2, .bias = false});
  layer.weight.assign(Tensor::ones({1, 1, 2, 2}));
  const Tensor x = Tensor::from({{{{1.0, 2.0}, {3.0, 4.0}}}});
  check_close(layer(x), {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
  nn::ConvTranspose2d cut(1, 1, 2, {.stride = 2, .padding = 1, .output_padding = 1, .bias = false});
  cut.weight.assign(Tensor::ones({1, 1, 2, 2}));
  check_close(cut(x), {1, 2, 2, 3, 4, 4, 3, 4, 4});

  const nn::ConvTranspose1d line(4, 6, 3, {.groups = 2});
  CHECK(to_string(line.weight.shape()) == "(4, 3, 3)");
  CHECK(to_string(line.bias->shape()) == "(6,)");
  CHECK(line.weight.abs().max().item<float>() <= 1 / std::sqrt(12.0));
  CHECK(to_string(line(Tensor::ones({2, 4, 5})).shape()) == "(2, 6, 7)");
  CHECK(!nn::ConvTranspose3d(1, 1, 2, {.bias = false}).bias);
  CHECK_THROWS_AS(nn::ConvTranspose1d(3, 4, 3, {.groups = 2}), UserError);
}

// <conv(x), y> = <x, transposed(y)> for the same weights.
TEST_CASE("a transposed convolution is the transpose of a convolution") {
  Tensor::manual_seed(2);
  const nn::Conv2d conv(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2, .bias = false});
  nn::ConvTranspose2d transposed(
      6, 4, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2, .bias = false});
  transposed.weight.assign(conv.weight);
  const Tensor x = Tensor::randn({2, 4, 6, 6}).realize(), y = Tensor::randn({2, 6, 3, 3}).realize();
  CHECK(dot(conv(x), y) == doctest::Approx(dot(x, transposed(y))).epsilon(1e-4));
  check_gradients(transposed, y);
}

TEST_CASE("group and instance norm") {
  Tensor::manual_seed(3);
  const Tensor x = Tensor::randn({2, 4, 3}).realize();
  nn::GroupNorm layer(2, 4);
  layer.weight->assign(Tensor::from({1.0, 2.0, 3.0, 4.0}));
  layer.bias->assign(Tensor::from({0.5, 0.0, -0.5, 1.0}));
  const std::vector<double> scale{1, 2, 3, 4}, offset{0.5, 0, -0.5, 1}, in = values(x);
  auto expected = [&](size_t channels_a_group, bool is_affine) {
    std::vector<double> out;
    const auto row = static_cast<std::ptrdiff_t>(3 * channels_a_group);
    for (auto at = in.begin(); at != in.end(); at += row)
      for (const double v : normal({at, at + row}, 1e-5)) out.push_back(v);
    for (size_t i = 0; is_affine && i < out.size(); i++)
      out[i] = out[i] * scale[i / 3 % 4] + offset[i / 3 % 4];
    return out;
  };
  check_close(layer(x), expected(2, true));
  check_close(nn::InstanceNorm(4)(x), expected(1, false));
  CHECK(nn::state_dict(nn::InstanceNorm(4, 1e-5, false)).empty());
  check_gradients(layer, x);
  check_gradients(nn::InstanceNorm(4), x);

  CHECK(std::string(test::user_error([] { nn::GroupNorm(3, 4); }).what()) ==
        "4 channels cannot be split into 3 groups");
  CHECK(std::string(test::user_error([&] { nn::GroupNorm(2, 6)(x); }).what()) ==
        "group norm of 6 channels got an input of shape (2, 4, 3)");
}

TEST_CASE("layer norm of the channels of images") {
  Tensor::manual_seed(4);
  const Tensor x = Tensor::randn({2, 3, 2, 2}).realize();
  const std::vector<double> in = values(x);
  std::vector<double> expected(in.size());
  for (size_t image = 0; image < 2; image++)
    for (size_t pixel = 0; pixel < 4; pixel++) {
      auto at = [&](size_t channel) { return image * 12 + channel * 4 + pixel; };
      const std::vector<double> out = normal({in[at(0)], in[at(1)], in[at(2)]}, 1e-5);
      for (size_t channel = 0; channel < 3; channel++) expected[at(channel)] = out[channel];
    }
  check_close(nn::LayerNorm2d(3)(x), expected);
}

TEST_CASE("gradients of norms and embeddings") {
  Tensor::manual_seed(5);
  check_gradients(nn::LayerNorm2d(3), Tensor::randn({2, 3, 2, 2}));
  check_gradients(nn::Linear(4, 3), Tensor::randn({2, 4}));
  const nn::RMSNorm rms(5);  // computes in float32
  check_gradients(rms, Tensor::randn({3, 5}), [&](const Tensor& x) { return rms(x); }, 1e-2, 1e-3);
  const nn::Embedding embedding(5, 3);
  const Tensor which = Tensor::from({1, 4, 1});
  check_gradients(embedding, Tensor::randn({3, 3}), [&](const Tensor& x) { return embedding(which) * x; });
  const nn::TrainingScope training;
  check_gradients(nn::BatchNorm(3), Tensor::randn({4, 3, 2}));
}

TEST_CASE("a step of an LSTM") {
  Tensor::manual_seed(6);
  const nn::LSTMCell cell(3, 2);
  CHECK(to_string(cell.weight_ih.shape()) == "(8, 3)");
  CHECK(to_string(cell.weight_hh.shape()) == "(8, 2)");
  CHECK(cell.weight_hh.abs().max().item<float>() <= 1 / std::sqrt(2.0));
  check_close(*cell.bias_ih, std::vector<double>(8, 0));
  check_close(*cell.bias_hh, std::vector<double>(8, 0));
  CHECK(nn::state_dict(nn::LSTMCell(3, 2, false)).size() == 2);
  Tensor bias_ih = *cell.bias_ih, bias_hh = *cell.bias_hh;
  bias_ih.assign(Tensor::randn({8})).realize();
  bias_hh.assign(Tensor::randn({8})).realize();

  const Tensor x = Tensor::randn({1, 3}).realize(), h = Tensor::randn({1, 2}).realize(),
               c = Tensor::randn({1, 2}).realize();
  auto expected = [&](const std::vector<double>& h_before, const std::vector<double>& c_before) {
    const auto w = values(cell.weight_ih), u = values(cell.weight_hh), b = values(bias_ih),
               d = values(bias_hh), in = values(x);
    std::array<double, 8> gate;
    for (size_t i = 0; i < 8; i++) {
      gate[i] = b[i] + d[i];
      for (size_t k = 0; k < 3; k++) gate[i] += w[3 * i + k] * in[k];
      for (size_t k = 0; k < 2; k++) gate[i] += u[2 * i + k] * h_before[k];
    }
    std::pair<std::vector<double>, std::vector<double>> out;
    for (size_t i = 0; i < 2; i++) {
      const double cell_now = sigmoid(gate[2 + i]) * c_before[i] + sigmoid(gate[i]) * std::tanh(gate[4 + i]);
      out.first.push_back(sigmoid(gate[6 + i]) * std::tanh(cell_now));
      out.second.push_back(cell_now);
    }
    return out;
  };
  const nn::LSTMCell::State fresh = cell(x), next = cell(x, nn::LSTMCell::State{h, c});
  const auto [fresh_h, fresh_c] = expected({0, 0}, {0, 0});
  const auto [next_h, next_c] = expected(values(h), values(c));
  check_close(fresh.h, fresh_h);
  check_close(fresh.c, fresh_c);
  check_close(next.h, next_h);
  check_close(next.c, next_c);

  check_gradients(cell, x, [&](const Tensor& now) {
    const nn::LSTMCell::State first = cell(now), second = cell(now * 0.5, first);
    return second.h + second.c;
  });
}

TEST_CASE("attention in heads") {
  Tensor::manual_seed(7);
  constexpr size_t kLength = 3, kDim = 4, kHead = 2;
  const nn::MultiheadAttention layer(kDim, 2);
  Tensor bias = *layer.in_proj_bias;
  bias.assign(Tensor::randn({12})).realize();
  const Tensor x = Tensor::randn({1, 3, 4}).realize();
  const auto in = values(x), w = values(layer.in_proj_weight), b = values(bias),
             o = values(layer.out_proj.weight), ob = values(*layer.out_proj.bias);
  auto projected = [&](size_t row, size_t feature) {  // of queries, keys and values, one after the other
    double sum = b[feature];
    for (size_t k = 0; k < kDim; k++) sum += w[feature * kDim + k] * in[row * kDim + k];
    return sum;
  };
  auto expected = [&](bool is_causal) {
    std::vector<double> mixed(kLength * kDim), out;
    for (size_t row = 0; row < kLength; row++)
      for (size_t head = 0; head < kDim / kHead; head++) {
        std::vector<double> weight;
        double sum = 0;
        for (size_t other = 0; other < (is_causal ? row + 1 : kLength); other++) {
          double score = 0;
          for (size_t k = head * kHead; k < (head + 1) * kHead; k++)
            score += projected(row, k) * projected(other, kDim + k);
          sum += weight.emplace_back(std::exp(score / std::sqrt(2.0)));
        }
        for (size_t k = head * kHead; k < (head + 1) * kHead; k++)
          for (size_t other = 0; other < weight.size(); other++)
            mixed[row * kDim + k] += weight[other] / sum * projected(other, 2 * kDim + k);
      }
    for (size_t row = 0; row < kLength; row++)
      for (size_t i = 0; i < kDim; i++) {
        out.push_back(ob[i]);
        for (size_t k = 0; k < kDim; k++) out.back() += o[i * kDim + k] * mixed[row * kDim + k];
      }
    return out;
  };
  check_close(layer(x), expected(false));
  check_close(layer(x, {.is_causal = true}), expected(true));
  check_close(layer(x, {.context = x}), expected(false));
  const Tensor before = Tensor::ones({3, 3}).tril().to_bool();
  check_close(layer(x, {.mask = before}), expected(true));
  CHECK(to_string(layer(x, {.context = Tensor::randn({1, 5, 4})}).shape()) == "(1, 3, 4)");
  CHECK(nn::state_dict(layer)[2].first == "out_proj.weight");
  check_gradients(layer, x, [&](const Tensor& y) { return layer(y, {.is_causal = true}); });

  CHECK(std::string(test::user_error([] { nn::MultiheadAttention(6, 4); }).what()) ==
        "6 features cannot be split into 4 heads");
  CHECK(std::string(test::user_error([&] { layer(x.squeeze(0)); }).what()) ==
        "attention wants (batch, length, features), got (3, 4)");
}

TEST_CASE("layers and functions in a row") {
  Tensor::manual_seed(8);
  const nn::Linear first(3, 4), last(4, 2);
  const nn::Sequential layers(first, &Tensor::relu, nn::Dropout(0.1), last);
  const Tensor x = Tensor::randn({2, 3}).realize();
  check_close(layers(x), values(last(first(x).relu())));
  std::vector<std::string> names;
  for (const auto& [name, t] : nn::state_dict(layers, "body")) names.push_back(name);
  CHECK(names == std::vector<std::string>{"body.0.weight", "body.0.bias", "body.3.weight", "body.3.bias"});
  CHECK(nn::parameters(layers)[2].is_same(last.weight));

  nn::Sequential outer(layers);
  CHECK(nn::state_dict(outer).size() == 4);
  outer.add([](const Tensor& y) { return y * 2; });
  check_close(outer(x), values(layers(x) * 2));
  nn::Sequential nested;
  nested.add(layers);
  CHECK(nn::state_dict(nested)[0].first == "0.0.weight");
  check_close(nn::Sequential()(x), values(x));
  check_gradients(layers, x);
}
