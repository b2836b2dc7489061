// Values of the tensor operations on small inputs.
#include "tensor/tensor.h"
#include "unit/tensor_check.h"

#include <limits>

using namespace lathe;
using namespace lathe::test;

namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor a23() { return Tensor::arange(6).reshape({2, 3}); }
Tensor z5() { return floats({-2, -.5, 0, 1, 3}); }
Tensor w3() { return floats({.1f, .5f, .9f}); }
Tensor m23() { return floats({1, 2, 3, 2, 2, 5}, {2, 3}); }
Tensor image() { return Tensor::arange(16).to_float().reshape({1, 1, 4, 4}); }
}  // namespace

TEST_CASE("number sequences") {
  check_values(Tensor::arange(5), {0, 1, 2, 3, 4});
  check_values(Tensor::arange(5.0), {0, 1, 2, 3, 4});
  check_values(Tensor::arange(3, 9, .7), {3, 3.7, 4.4, 5.1, 5.8, 6.5, 7.2, 7.9, 8.6});
  check_values(Tensor::arange(3, 8.5, 3), {3, 6});
  check_values(Tensor::arange(3, 5, -2), {});
  check_values(Tensor::arange(5.0, 3.0), {});
  check_values(Tensor::arange(10, 4, -2), {10, 8, 6});
  check_values(Tensor::arange(0, 3, 1, {DType::UInt8}), {0, 1, 2});
  check_values(Tensor::linspace(0, 1, 5), {0, .25, .5, .75, 1});
  check_values(Tensor::linspace(2, 9, 1), {2});
  check_values(Tensor::eye(2, 3), {1, 0, 0, 0, 1, 0});
  const std::vector<int> long_range = Tensor::arange(1000).to_vector<int>();
  for (int i = 0; i < 1000; i++) CHECK(long_range[static_cast<size_t>(i)] == i);
}

TEST_CASE("data in and out") {
  check_values(Tensor::from({{1, 2}, {3, 4}}), {1, 2, 3, 4});
  CHECK(shape_text(Tensor::from({{{1}, {2}}})) == "(1, 2, 1)");
  CHECK(Tensor::from({300, -1}, {DType::UInt8}).to_vector<uint8_t>() == std::vector<uint8_t>{44, 255});
  CHECK(Tensor::from({1.5, 2.25}, {DType::BFloat16}).to_vector<float>() == std::vector<float>{1.5f, 2.25f});
  CHECK(Tensor::from(std::vector<bool>{true, false}).to_vector<bool>() == std::vector<bool>{true, false});
  check_values(Tensor::zeros({2, 2}), {0, 0, 0, 0});
  check_values(Tensor::full({3}, 7, {DType::Int64}), {7, 7, 7});
  check_values(a23().full_like(2), {2, 2, 2, 2, 2, 2});
  check_values(Tensor::zeros({0, 3}), {});
  CHECK(a23().at(1, 2).item<int>() == 5);
}

TEST_CASE("symbolic sizes at their largest") {
  const Tensor x = Tensor::ones({2, 4}).shrink({none, {0, SInt(variable("n", 1, 3))}});
  CHECK(x.max_shape() == Shape{2, 3});
  CHECK(x.max_numel() == 6);
}

