// Ops of the domain com.microsoft, against what they stand for.
#include "formats/onnx/session.h"
#include "unit/tensor_check.h"

#include <cmath>

#include "support/onnx_writer.h"
#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using Inputs = std::vector<Tensor>;

// One node of the op, with inputs i0, i1, … and outputs o0, o1, …
onnx::Values run(const char* op, const Inputs& inputs, const std::string& attributes = "",
                 size_t n_outputs = 1, const char* domain = "com.microsoft") {
  static const char* const kIn[] = {"i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7", "i8", "i9"};
  static const char* const kOut[] = {"o0", "o1", "o2", "o3"};
  std::string graph = node(op, {kIn, kIn + inputs.size()}, {kOut, kOut + n_outputs}, attributes, domain);
  std::map<std::string, onnx::Value> given;
  for (size_t i = 0; i < inputs.size(); i++) {
    given[kIn[i]] = inputs[i];
    graph +=
        input(kIn[i], static_cast<int>(onnx::element_type_of(inputs[i].dtype())), onnx::sizes_of(inputs[i]));
  }
  for (size_t i = 0; i < n_outputs; i++) graph += output(kOut[i]);
  const std::string file = model(graph, 23, opset(1, "com.microsoft"));
  return onnx::Session(onnx::parse_model(std::as_bytes(std::span(file)), op).or_throw()).run(given);
}
Tensor first(const char* op, const Inputs& inputs, const std::string& attributes = "") {
  return run(op, inputs, attributes).at(0).tensor();
}
Tensor u8(const std::vector<uint8_t>& v, const Shape& shape) { return Tensor::from(v, shape); }

}  // namespace

TEST_CASE("activations with a bias") {
  const Tensor x = floats({-1, 0, 2}), b = floats({.5f, .5f, .5f});
  const auto gelu = [](double v) { return v * 0.5 * (1 + std::erf(v / std::sqrt(2))); };
  check_values(first("BiasGelu", {x, b}), {gelu(-.5), gelu(.5), gelu(2.5)});
  check_values(first("Gelu", {x}), {gelu(-1), 0, gelu(2)});
  check_values(first("FastGelu", {x}), {-0.158808, 0, 1.954598});
  check_values(first("QuickGelu", {x}), {-1 / (1 + std::exp(1.702)), 0, 2 / (1 + std::exp(-3.404))});
}

TEST_CASE("products") {
  const Tensor a = floats({1, 2, 3, 4}, {2, 2}), b = floats({1, 1, 2, 0}, {2, 2});
  check_values(first("FusedMatMul", {a, b}, attribute("alpha", 2.0F) + attribute("transB", 1)),
               {6, 4, 14, 12});
  check_values(first("FusedMatMul", {a, b}, attribute("transA", 1)), {7, 1, 10, 2});
  // Two rows of four weights in blocks of two, four bits each: (w - 8) * scale, or with zero points of their
  // own.
  const Tensor x = floats({1, 2, 3, 4}, {1, 4}), scales = floats({1, 2, .5f, 1});
  const Tensor packed = u8({0x98, 0x7a, 0x86, 0xf8}, {2, 2, 1});
  const std::string sizes =
      attribute("K", 4) + attribute("N", 2) + attribute("bits", 4) + attribute("block_size", 2);
  check_values(first("MatMulNBits", {x, packed, scales}, sizes),
               {1 * 0 + 2 * 1 + 2 * (3 * 2 - 4), .5 * -2 + 4 * 7});
  check_values(first("MatMulNBits", {x, packed, scales, u8({0x77, 0x88}, {2})}, sizes),
               {1 * 1 + 2 * 2 + 2 * (3 * 3 + 4 * 0), .5 * -2 + 4 * 7});
}

