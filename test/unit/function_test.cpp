// Functions as parts of the graph.
#include "tensor/function.h"

#include "engine/counters.h"
#include "tensor/custom_kernel.h"
#include "tensor/jit.h"
#include "unit/kernels_of.h"
#include "unit/tensor_check.h"
#include "uop/variable.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("a function is traced once for each kind of argument") {
  int traces = 0;
  auto f = function([&](const Tensor& x, const Tensor& w) {
    traces++;
    return (x * w + 1).relu();
  });
  check_values(f(floats({1, -2}), floats({3, 4})), {4, 0});
  check_values(f(floats({2, 2}) + 1, floats({1, 1})), {4, 4});
  CHECK(traces == 1);
  check_values(f(floats({1, 2, 3}), floats({1, 1, 1})), {2, 3, 4});
  check_values(f(ints({1, 2, 3}), floats({1, 1, 1})), {2, 3, 4});
  CHECK(traces == 3);
  check_values(f(Tensor(2.0), Tensor(3.0)), {7});
}

TEST_CASE("several results, in tuples and containers") {
  auto f =
      function([](const std::vector<Tensor>& all) { return std::make_pair(all[0] + all[1], all[1] * 2); });
  const auto [sum, twice] = f(std::vector{floats({1, 2}), floats({3, 4})});
  check_values(sum * twice, {24, 48});
}

TEST_CASE("inlined, a function is scheduled like what it does") {
  const Tensor x = Tensor::ones({16, 16}).realize(), w = Tensor::ones({16, 16}).realize();
  const auto body = [&](const Tensor& t) { return (t.matmul(w) + 1).relu(); };
  auto f = function(body);
  const uint64_t plain = run({body(body(x)).sum()}).kernels;
  CHECK(run({f(f(x)).sum()}).kernels == plain);
  CHECK(run({f(f(x)).sum()}).compiled == 0);
  const auto with = [&](const Tensor& y) { return run(y.sum().gradient({x, w})).kernels; };
  CHECK(with(f(f(x))) == with(body(body(x))));
  auto outer = function([&](const Tensor& t) { return f(t) + f(t * 2); });
  const Tensor y = floats({1, -1}, {SInt(1), SInt(2)}).matmul(Tensor::ones({2, 16}));
  check_values(outer(y + 1).sum(), {3.0 * 16 * 16 + 2 * 16});
}

TEST_CASE("memory from outside is used as it is at the call") {
  Tensor w = floats({1, 2});
  auto f = function([&](const Tensor& x) { return x * w; });
  const Tensor before = f(floats({10, 10}));
  w.assign(floats({5, 6}));
  const Tensor after = f(floats({10, 10}));
  check_values(before, {10, 20});
  check_values(after, {50, 60});
  w.realize();
  check_values(f(floats({1, 1})), {5, 6});
  auto strict =
      function([&](const Tensor& x) { return x * w + w; }, {.name = "strict", .allow_implicit = false});
  CHECK(contains(user_error([&] { strict(floats({1, 1})); }).what(),
                 "function strict has 1 implicit buffer(s), but allow_implicit=false"));
}

TEST_CASE("gradients flow through functions") {
  const Tensor a = floats({1, 2}), b = floats({3, 4}), w = floats({2, 5});
  for (const bool precompile : {false, true})
    for (const bool recompute : {false, true}) {
      CAPTURE(precompile);
      CAPTURE(recompute);
      auto f = function([&](const Tensor& x, const Tensor& y) { return std::make_pair(x * y * w, x * 3); },
                        {.precompile = precompile, .recompute = recompute});
      const auto [p, q] = f(a * 2, b);
      const auto grads = ((p * p).sum() + q.sum()).gradient({a, b, w, p});
      // p = 2abw: d/da = 2p 2bw + 6
      check_values(grads[0], {2 * 12.0 * 12 + 6, 2 * 80.0 * 40 + 6});
      check_values(grads[1], {2 * 12.0 * 4, 2 * 80.0 * 20});
      check_values(grads[2], {2 * 12.0 * 6, 2 * 80.0 * 16});
      check_values(grads[3], {24, 160});
      const Tensor first = f(a, a).first.sum().gradient({a})[0];  // 2aw
      check_values(first.sum().gradient({a})[0], {4, 10});
    }
}