TEST_CASE("slices, positions and gathers") {
  const Tensor a = a23(), b = Tensor::arange(24).reshape({2, 3, 4});
  const Slice all, backwards{none, none, -1};
  check_values(a.at(1), {3, 4, 5});
  check_values(a.at(all, backwards), {2, 1, 0, 5, 4, 3});
  check_values(a.at(backwards, Slice{none, none, 2}), {3, 5, 0, 2});
  check_values(a.index({{1, 0}, {2, 0}}), {5, 0});
  check_values(a.index({all, {0, 2}}), {0, 2, 3, 5});
  check_values(a.at(ints({-1})), {3, 4, 5});
  check_values(a.at(ints({5})), {0, 0, 0});
  check_values(a.at(ints({1, 7}), ints({2, 0})), {5, 0});
  check_values(b.at(ints({0, 1}), all, ints({1, 3})), {1, 5, 9, 15, 19, 23});
  CHECK(shape_text(b.at(ints({0, 1}), all, ints({1, 3}))) == "(2, 3)");
  check_values(b.at(1, ellipsis, 2), {14, 18, 22});
  check_values(b.at(none, 0, 1, Slice{1, 3}), {5, 6});
  CHECK(shape_text(b.at(newaxis, 0, 1, Slice{1, 3})) == "(1, 2)");
  CHECK(shape_text(b.at(all, ints({0, 1, 2, 0}).reshape({2, 2}))) == "(2, 2, 2, 4)");
  check_values(Tensor::arange(10).at(Slice{8, 1, -3}), {8, 5, 2});
  check_values(Tensor::arange(10).at(Slice{-3, none}), {7, 8, 9});
  check_values(Tensor::arange(10).at(Slice{5, 2}), {});
  check_values(a.gather(1, ints({2, 0, 1, 1}, {2, 2})), {2, 0, 4, 4});
  check_values(Tensor::zeros({2, 3}).scatter(1, ints({0, 2, 1, 1}, {2, 2}), floats({1, 2, 3, 4}, {2, 2})),
               {1, 0, 2, 0, 4, 0});
  check_values(ints({2, 0}).one_hot(3), {0, 0, 1, 1, 0, 0});
  check_values(a.masked_fill(a.gt(2), -1), {0, 1, 2, -1, -1, -1});
}

TEST_CASE("padding") {
  const Tensor a = a23(), r = Tensor::arange(4);
  check_values(a.pad({1, 0, 0, 1}), {0, 0, 1, 2, 0, 3, 4, 5, 0, 0, 0, 0});
  check_values(a.pad({{0, 0}, {-1, 1}}), {1, 2, 0, 4, 5, 0});
  check_values(a.pad({1, 1}, PadMode::Constant, 7), {7, 0, 1, 2, 7, 7, 3, 4, 5, 7});
  check_values(r.pad({2, 1}, PadMode::Circular), {2, 3, 0, 1, 2, 3, 0});
  check_values(r.pad({2, 1}, PadMode::Reflect), {2, 1, 0, 1, 2, 3, 2});
  check_values(r.pad({2, 1}, PadMode::Replicate), {0, 0, 0, 1, 2, 3, 3});
  check_values(r.pad_to({6}), {0, 1, 2, 3, 0, 0});
}