TEST_CASE("normalisation of sums") {
  const Tensor x = floats({1, 2, 3, 4}, {1, 4}), skip = floats({1, 0, 1, 0}, {1, 4}),
               one = floats({1, 1, 1, 2});
  const onnx::Values out = run("SkipLayerNormalization", {x, skip, one, floats({0, 0, 0, 1})}, "", 4);
  check_values(out.at(0).tensor(), {-1, -1, 1, 3});
  check_values(out.at(3).tensor(), {2, 2, 4, 4});
  const double rms = std::sqrt(40.0 / 4);
  check_values(
      run("SkipSimplifiedLayerNormalization", {x, skip, one}, attribute("epsilon", 0.0F), 4).at(0).tensor(),
      {2 / rms, 2 / rms, 4 / rms, 8 / rms});
  check_values(first("SimplifiedLayerNormalization", {floats({3, 4, 0, 5}), one}, attribute("epsilon", 0.0F)),
               {3 / std::sqrt(12.5), 4 / std::sqrt(12.5), 0, 10 / std::sqrt(12.5)});
  const Tensor words = floats({0, 1, 2, 3, 4, 9}, {3, 2}), places = floats({0, 0, 1, 0}, {2, 2});
  const onnx::Values embedded = run("EmbedLayerNormalization",
                                    {Tensor::from({{2, 0}}), Tensor::from({{0, 0}}), words, places,
                                     floats({0, 0}, {1, 2}), floats({1, 1}), floats({0, 0})},
                                    "", 2);
  check_values(embedded.at(0).tensor(), {-1, 1, 0, 0});
}

TEST_CASE("quantised arithmetic") {
  const Tensor half = floats({.5f}, {}), zero = u8({10}, {}), quarter = floats({.25f}, {});
  // (14 - 10) / 2 + (18 - 10) / 2 = 6 = (34 - 10) / 4
  check_values(
      first("QLinearAdd", {u8({14, 10}, {2}), half, zero, u8({18, 12}, {2}), half, zero, quarter, zero}),
      {34, 14});
  check_values(
      first("QLinearMul", {u8({14, 10}, {2}), half, zero, u8({18, 12}, {2}), half, zero, quarter, zero}),
      {42, 10});
  check_values(first("MatMulIntegerToFloat", {u8({11, 12}, {1, 2}), u8({3, 4}, {2, 1}), half, quarter, zero}),
               {11.0 / 8});
  // 0 … 255 is the range that one byte covers exactly.
  check_values(first("DynamicQuantizeMatMul", {floats({0, 255, 3, 4}, {2, 2}), u8({1, 2}, {2, 1}), half}),
               {255, 5.5});
}

TEST_CASE("quantised functions") {
  const Tensor half = floats({.5f}, {}), ten = u8({10}, {}), small = floats({1.0f / 256}, {}),
               zero = u8({0}, {});
  const auto sigmoid = [](double v) { return std::round(256 / (1 + std::exp(-v))); };
  // (x - 10) / 2
  check_values(first("QLinearSigmoid", {u8({6, 10, 14}, {3}), half, ten, small, zero}),
               {sigmoid(-2), sigmoid(0), sigmoid(2)});
  check_values(first("QLinearLeakyRelu", {u8({6, 14}, {2}), half, ten, half, ten}, attribute("alpha", 0.5F)),
               {8, 14});
  const double e = std::exp(1), sum = 1 + e;
  check_values(first("QLinearSoftmax", {u8({10, 12}, {1, 2}), half, ten, small, zero}, attribute("axis", -1)),
               {std::round(256 / sum), std::round(256 * e / sum)});
  const Tensor image = u8({10, 12, 14, 20}, {1, 1, 2, 2});
  check_values(first("QLinearGlobalAveragePool", {image, half, ten, half, ten}), {14});
  check_values(first("QLinearAveragePool", {image, half, ten, half, ten},
                     attribute("kernel_shape", std::vector<int64_t>{1, 2})),
               {11, 17});
  // In the scale of the result, 1 and zero point 0.
  check_values(first("QLinearConcat",
                     {floats({1}, {}), zero, u8({12}, {1}), half, ten, u8({7}, {1}), floats({2}, {}), zero},
                     attribute("axis", 0)),
               {1, 14});
  // ((1 2) (3 4)^T + 5) * 0.5 * 0.25, as a float and in halves from 10 on
  const Inputs product{u8({11, 12}, {1, 2}), half, ten, u8({3, 4}, {2, 1}), floats({.25f}, {}), zero,
                       Tensor::from({5})};
  check_values(first("QGemm", product), {2});
  Inputs quantised = product;
  quantised.push_back(half);
  quantised.push_back(ten);
  check_values(first("QGemm", quantised), {14});
}