TEST_CASE("a gradient that is given") {
  int calls = 0;
  auto f = function([](const Tensor& x, const Tensor& y) { return x * y; },
                    {.gradient = [&](const auto& grads, const auto& args) {
                      calls++;
                      return std::vector<std::optional<Tensor>>{grads[0] * 100 + args[0], std::nullopt};
                    }});
  const Tensor a = floats({1, 2}), b = floats({3, 4});
  const auto grads = f(a, b).sum().gradient({a, b});
  check_values(grads[0], {101, 102});
  check_values(grads[1], {0, 0});
  CHECK(calls == 1);
}

TEST_CASE("a precompiled body is compiled and scheduled once") {
  Tensor w = Tensor::full({8, 8}, 0.5).realize();
  auto f =
      function([&](const Tensor& x) { return (x.matmul(w).contiguous() + 1).relu(); }, {.precompile = true});
  const Tensor x = Tensor::ones({4, 8}).realize();
  const Counters one = run({f(x)});
  CHECK(one.kernels == 2);
  const Counters three = run({f(f(f(x)))});
  CHECK(three.kernels == 6);
  CHECK(three.compiled == 0);
  check_values(f(f(x)).sum(), {4.0 * 8 * 21});
  // Its gradient is one, too.
  const auto loss = [&](const Tensor& t) { return f(t).sum(); };
  run(loss(x).gradient({x, w}));
  const Counters again = run(loss(f(x).detach()).gradient({x, w}));
  CHECK(again.compiled == 0);
  auto step = jit([&](const Tensor& t) { return f(t) * 2; });
  for (int i = 0; i < 4; i++) check_values(step(x).sum(), {4.0 * 8 * 5 * 2});
}

TEST_CASE("recomputing keeps less memory") {
  const int depth = 6;
  std::vector<Tensor> weights;
  for (int i = 0; i < 2 * depth; i++) weights.push_back(Tensor::full({64, 64}, 0.01).realize());
  const Tensor x = Tensor::ones({512, 64}).realize();
  const auto train = [&](bool recompute) {
    Tensor y = x;
    for (int i = 0; i < depth; i++) {
      const Tensor &a = weights[2 * i], &b = weights[2 * i + 1];
      auto layer = function([=](const Tensor& t) { return t.matmul(a).relu().matmul(b).relu(); },
                            {.recompute = recompute});
      y = layer(y);
    }
    return y.square().mean().gradient(weights);
  };
  const std::vector<Tensor> plain = train(false), less = train(true);
  const auto peak = [](const std::vector<Tensor>& grads) {
    const int64_t before = counters().memory;
    const Counters c = run(grads);
    return std::pair(c.peak_memory - before, c.kernels);
  };
  const auto [plain_peak, plain_kernels] = peak(plain);
  const auto [less_peak, less_kernels] = peak(less);
  MESSAGE("peak ", plain_peak, " with ", plain_kernels, " kernels, ", less_peak, " with ", less_kernels);
  CHECK(less_peak < plain_peak * 3 / 4);
  CHECK(less_kernels > plain_kernels);
  for (size_t i = 0; i < plain.size(); i++) check_values(less[i] - plain[i], std::vector<double>(64 * 64, 0));
}

TEST_CASE("what a function assigns outside is assigned in every call") {
  for (const bool precompile : {false, true}) {
    CAPTURE(precompile);
    Tensor total = floats({1, 2}), lazy_total = Tensor::zeros({2});
    const Tensor before = total * 1, view = total.at(1);
    auto f = function(
        [&](const Tensor& x) {
          total += x;
          lazy_total += x;
          return total * lazy_total;
        },
        {.precompile = precompile});
    const Tensor a = f(floats({10, 20})), b = f(floats({1, 1}));
    check_values(b, {12 * 11, 23 * 21});
    check_values(a, {11 * 10, 22 * 20});
    check_values(total, {12, 23});
    check_values(view, {23});
    check_values(before, {1, 2});
    auto step = jit([&](const Tensor& x) { return f(x) + 0; });
    for (int i = 0; i < 4; i++) step(floats({1, 0}));
    check_values(total, {16, 23});
    check_values(lazy_total, {15, 21});
  }
}