TEST_CASE("movement") {
  const Tensor a = a23(), r = Tensor::arange(4);
  check_values(r.roll(1, Ints(0)), {3, 0, 1, 2});
  check_values(a.roll({1, 1}, Ints{0, 1}), {5, 3, 4, 2, 0, 1});
  check_values(a.roll(2), {4, 5, 0, 1, 2, 3});
  check_values(r.unfold(0, 2, 1), {0, 1, 1, 2, 2, 3});
  check_values(ints({1, 2}).diag(), {1, 0, 0, 2});
  check_values(a.diagonal(1), {1, 5});
  check_values(a.diagonal(-1), {3});
  check_values(a.diagonal(), {0, 4});
  check_values(a.triu(1), {0, 1, 2, 0, 0, 5});
  check_values(a.tril(-1), {0, 0, 0, 3, 0, 0});
  check_values(a.repeat_interleave(2, 1), {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  check_values(a.repeat({1, 2}), {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  CHECK(shape_text(a.repeat({2, 1, 1})) == "(2, 2, 3)");
  const std::vector<Tensor> grid = Tensor::meshgrid({ints({1, 2}), ints({3, 4, 5})});
  check_values(grid[0], {1, 1, 1, 2, 2, 2});
  check_values(grid[1], {3, 4, 5, 3, 4, 5});
  check_values(Tensor::arange(5).split({1, 4})[1], {1, 2, 3, 4});
  const std::vector<Tensor> chunks = Tensor::arange(11).chunk(6);
  CHECK(chunks.size() == 6);
  check_values(chunks[4], {8, 9});
  check_values(chunks[5], {10});
  check_values(a.T(), {0, 3, 1, 4, 2, 5});
  check_values(a.permute({1, 0}).flip(0), {2, 5, 1, 4, 0, 3});
  check_values(Tensor::cat({a, a}, 1), {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
  check_values(Tensor::cat({a, a.at(Slice{0, 1})}, 0), {0, 1, 2, 3, 4, 5, 0, 1, 2});
  check_values(Tensor::stack({a, a + 6}, -1), {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11});
  CHECK(shape_text(a.unsqueeze(1)) == "(2, 1, 3)");
  CHECK(shape_text(a.unsqueeze(-1).squeeze(-1)) == "(2, 3)");
  CHECK(shape_text(a.squeeze(0)) == "(2, 3)");
  CHECK(shape_text(a.flatten()) == "(6,)");
  CHECK(shape_text(a.unflatten(1, {3, -1})) == "(2, 3, 1)");
  CHECK(shape_text(a.reshape({-1, 2})) == "(3, 2)");
  CHECK(shape_text(a.expand({4, -1, -1})) == "(4, 2, 3)");
}

TEST_CASE("integer and float division") {
  const Tensor i = ints({7, -7}), f = floats({7.5, -7.5});
  check_values(i.div_floor(2), {3, -4});
  check_values(i % 3, {1, 2});
  check_values(i.fmod(3), {1, -1});
  check_values(i.div_trunc(2), {3, -3});
  check_values(i / 2, {3.5, -3.5});
  check_values(f % 2, {1.5, .5});
  check_values(f.fmod(2), {1.5, -1.5});
  check_values(f.div_floor(2), {3, -4});
  check_values(ints({6, -6}).div_trunc(ints({-3, -3})), {-2, 2});
}

TEST_CASE("rounding, signs and comparisons") {
  check_values(floats({-1.5, -.5, .5, 1.5, 2.5, 2.6f}).round(), {-2, 0, 0, 2, 2, 3});
  check_values(floats({-1.5, 1.5}).floor(), {-2, 1});
  check_values(floats({-1.5, 1.5}).ceil(), {-1, 2});
  check_values(floats({1, -2}).copysign(floats({-0.f, 1})), {-1, 2});
  check_values(floats({-3, 0, 2}).abs(), {3, 0, 2});
  check_values(floats({-3, 0, 2}).sign(), {-1, 0, 1});
  const Tensor nan = floats({NAN, 1}), one = floats({1, NAN});
  check_values(nan.lt(one), {0, 0});
  check_values(nan.ge(one), {0, 0});
  check_values(nan.le(one), {0, 0});
  check_values(nan.gt(one), {0, 0});
  check_values(nan.eq(nan), {0, 1});
  check_values(nan.ne(nan), {1, 0});
  check_values(floats({1, 2, 3}).le(2), {1, 1, 0});
  check_values(ints({1, 2, 3}).ge(2), {0, 1, 1});
  check_values(nan.isnan(), {1, 0});
  check_values(floats({INFINITY, -INFINITY, 1, NAN}).isinf(), {1, 1, 0, 0});
  check_values(floats({INFINITY, -INFINITY, 1, NAN}).isfinite(), {0, 0, 1, 0});
  check_values(floats({1, 5, 9}).clamp(2, 6), {2, 5, 6});
  check_values(ints({1, 5, 9}).maximum(4).minimum(6), {4, 5, 6});
  check_values(Tensor::from({0, 200}, {DType::UInt8}).minimum(100), {0, 100});
  check_values(Tensor::from({true, false}).minimum(true), {1, 0});
  check_values(~ints({0, 5}), {-1, -6});
  check_values(~Tensor::from({0, 5}, {DType::UInt8}), {255, 250});
  check_values(-Tensor::from({true, false}), {0, 1});
  check_values(ints({1, 2}) << 3, {8, 16});
  check_values(ints({-8, 9}) >> 1, {-4, 4});
  check_values((ints({6}) & 3) | 8, {10});
  check_values(floats({1, 2}).isclose(floats({1.000001f, 2.1f})), {1, 0});
  check_values(floats({1, 2}).lerp(floats({3, 4}), 0.5), {2, 3});
}

TEST_CASE("powers") {
  check_values(floats({-8, 2, 0}).pow(floats({3, -1, 0})), {-512, .5, 1});
  check_values(floats({-8}).pow(.5), {kNaN});
  check_values(ints({2, 3}).pow(3), {8, 27});
}

TEST_CASE("activations") {
  const Tensor z = z5();
  check_values(z.relu(), {0, 0, 0, 1, 3});
  check_values(z.relu6(), {0, 0, 0, 1, 3});
  check_values(z.hardtanh(), {-1, -.5, 0, 1, 1});
  check_values(z.sigmoid(), {.1192029, .3775407, .5, .7310586, .9525741});
  check_values(z.tanh(), {-.9640276, -.4621171, 0, .7615941, .9950548});
  check_values(z.hardswish(), {-.3333333, -.2083333, 0, .6666667, 3});
  check_values(z.hardsigmoid(), {.1666667, .4166667, .5, .6666667, 1});
  check_values(z.leaky_relu(), {-.02, -.005, 0, 1, 3});
  check_values(z.elu(), {-.8646647, -.3934693, 0, 1, 3});
  check_values(z.celu(), {-.8646647, -.3934693, 0, 1, 3});
  check_values(z.selu(), {-1.520162, -.6917562, 0, 1.0507, 3.1521});
  check_values(z.gelu(), {-.04540232, -.154286, 0, .841192, 2.996363});
  check_values(z.gelu("none"), {-.0455001, -.1542688, 0, .8413447, 2.99595});
  check_values(z.quick_gelu(), {-.06434137, -.1496116, 0, .8457958, 2.981929});
  check_values(z.swish(), {-.2384059, -.1887703, 0, .7310586, 2.857722});
  check_values(z.mish(), {-.2525015, -.2207438, 0, .8650984, 2.986535});
  check_values(z.softplus(), {.126928, .474077, .6931472, 1.313262, 3.048587});
  check_values(z.logsigmoid(), {-2.126928, -.974077, -.6931472, -.3132617, -.04858733});
  check_values(z.softsign(), {-.6666667, -.3333333, 0, .5, .75});
}

TEST_CASE("elementary functions") {
  const Tensor z = z5(), w = w3();
  check_values(z.erf(), {-.9953222, -.5205001, 0, .8427007, .9999779});
  check_values(z.exp(), {.1353353, .6065307, 1, 2.718282, 20.08554});
  check_values(z.sinh(), {-3.62686, -.5210953, 0, 1.175201, 10.01787});
  check_values(z.cosh(), {3.762196, 1.127626, 1, 1.543081, 10.06766});
  check_values(z.atan(), {-1.107149, -.4636477, 0, .7853982, 1.249046});
  check_values(w.log(), {-2.302585, -.6931472, -.1053605});
  check_values(w.log2(), {-3.321928, -1, -.1520031});
  check_values(w.log10(), {-1, -.30103, -.0457575});
  check_values(w.rsqrt(), {3.162278, 1.414214, 1.054093});
  check_values(w.asin(), {.1001676, .5235989, 1.11977});
  check_values(w.acos(), {1.470629, 1.047197, .4510268});
  check_values(w.atanh(), {.1003354, .5493062, 1.472219});
  check_values(ints({1, 4, 9, 16}).sqrt(), {1, 2, 3, 4});
  check_values(z.cos(), {std::cos(-2.), std::cos(-.5), 1, std::cos(1.), std::cos(3.)});
  check_values(w.tan(), {std::tan(.1), std::tan(.5), std::tan(.9)});
}

TEST_CASE("reductions") {
  const Tensor m = m23();
  check_values(m.sum(), {15});
  check_values(m.sum({0, 1}, true), {15});
  check_values(m.var(1), {1, 3});
  check_values(m.std(1), {1, 1.732051});
  check_values(m.mean(0), {1.5, 2, 4});
  check_values(m.var(1, false, 0), {.6666667, 2});
  check_values(m.logsumexp(1), {3.407606, 5.094923});
  check_values(m.prod(1), {6, 20});
  check_values(m.max(0), {2, 2, 5});
  check_values(m.min(1), {1, 2});
  check_values(ints({3, -5, 2}).min(), {-5});
  check_values(m.gt(4).any(1), {0, 1});
  check_values(m.gt(1).all(1), {0, 1});
  check_values(m.softmax(), {.09003057, .2447285, .6652409, .04527851, .04527851, .909443});
  check_values(m.log_softmax(), {-2.407606, -1.407606, -.4076059, -3.094923, -3.094923, -.09492292});
  check_values(m.softmin().at(0), {.6652409, .2447285, .09003057});
  check_values(m.normalize(), {.2672612, .5345225, .8017837, .3481553, .3481553, .8703883});
  check_values(m.layernorm(), {-1.224736, 0, 1.224736, -.707105, -.707105, 1.41421});
  check_values(ints({1, 3, 3}).argmax(), {1});
  check_values(ints({2, 0, 0}).argmin(), {1});
  check_values(m.argmax(1), {2, 2});
  check_values(m.argmax(0, true), {1, 0, 1});
  check_values(Tensor::zeros({2, 0, 3}).sum(1), {0, 0, 0, 0, 0, 0});
  check_values(Tensor::from({40000, 40000}, {DType::Float16}).sum(), {kInf});
  check_values(Tensor::from({40000, 40000}, {DType::Float16}).sum(0, false, DType::Float32), {80000});
}

TEST_CASE("running reductions") {
  const ValuesAndIndices most = ints({1, 3, 2, 3, 5}).cummax(), least = ints({4, 2, 3, 2}).cummin();
  check_values(most.values, {1, 3, 3, 3, 5});
  check_values(most.indices, {0, 1, 1, 1, 4});
  check_values(least.values, {4, 2, 2, 2});
  check_values(least.indices, {0, 1, 1, 1});
  check_values(ints({1, 2, 3, 4}, {2, 2}).cumsum(1), {1, 3, 3, 7});
  check_values(ints({1, 2, 3}).cumprod(), {1, 2, 6});
  check_values(Tensor::constant_of({600}, 1).cumsum().at(Slice{none, none, 100}),
               {1, 101, 201, 301, 401, 501});
}

TEST_CASE("products") {
  const Tensor m = m23();
  check_values(m.dot(m.T()), {14, 21, 21, 33});
  check_values(Tensor::einsum("ij,kj->ik", {m, m}), {14, 21, 21, 33});
  check_values(Tensor::einsum("ii->i", {ints({1, 2, 3, 4}, {2, 2})}), {1, 4});
  check_values(Tensor::einsum("ij->", {m}), {15});
  check_values(Tensor::einsum("...ij,...jk", {m.reshape({1, 2, 3}), m.T().reshape({1, 3, 2})}),
               {14, 21, 21, 33});
  check_values(floats({1, 2, 3}).dot(floats({4, 5, 6})), {32});
  check_values(m.dot(floats({1, 1, 1})), {6, 9});
  check_values(floats({1, 1}).dot(m), {3, 4, 8});
  CHECK(shape_text(Tensor::ones({4, 1, 2, 3}).dot(Tensor::ones({5, 3, 6}))) == "(4, 5, 2, 6)");
  check_values(m.linear(floats({1, 0, 0, 1, 0, 0}, {3, 2}), floats({10, 20})), {11, 22, 12, 22});
  check_values(m.linear(floats({1, 2, 3})), {1, 4, 9, 2, 4, 15});
}

TEST_CASE("pooling and convolution") {
  const Tensor x = image(), k = Tensor::ones({1, 1, 2, 2});
  check_values(x.avg_pool2d(), {2.5, 4.5, 10.5, 12.5});
  check_values(x.avg_pool2d({3, 3}, {.stride = 2, .padding = 1}), {1.111111, 2.666667, 5.666667, 10});
  check_values(x.avg_pool2d({3, 3}, {.stride = 2, .padding = 1, .count_include_pad = false}),
               {2.5, 4, 8.5, 10});
  check_values(x.avg_pool2d({3, 3}, {.stride = 2, .ceil_mode = true}), {5, 6.5, 11, 12.5});
  check_values(x.max_pool2d(), {5, 7, 13, 15});
  check_values(x.max_pool2d({3, 3}, {.stride = 1}), {10, 11, 14, 15});
  check_values(x.conv2d(k, {}, {.stride = 2}), {10, 18, 42, 50});
  check_values(x.conv2d(k, {}, {.padding = 1, .dilation = 2}).at(0, 0, 0), {5, 10, 12, 6});
  check_values(x.conv2d(k, floats({1})).at(0, 0, 0), {11, 15, 19});
  const Tensor two = Tensor::cat({x, x + 1}, 1), grouped = Tensor::ones({2, 1, 2, 2});
  check_values(two.conv2d(grouped, {}, {.stride = {2, 2}, .groups = 2}), {10, 18, 42, 50, 14, 22, 46, 54});
  check_values(floats({1, 2, 3, 4}, {1, 1, 4}).conv2d(floats({1, 10}, {1, 1, 2})), {21, 32, 43});
  const Tensor small = floats({1, 2, 3, 4}, {1, 1, 2, 2});
  check_values(small.conv_transpose2d(k, {}, {.stride = 2}),
               {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
  check_values(small.conv_transpose2d(k, {}, {.stride = 2, .padding = 1, .output_padding = 1}),
               {1, 2, 2, 3, 4, 4, 3, 4, 4});
  // The number of elements in a window does not depend on the channel, whose loop stands around it.
  const auto sums = [](const Tensor& t) {
    return t.pad(Padding{2, 2, 2, 2}).pool({3, 3}).flatten(-2).sum(-1);
  };
  const Tensor ones = Tensor::from(std::vector<float>(3 * 28 * 28, 1), {1, 3, 28, 28});
  const Tensor means = sums(ones).div(sums(Tensor::constant_of({1, 3, 28, 28}, 1.0)));
  CHECK(means.to_vector<float>() == std::vector<float>(3 * 30 * 30, 1));
}

TEST_CASE("means of half-precision losses whose sum overflows") {
  const Tensor logits = floats({0, -100}, {1, 2}).half().expand({2000, 2}),
               y = ints(std::vector<int32_t>(2000, 1));
  const Tensor means[] = {logits.sparse_categorical_crossentropy(y),
                          logits.cross_entropy(y, {.ignore_index = 5}), logits.log_softmax().nll_loss(y)};
  for (const Tensor& mean : means) {
    CHECK(mean.dtype() == DType::Float16);
    check_values(mean, {100}, 1e-2);
  }
}

TEST_CASE("losses") {
  const Tensor logits = floats({1, 2, 3, 1, 0, 0}, {2, 3}), y = ints({2, 0});
  check_values(logits.sparse_categorical_crossentropy(y), {.4795253});
  check_values(logits.sparse_categorical_crossentropy(y, {.reduction = Reduction::None}),
               {.4076059, .5514446});
  check_values(logits.sparse_categorical_crossentropy(ints({2, -1})), {.203803});
  check_values(logits.sparse_categorical_crossentropy(y, {.ignore_index = 0}), {.4076059});
  check_values(logits.sparse_categorical_crossentropy(ints({2, -1}), {.ignore_index = -1}), {.4076059});
  check_values(logits.sparse_categorical_crossentropy(y, {.label_smoothing = .1}), {.5628586});
  check_values(logits.cross_entropy(y), {.4795253});
  check_values(logits.cross_entropy(y, {.reduction = Reduction::Sum, .label_smoothing = .1}), {1.125717});
  check_values(logits.log_softmax().nll_loss(y, floats({1, 2, 3})), {.4435656});
  check_values(w3().binary_crossentropy(floats({0, 1, 1})), {.3012894});
  check_values(z5().binary_crossentropy_logits(floats({0, 1, 1, 0, 1}), Reduction::Mean, 2), {.9743626});
}

TEST_CASE("attention and normalisation") {
  const Tensor i2 = Tensor::eye(2);
  check_values(i2.scaled_dot_product_attention(i2, i2), {.6697615, .3302385, .3302385, .6697615});
  check_values(i2.scaled_dot_product_attention(i2, i2, {}, {.is_causal = true}), {1, 0, .3302385, .6697615});
  const Tensor heads = Tensor::ones({4, 2, 2}), few = Tensor::ones({2, 3, 2});
  CHECK(shape_text(heads.scaled_dot_product_attention(few, few, {}, {.enable_gqa = true})) == "(4, 2, 2)");
  const Tensor x = Tensor::arange(8).to_float().reshape({2, 2, 2});
  const Tensor mean = Tensor::zeros({2}), invstd = floats({2, 3});
  check_values(x.batchnorm({}, {}, mean, invstd), {0, 2, 6, 9, 8, 10, 18, 21});
  check_values(x.batchnorm(floats({1, 2}), floats({1, 0}), mean, invstd), {1, 3, 12, 18, 9, 11, 36, 42});
}