TEST_CASE("products with activations") {
  const Tensor x = floats({1, -2, 3, -4}, {1, 1, 2, 2}), w = floats({2}, {1, 1, 1, 1}), b = floats({1});
  check_values(first("FusedConv", {x, w, b}, attribute("activation", "Relu")), {3, 0, 7, 0});
  check_values(first("FusedConv", {x, w, b, x}, attribute("activation", "Relu")), {4, 0, 10, 0});
  const Tensor last = floats({1, -2, 3, -4}, {1, 2, 1, 2}), mixed = floats({1, 10}, {1, 2, 1, 1});
  check_values(first("NhwcConv", {last, mixed}), {-19, -37});
  const Tensor a = floats({1, 2}, {1, 2}), m = floats({1, -1, 1, -1}, {2, 2});
  check_values(first("FusedGemm", {a, m, floats({0, 1})},
                     attribute("activation", "LeakyRelu") + attribute("activation_alpha", 0.5F)),
               {3, -1});
  check_values(first("BiasAdd", {a, floats({1, 1}), a}), {3, 5});
}

TEST_CASE("attention with its projections") {
  // One head of size 2 in double precision: q, k and v are parts of x w + b.
  Tensor::manual_seed(3);
  const Tensor x = Tensor::randn({1, 3, 4}).realize(), w = Tensor::randn({4, 6}).realize(),
               b = Tensor::randn({6}).realize(), past = Tensor::randn({2, 1, 1, 1, 2}).realize();
  const auto xs = x.to_vector<double>(), ws = w.to_vector<double>(), bs = b.to_vector<double>(),
             ps = past.to_vector<double>();
  double p[3][6];
  for (size_t t = 0; t < 3; t++)
    for (size_t j = 0; j < 6; j++) {
      p[t][j] = bs[j];
      for (size_t i = 0; i < 4; i++) p[t][j] += xs[4 * t + i] * ws[6 * i + j];
    }
  // Key or value number t: the first comes from before. Queries see what is not behind them.
  const auto at = [&](size_t part, size_t t, size_t i) {
    return t == 0 ? ps[2 * (part - 1) + i] : p[t - 1][2 * part + i];
  };
  std::vector<double> expected;
  for (size_t t = 0; t < 3; t++) {
    double total = 0, y[2] = {0, 0};
    for (size_t s = 0; s <= t + 1; s++) {
      const double weight = std::exp((p[t][0] * at(1, s, 0) + p[t][1] * at(1, s, 1)) / std::sqrt(2.0));
      total += weight;
      for (size_t i = 0; i < 2; i++) y[i] += weight * at(2, s, i);
    }
    expected.push_back(y[0] / total);
    expected.push_back(y[1] / total);
  }
  const std::string graph_attributes = attribute("num_heads", 1) + attribute("unidirectional", 1);
  // Input 3, the mask, shows all four keys.
  const onnx::Values out =
      run("Attention", {x, w, b, Tensor::from({{1, 1, 1, 1}}), past}, graph_attributes, 2);
  check_values(out.at(0).tensor(), expected, 1e-4);
  CHECK(out.at(1).shape() == std::vector<int64_t>{2, 1, 1, 4, 2});
}

TEST_CASE("rotary embedding at positions") {
  // Pairs (x, y) turned by the angle of their position, half a turn a step.
  const Tensor cosines = floats({1, 0, -1, 0}, {4, 1}), sines = floats({0, 1, 0, -1}, {4, 1});
  const Tensor x = floats({1, 2, 3, 4}, {1, 2, 2});
  const Tensor from_one = Tensor::from({1}, {DType::Int64});
  check_values(first("RotaryEmbedding", {x, from_one, cosines, sines}), {-2, 1, -3, -4});
  check_values(first("RotaryEmbedding", {x, Tensor::from({{3, 0}}, {DType::Int64}), cosines, sines}),
               {2, -1, 3, 4});
}

