// Reverse-mode differentiation: each rule, and the walk over the op table.
#include "tensor/gradient.h"
#include "tensor/tensor.h"
#include "unit/tensor_check.h"

#include <functional>

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kInf = INFINITY, kNaN = NAN;

// d sum(f(x)) / dx
Tensor derivative(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  return f(x).sum().gradient({x})[0];
}

// Against central differences in double precision.
void check_derivative(const std::vector<double>& at, const Shape& shape,
                      const std::function<Tensor(const Tensor&)>& f, double tolerance = 1e-5) {
  const double h = 1e-5;
  const auto value = [&](const std::vector<double>& x) {
    return f(Tensor::from(x, shape)).sum().item<double>();
  };
  std::vector<double> expected;
  for (size_t i = 0; i < at.size(); i++) {
    std::vector<double> up = at, down = at;
    up[i] += h;
    down[i] -= h;
    expected.push_back((value(up) - value(down)) / (2 * h));
  }
  check_values(derivative(Tensor::from(at, shape), f), expected, tolerance);
}

const std::vector<double> kAt = {.3, 1.7, -.9, 2.2, .4, -1.6};

}  // namespace

TEST_CASE("every op has a gradient, or says that it has none") {
  int with_rule = 0;
  for (int i = 0; i < kNumOps; i++) {
    const Op op = static_cast<Op>(i);
    INFO(op_name(op));
    CHECK_NOTHROW(gradient_kind(op));
    if (is_alu(op) || is_movement(op)) CHECK(gradient_kind(op) != GradientKind::Refused);
    with_rule += gradient_kind(op) == GradientKind::Rule;
  }
  CHECK(with_rule > 20);
  CHECK(gradient_kind(Op::Detach) == GradientKind::None);
  CHECK(gradient_kind(Op::Mul) == GradientKind::Rule);
  CHECK(gradient_kind(Op::If) == GradientKind::Refused);
}

TEST_CASE("primitives at five points") {
  const Tensor x = floats({-5, -2, 0, 2, 5});
  const auto d = [&](Tensor (Tensor::*f)() const) {
    return derivative(x, [f](const Tensor& t) { return (t.*f)(); });
  };
  check_values(d(&Tensor::reciprocal), {-.04, -.25, -kInf, -.25, -.04}, 1e-5);
  check_values(d(&Tensor::sin), {.28366, -.41615, 1, -.41615, .28366}, 1e-5);
  check_values(d(&Tensor::sqrt), {kNaN, kNaN, kInf, .35355, .22361}, 1e-5);
  check_values(d(&Tensor::log2), {-.28854, -.72135, kInf, .72135, .28854}, 1e-5);
  check_values(d(&Tensor::exp2), {.02166, .17329, .69315, 2.77259, 22.18071}, 1e-5);
  check_values(derivative(x, [](const Tensor& t) { return t + t; }), {2, 2, 2, 2, 2});
  check_values(derivative(x, [](const Tensor& t) { return t * t; }), {-10, -4, 0, 4, 10});
  check_values(derivative(x, [](const Tensor& t) { return t.gt(0).where(t * 3, 5); }), {0, 0, 0, 3, 3});
  check_values(d(&Tensor::relu), {0, 0, 0, 1, 1});
  check_values(d(&Tensor::trunc), {0, 0, 0, 0, 0});
  check_values(derivative(x, [](const Tensor& t) { return t.detach() * t; }), {-5, -2, 0, 2, 5});
}

TEST_CASE("max splits a tie") {
  const Tensor a = floats({1, 2, 3}), b = floats({2, 2, 2});
  const std::vector<Tensor> g = a.maximum(b).sum().gradient({a, b});
  check_values(g[0], {0, .5, 1});
  check_values(g[1], {1, .5, 0});
  check_values(derivative(floats({1, 3, 3}), [](const Tensor& t) { return t.max(); }), {0, .5, .5});
}

TEST_CASE("powers") {
  const Tensor b = floats({0, INFINITY, -INFINITY, 2}), e = floats({2, 0, -1});
  check_values(derivative(b, [](const Tensor& t) { return t.pow(Tensor::zeros({4})); }), {0, 0, 0, 0});
  check_values(derivative(floats({2, 3}), [](const Tensor& t) { return t.pow(3); }), {12, 27}, 1e-5);
  check_values(floats({3, 3, 0}).pow(e).sum().gradient({e})[0], {9 * std::log(3.), std::log(3.), -kInf},
               1e-5);
}