TEST_CASE("random numbers in functions are new in each call, and the same when computed again") {
  for (const bool recompute : {false, true}) {
    CAPTURE(recompute);
    auto f = function([](const Tensor& x) { return x * Tensor::rand({64}, {.device = "CPU"}); },
                      {.recompute = recompute});
    const Tensor x = Tensor::ones({64}).realize();
    const Tensor first = f(x), second = f(first);
    const Tensor grad = second.sum().gradient({x})[0];
    Tensor::realize(std::vector{first, second, grad});
    check_values(grad - second, std::vector<double>(64, 0));
    CHECK((second - first * first).abs().max().item<float>() > 0.1);
  }
}

TEST_CASE("a kernel in a function") {
  auto f = function([](const Tensor& x) {
    const auto twice = [](const std::vector<UOp>& args) {
      const UOp i = range(args[0].shape()[0].uop(), 0, AxisType::Loop);
      return UOp::make(Op::End, {store(index(args[0], i), load(index(args[1], i)) * 2), i});
    };
    return custom_kernel({Tensor::empty(x.shape()), x + 1}, twice)[0] + 1;
  });
  check_values(f(floats({1, 2})) + f(floats({5, 6})), {18, 22});
}

TEST_CASE("what a function may not do") {
  Tensor lazy = floats({0, 0}) + 1;
  const auto text_of = [](auto f) { return std::string(user_error([&] { f(floats({1, 2})); }).what()); };
  CHECK(contains(text_of(function([](const Tensor& x) { return (x + 1).realize(); }, {.name = "f"})),
                 "function f is traced: values cannot be realized or read inside of it"));
  CHECK(contains(text_of(function([](const Tensor& x) { return x + x.sum().item<float>(); })), "is traced"));
  CHECK(contains(text_of(function([&](const Tensor& x) {
                   lazy.assign(x);
                   return x * 2;
                 })),
                 "a tensor from outside that has no memory"));
  check_values(lazy, {1, 1});
  CHECK(contains(text_of(function([](Tensor x) {
                   x += 1;
                   return x * 2;
                 })),
                 "assigns to an argument"));
}

TEST_CASE("weights that are not computed yet are those of their tensors at the call") {
  Tensor w = floats({1, 2}) * 3;
  auto f = function([&](const Tensor& x) { return x * w; });
  const Tensor x = floats({1, 1});
  f(x).square().sum().backward();
  REQUIRE(w.grad());
  check_values(*w.grad(), {6, 12});
  check_values(f(x), {3, 6});
  w.realize();
  w.assign(w + 1);
  check_values(f(x), {4, 7});
}

TEST_CASE("precompiled, with several results and an argument that nothing reads") {
  auto f = function([](const Tensor& x, const Tensor&) { return std::make_pair(x + 1, x * 2); },
                    {.precompile = true});
  const auto [more, twice] = f(floats({1, 2}).realize(), floats({3, 4}).realize());
  check_values(more, {2, 3});
  check_values(twice, {2, 4});
}

TEST_CASE("functions of symbolic sizes") {
  const Variable n("n", 1, 6);
  const Tensor x = floats({1, 2, 3, 4, 5, 6}).realize();
  for (const bool precompile : {false, true}) {
    auto mean = function([](const Tensor& t) { return t.mean(); }, {.precompile = precompile});
    auto twice = function([](const Tensor& t) { return t * 2; }, {.precompile = precompile});
    for (int64_t i = 1; i <= 6; i++) {
      CAPTURE(i);
      const Tensor part = x.at(Slice{0, n.bind(i)});
      check_values(mean(part), {static_cast<double>(i + 1) / 2});
      std::vector<double> expected;
      for (int64_t k = 1; k <= i; k++) expected.push_back(static_cast<double>(3 * k));
      check_values(twice(part) + part, expected);
    }
  }
}

TEST_CASE("a parameter is read for a recomputation before it is overwritten") {
  Tensor w = floats({1, 2, 3, 4}).realize();
  const Tensor c = floats({1, 1, 1, 1});
  auto f = function([](const Tensor& t) { return t * t.flip({0}); }, {.recompute = true});
  (f(w) * c).sum().backward();
  w.assign(w - *w.grad());
  check_values(w, {1 - 8, 2 - 6, 3 - 4, 4 - 2});
}