TEST_CASE("attention of several heads") {
  Tensor::manual_seed(1);
  const auto random = [](const Shape& shape) { return Tensor::randn(shape).realize(); };
  const auto same = [](const onnx::Value& a, const onnx::Value& b) {
    CHECK(a.shape() == b.shape());
    CHECK(a.tensor().allclose(b.tensor(), 1e-4, 1e-5).item<bool>());
  };
  const Tensor q = random({2, 3, 8}), k = random({2, 5, 8}), v = random({2, 5, 8});
  const onnx::Value plain =
      run("Attention", {q, k, v}, attribute("q_num_heads", 2) + attribute("kv_num_heads", 2), 1, "").at(0);
  same(run("MultiHeadAttention", {q, k, v}, attribute("num_heads", 2)).at(0), plain);
  // A bias of the projections, and it taken away again.
  const Tensor bias = random({24});
  const Tensor q2 = q.sub(bias.at(Slice{0, 8})), k2 = k.sub(bias.at(Slice{8, 16})),
               v2 = v.sub(bias.at(Slice{16, 24}));
  same(run("MultiHeadAttention", {q2, k2, v2, bias}, attribute("num_heads", 2)).at(0), plain);
  // Keys that a batch does not have.
  const onnx::Values shorter = run("MultiHeadAttention", {q, k, v, Tensor::zeros({24}), Tensor::from({5, 2})},
                                   attribute("num_heads", 2));
  same(shorter.at(0).tensor().at(0), plain.tensor().at(0));
  const Slice two{0, 2}, second{1, 2};
  same(shorter.at(0).tensor().at(second),
       run("Attention", {q.at(second), k.at(second, two), v.at(second, two)},
           attribute("q_num_heads", 2) + attribute("kv_num_heads", 2), 1, "")
           .at(0));
}

TEST_CASE("attention of grouped queries") {
  Tensor::manual_seed(2);
  const auto random = [](const Shape& shape) { return Tensor::randn(shape).realize(); };
  const Tensor q = random({1, 3, 16}), k = random({1, 3, 8}), v = random({1, 3, 8}),
               past_k = random({1, 2, 2, 4}), past_v = random({1, 2, 2, 4});
  const Tensor cosine = random({8, 2}), sine = random({8, 2}), at = Tensor::from({{2, 3, 4}}, {DType::Int64});
  const Tensor last = Tensor::from({4}), total = Tensor::from({5});
  const onnx::Values fused =
      run("GroupQueryAttention", {q, k, v, past_k, past_v, last, total, cosine, sine},
          attribute("num_heads", 4) + attribute("kv_num_heads", 2) + attribute("do_rotary", 1), 3);
  const auto turned = [&](const Tensor& x, int64_t heads) {
    return run("RotaryEmbedding", {x, cosine, sine, at}, attribute("num_heads", heads), 1, "").at(0).tensor();
  };
  const auto heads = [](const Tensor& x) {
    return x.reshape({SInt(1), SInt(3), SInt(2), SInt(4)}).transpose(1, 2);
  };
  const Tensor all_k = Tensor::cat({past_k, heads(turned(k, 2))}, 2),
               all_v = Tensor::cat({past_v, heads(v)}, 2);
  const Tensor four = turned(q, 4).reshape({1, 3, 4, 4}).transpose(1, 2);
  const Tensor mask = Tensor::constant_of({3, 5}, true).tril(2);
  const Tensor y = run("Attention", {four, all_k, all_v, mask.realize()}, "", 1, "")
                       .at(0)
                       .tensor()
                       .transpose(1, 2)
                       .reshape({1, 3, 16});
  CHECK(fused.at(0).tensor().allclose(y, 1e-4, 1e-5).item<bool>());
  CHECK(fused.at(1).tensor().allclose(all_k, 1e-4, 1e-5).item<bool>());
  CHECK(fused.at(2).tensor().allclose(all_v).item<bool>());
}