TEST_CASE("products with zeros") {
  const auto of = [](const std::vector<float>& v) {
    return derivative(floats(v), [](const Tensor& t) { return t.prod(); });
  };
  check_values(of({1, 2, 3}), {6, 3, 2});
  check_values(of({0, 2, 3}), {6, 0, 0});
  check_values(of({0, 0, 3}), {0, 0, 0});
}

TEST_CASE("broadcast operands get the folded gradient") {
  const Tensor a = floats({1, 2, 3, 4, 5, 6}, {2, 3}), row = floats({1, 2, 3}),
               column = floats({1, 2}, {2, 1}), one = floats({2});
  const std::vector<Tensor> g = (a * row + a * column + a * one).sum().gradient({row, column, one, a});
  check_values(g[0], {5, 7, 9});
  check_values(g[1], {6, 15});
  CHECK(shape_text(g[1]) == "(2, 1)");
  check_values(g[2], {21});
  check_values(g[3], {4, 5, 6, 5, 6, 7});
  const Tensor half = Tensor::ones({3}).half();
  CHECK((half * a).sum().gradient({half})[0].dtype() == DType::Float16);
  check_values((half * a).sum().gradient({half})[0], {5, 7, 9});
}

TEST_CASE("movement and reductions against differences") {
  const Shape s{2, 3};
  const Tensor w = Tensor::from(std::vector<double>{1, -2, 3, .5, 2, -1}, s);
  check_derivative(kAt, s, [&](const Tensor& t) { return t.T().reshape({2, 3}) * w; });
  check_derivative(kAt, s, [&](const Tensor& t) { return t.flip(1) * w; });
  check_derivative(kAt, s, [&](const Tensor& t) { return t.pad({1, 0}).at(Slice{}, Slice{0, 3}) * w; });
  check_derivative(kAt, s, [&](const Tensor& t) { return t.expand({4, 2, 3}).sum(0) * w; });
  check_derivative(kAt, s, [&](const Tensor& t) { return Tensor::stack({t, t * w}).max(0) * w; });
  check_derivative(kAt, s, [&](const Tensor& t) { return Tensor::cat({t, w}, 0).square(); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.sum(1).square(); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.max(0) * t.min(0); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.prod(1); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.var(1); });
  check_derivative(kAt, s, [&](const Tensor& t) { return t.softmax() * w; });
  check_derivative(kAt, s, [&](const Tensor& t) { return t.log_softmax() * w; });
  check_derivative(kAt, s, [](const Tensor& t) { return t.logsumexp(1); });
  check_derivative(kAt, s, [&](const Tensor& t) { return t.layernorm() * w; });
  check_derivative(kAt, s, [&](const Tensor& t) { return t.cumsum(1) * w; });
  check_derivative(kAt, s, [&](const Tensor& t) { return t.dot(w.T()).square(); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.at(ints({1, 0, 1}), ints({2, 2, 0})).square(); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.pad({1, 1}, PadMode::Circular).square(); });
}

TEST_CASE("activations against differences") {
  const Shape s{6};
  using Function = Tensor (Tensor::*)() const;
  for (Function f : {&Tensor::sigmoid, &Tensor::tanh, &Tensor::swish, &Tensor::mish, &Tensor::exp,
                     &Tensor::cos, &Tensor::quick_gelu, &Tensor::logsigmoid, &Tensor::softsign, &Tensor::abs,
                     &Tensor::hardswish, &Tensor::square})
    check_derivative(kAt, s, [f](const Tensor& t) { return (t.*f)(); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.gelu(); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.elu(); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.square().log(); });
  check_derivative(kAt, s, [](const Tensor& t) { return t.square().pow(1.5); });
  check_derivative(kAt, s, [](const Tensor& t) { return t / (t.square() + 1); });
}

TEST_CASE("convolution and pooling against differences") {
  std::vector<double> image;
  for (int i = 0; i < 16; i++) image.push_back(std::sin(1.7 * i));
  const Tensor k = Tensor::from(std::vector<double>{1, -2, .5, 3}, {1, 1, 2, 2});
  const Shape s{1, 1, 4, 4};
  check_derivative(image, s,
                   [&](const Tensor& t) { return t.conv2d(k, {}, {.stride = 2, .padding = 1}).square(); });
  check_derivative(image, s, [](const Tensor& t) { return t.max_pool2d().square(); });
  check_derivative(
      image, s, [](const Tensor& t) { return t.avg_pool2d({3, 3}, {.stride = 1, .padding = 1}).square(); });
  const Tensor x = Tensor::from(image, s);
  check_derivative({1, -2, .5, 3}, {1, 1, 2, 2}, [&](const Tensor& w) { return x.conv2d(w).square(); });
}

TEST_CASE("losses against differences") {
  const Tensor y = ints({2, 0}), p = Tensor::from(std::vector<double>{.2, .3, .5, .1, .8, .1}, {2, 3});
  check_derivative(kAt, {2, 3}, [&](const Tensor& t) { return t.sparse_categorical_crossentropy(y); });
  check_derivative(kAt, {2, 3}, [&](const Tensor& t) { return t.cross_entropy(p, {.label_smoothing = .1}); });
  check_derivative(kAt, {2, 3}, [&](const Tensor& t) { return t.log_softmax().nll_loss(y); });
  check_derivative(kAt, {2, 3}, [&](const Tensor& t) { return t.binary_crossentropy_logits(p); });
}

TEST_CASE("backward fills grad of live tensors and accumulates") {
  const Tensor x = floats({1, 2, 3}), w = floats({4, 5, 6}), unused = floats({1});
  const Tensor hidden = x * w;
  hidden.sum().backward();
  check_values(*x.grad(), {4, 5, 6});
  check_values(*w.grad(), {1, 2, 3});
  check_values(*hidden.grad(), {1, 1, 1});
  CHECK(!unused.grad());
  (x * w).sum().backward();
  check_values(*x.grad(), {8, 10, 12});
  Tensor(x).set_grad(std::nullopt);
  CHECK(!x.grad());
  (x * 2).backward(floats({1, 10, 100}));
  check_values(*x.grad(), {2, 20, 200});
}

TEST_CASE("gradient and mark go along with copies") {
  Tensor x = floats({1, 2});
  x.set_param(false);
  (x * x).sum().backward();
  for (Tensor copy : {x.clone(), x.clone("CPU:1"), x.to("CPU:1"), x.to(x.device())}) {
    check_values(copy, {1, 2});
    check_values(*copy.grad(), {2, 4});
    CHECK(copy.grad()->device() == copy.device());
    CHECK(!copy.is_param());
  }
  CHECK(x.to(x.device()).is_same(x));
  CHECK(!x.clone().is_same(x));
  const Tensor handle = x;
  x.move_to("CPU:1");
  CHECK(handle.device() == "CPU:1");
  CHECK(handle.grad()->device() == "CPU:1");
  check_values(*handle.grad(), {2, 4});
  CHECK(Tensor(2.0).to("CPU:1").device().empty());
}

TEST_CASE("gradient of what was assigned") {
  const Tensor v = floats({1, 2}), start = floats({5, 6, 7, 8});
  Tensor memory = start.clone();
  memory.set({Slice{1, 3}}, v);
  check_values((memory * floats({1, 10, 100, 1000})).sum().gradient({v})[0], {10, 100});
  check_values((memory * floats({1, 10, 100, 1000})).sum().gradient({start})[0], {1, 0, 0, 1000});
}

TEST_CASE("unreachable targets have zero gradient") {
  const Tensor x = floats({1, 2}), y = floats({3, 4});
  check_values(x.sum().gradient({y})[0], {0, 0});
  check_values(x.detach().sum().gradient({x})[0], {0, 0});
  check_values(x.gt(1).to_float().sum().gradient({x})[0], {0, 0});
}

TEST_CASE("second derivatives") {
  const Tensor x = floats({1, 2, 3});
  const Tensor first = x.pow(3).sum().gradient({x})[0];
  check_values(first.sum().gradient({x})[0], {6, 12, 18}, 1e-5);
}
