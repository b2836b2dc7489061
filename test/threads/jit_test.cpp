// Capture and replay: values, inputs, results, state, errors. On every kind of device that runs kernels.
#include "tensor/jit.h"

#include "base/knobs.h"
#include "engine/counters.h"
#include "unit/has_opencl.h"
#include "unit/tensor_check.h"

#include <array>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

void on_devices(const std::function<void()>& f) {
  for (const char* name : {"CPU", "CPU:C", "INTERP", "CL"}) {
    if (std::string(name) == "CL" && !has_opencl()) continue;
    INFO("device ", name);
    KnobScope device(Knob::DEV, name);
    f();
  }
}

Tensor counting(const Shape& shape, float first = 0) {
  const auto n = static_cast<size_t>(prod(shape).value());
  std::vector<float> values(n);
  for (size_t i = 0; i < n; i++) values[i] = first + static_cast<float>(i);
  return Tensor::from(values, shape);
}

struct Both {
  Tensor sum, product;
  void each(auto&& visit) const { visit("sum", sum), visit("product", product); }
};

}  // namespace

TEST_CASE("a function of tensors runs, is captured, and is replayed over other inputs") {
  on_devices([] {
    int calls = 0;
    auto f = jit([&](const Tensor& x, const Tensor& y) {
      calls++;
      return (x + y).sum(0, true) * x;
    });
    for (int i = 0; i < 5; i++) {
      CHECK(f.is_captured() == (i >= 2));
      const auto k = static_cast<float>(i);
      check_values(f(floats({k, 2}), floats({1, k})), {(2 * k + 3) * k, (2 * k + 3) * 2});
    }
    CHECK(calls == 2);
  });
}

TEST_CASE("results come back as the function gives them") {
  auto pair = jit([](const Tensor& x) { return std::pair(x + 1, x.sum()); });
  auto tuple = jit([](const Tensor& x) { return std::tuple(x + 1, std::vector{x * 2, x * 3}); });
  auto record = jit([](const Tensor& x, const Tensor& y) { return Both{x + y, x * y}; });
  auto maybe = jit([](const Tensor& x) { return std::optional<Tensor>(x.flip(0)); });
  auto list = jit([](const std::vector<Tensor>& in) { return std::array{in[0] + in[1], in[1]}; });
  auto views = jit([](const Tensor& x) { return std::tuple((x + 1).reshape({2, 1}), x.flip(0), Tensor(4)); });
  for (int i = 0; i < 4; i++) {
    const float k = static_cast<float>(i) + 1;
    const auto [next, sum] = pair(floats({k, 1}));
    check_values(next, {k + 1, 2});
    check_values(sum, {k + 1});
    const auto [first, others] = tuple(floats({k}));
    check_values(first, {k + 1});
    check_values(others.at(1), {3 * k});
    const Both both = record(floats({k}), floats({2}));
    check_values(both.sum, {k + 2});
    check_values(both.product, {2 * k});
    check_values(*maybe(floats({k, 0})), {0, k});
    const Tensor second = floats({7});
    const auto [added, same] = list(std::vector{floats({k}), second});
    check_values(added, {k + 7});
    CHECK(same.uop() == second.uop());
    const auto [column, flipped, four] = views(floats({k, 0}));
    CHECK(shape_text(column) == "(2, 1)");
    check_values(column, {k + 1, 1});
    check_values(flipped, {0, k});
    check_values(four, {4});
  }
}

TEST_CASE("results behind a pointer that copies share are refused") {
  auto f = jit([](const Tensor& x) { return std::vector{std::make_shared<Both>(Both{x + 1, x * 2})}; });
  CHECK(contains(user_error([&] { f(floats({1})); }).what(), "copies of this one share the tensor `0.sum`"));
  CHECK(!f.is_captured());
}

TEST_CASE("arguments of types for which the result has another type are refused") {
  auto f = jit([](const auto& x) {
    if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>)
      return x + 1;
    else
      return std::vector{x[0] + 1};
  });
  for (int i = 0; i < 2; i++) check_values(f(floats({1})), {2});
  const UserError error = user_error([&] { f(std::vector{floats({1})}); });
  CHECK(error.kind() == UserError::Kind::Type);
  CHECK(contains(error.what(), "another result than was captured"));
  check_values(f(floats({4})), {5});
}

TEST_CASE("results that are still held keep their value, dropped ones lend their memory") {
  on_devices([] {
    auto f = jit([](const Tensor& x) { return x * 2; });
    std::vector<Tensor> held;
    for (int i = 0; i < 6; i++) held.push_back(f(floats({static_cast<float>(i)})));
    for (int i = 0; i < 6; i++) check_values(held[static_cast<size_t>(i)], {2.0 * i});
    const Tensor late = f(floats({3})) + 1;  // an expression holds it as well
    check_values(f(floats({50})), {100});
    check_values(late, {7});
  });
  auto g = jit([](const Tensor& x) { return x + 1; });
  Tensor t = floats({0});
  for (int i = 0; i < 6; i++) t = g(t);  // a result as the next input
  check_values(t, {6});
}

TEST_CASE("after the capture nothing is scheduled, compiled or allocated") {
  on_devices([] {
    Tensor w = counting({4, 3}).realize();
    auto step = jit([&](const Tensor& x) {
      const Tensor hidden = x.matmul(w).relu().contiguous();
      w.assign(w - 0.01 * x.T().matmul(hidden));
      return hidden.sum();
    });
    const Tensor x = counting({2, 4}, 1).realize();
    for (int i = 0; i < 3; i++) step(x);
    reset_counters();
    for (int i = 0; i < 3; i++) step(x);
    const Counters c = counters();
    CHECK(c.kernels > 0);
    CHECK(c.kernels % 3 == 0);
    CHECK(c.schedules == 0);
    CHECK(c.compiled == 0);
    CHECK(c.allocations == 0);
    CHECK(c.peak_memory == c.memory);
  });
}

TEST_CASE("assignments happen in every call, those from between the calls count") {
  on_devices([] {
    Tensor w = floats({1, 2}), rate = floats({0.5}), seen = floats({0}), untouched = floats({5, 5});
    w.realize();
    auto step = jit([&](const Tensor& x) {
      w.assign(w - rate * x);
      seen += 1;  // nothing returned depends on it
      return w.sum() + untouched.sum();
    });
    double a = 1, b = 2, r = 0.5;
    for (int i = 0; i < 6; i++) {
      if (i % 2 == 1) {
        rate.assign(floats({static_cast<float>(r *= 0.5)}));  // lazy still when the step is called
        untouched += 1;
      }
      a -= r * i, b -= r;
      check_values(step(floats({static_cast<float>(i), 1})), {a + b + 10 + 2 * ((i + 1) / 2)});
      check_values(w, {a, b});
    }
    check_values(seen, {6});
  });
}

TEST_CASE("a gradient outlives a call that reads what it waits for") {
  Tensor w = floats({1, 2}).realize();
  auto weigh = jit([&](const Tensor& x) { return (w * x).sum(); });
  for (int i = 0; i < 3; i++) check_values(weigh(floats({1, 1})), {3});
  w.assign(w * 2);  // lazy, and the gradient is made of it
  (w * w).sum().backward();
  check_values(weigh(floats({1, 1})), {6});
  check_values(*w.grad(), {4, 8});
}

TEST_CASE("expressions made between calls keep what they read") {
  on_devices([] {
    Tensor w = floats({1});
    w.realize();
    auto step = jit([&](const Tensor& x) {
      const Tensor before = w * 1;
      w += x;
      return before;
    });
    std::vector<Tensor> history;
    for (int i = 0; i < 5; i++) {
      history.push_back(w * 10);
      check_values(step(floats({1})), {1.0 + i});
    }
    for (int i = 0; i < 5; i++) check_values(history[static_cast<size_t>(i)], {10.0 * (i + 1)});
    check_values(w, {6});
  });
}

TEST_CASE("an input can be assigned") {
  auto f = jit([](Tensor x) {
    x += 1;
    return x * 10;
  });
  for (int i = 0; i < 4; i++) {
    Tensor x = floats({static_cast<float>(i)});
    const Tensor before = x + 0;
    check_values(f(x), {10.0 * (i + 1)});
    check_values(x, {i + 1.0});
    check_values(before, {static_cast<double>(i)});
  }
}

TEST_CASE("tensors that the function leaves outside") {
  Tensor lazy, real;
  auto f = jit([&](const Tensor& x) {
    lazy = x + 1;
    real = (x + 2).realize();
    return x * 2;
  });
  for (int i = 0; i < 5; i++) {
    f(floats({static_cast<float>(i)}));
    check_values(real, {i + 2.0});  // the memory is written in every call
    if (i >= 1) check_values(lazy, {2});
  }
}

TEST_CASE("a part of a cache is written in place") {
  Tensor cache = Tensor::zeros({4, 2}).realize();
  const UOp memory = cache.uop();
  auto shift_in = jit([&](const Tensor& row) {
    const Tensor kept = cache.at(Slice{1, 4}).contiguous();
    cache.at(Slice{0, 3}).assign(kept);
    cache.at(Slice{3, 4}).assign(row);
    return cache;
  });
  for (int i = 0; i < 6; i++) {
    const auto k = static_cast<float>(i);
    CHECK(shift_in(floats({k, -k}, {1, 2})).uop() == memory);
  }
  check_values(cache, {2, -2, 3, -3, 4, -4, 5, -5});
}

TEST_CASE("an input that is memory the function writes under another name") {
  Tensor w = floats({1, 2}).realize();
  auto f = jit([&](const Tensor& x) {
    w.assign(w + x.flip(0));
    return w.sum();
  });
  f(floats({0, 0}));
  f(floats({0, 0}));
  check_values(f(w), {6});
  check_values(w, {3, 3});
}

TEST_CASE("an input that the function writes, and uses under another name") {
  Tensor w = floats({1, 2}).realize();
  auto f = jit([&](Tensor x) {
    x += w.flip(0);
    return x * 1;
  });
  for (int i = 0; i < 3; i++) check_values(f(floats({static_cast<float>(i), 0})), {i + 2.0, 1});
  CHECK(contains(user_error([&] { f(w); }).what(), "input 0 is written by the captured function"));
  check_values(w, {1, 2});
  check_values(f(floats({5, 0})), {7, 1});
}

TEST_CASE("host data of the capture starts every call as it was") {
  on_devices([] {
    auto f = jit([](const Tensor& x) {
      Tensor sum = floats({1, 1});
      sum += x;
      Tensor partial = floats({1, 2, 3});
      partial.at(Slice{1, 2}).assign(x.at(Slice{0, 1}));
      return std::pair(sum * 1, partial);
    });
    for (int i = 0; i < 4; i++) {
      const auto k = static_cast<float>(i);
      const auto [sum, partial] = f(floats({k, 2}));
      check_values(sum, {k + 1, 3});
      check_values(partial, {1, k, 3});
    }
    auto given = jit([](const Tensor& x) { return std::pair(x * 2, floats({1, 1})); });
    for (int i = 0; i < 4; i++) {
      auto [twice, ones] = given(floats({3, 4}));
      check_values(ones, {1, 1});
      ones += twice;  // its owner may do so
      check_values(ones, {7, 9});
    }
  });
}

TEST_CASE("what does not depend on the inputs is computed once, and again when its source changes") {
  on_devices([] {
    Tensor table = floats({1, 2}).realize();
    auto f = jit([&](const Tensor& x) { return x + (table * 3).contiguous().sum(); });
    for (int i = 0; i < 3; i++) check_values(f(floats({static_cast<float>(i)})), {9.0 + i});
    reset_counters();
    f(floats({0}));
    const uint64_t each = counters().kernels;
    table += 1;
    check_values(f(floats({0})), {15});
    reset_counters();
    f(floats({0}));
    CHECK(counters().kernels == each);
    CHECK(each == 1);
  });
}

TEST_CASE("random numbers differ from call to call, and start again with the seed") {
  on_devices([] {
    auto noisy = jit([](const Tensor& x) { return x + Tensor::rand({4}); });
    const auto draw = [&] { return noisy(floats({0, 0, 0, 0})).to_vector<float>(); };
    Tensor::manual_seed(7);
    std::vector<std::vector<float>> jitted, plain;
    for (int i = 0; i < 5; i++) jitted.push_back(draw());
    Tensor::manual_seed(7);
    const std::vector<float> again = draw();
    Tensor::manual_seed(7);
    for (int i = 0; i < 5; i++) plain.push_back(Tensor::rand({4}).to_vector<float>());
    CHECK(jitted == plain);
    CHECK(again == plain[0]);
    CHECK(jitted[2] != jitted[3]);
  });
}

TEST_CASE("inputs that do not fit are refused, with what differs") {
  auto f = jit([](const Tensor& x, const Tensor& y) { return x.sum() + y.sum(); });
  const auto call = [&](const Tensor& x, const Tensor& y) { return user_error([&] { f(x, y); }); };
  const Tensor x = counting({4, 2}), y = counting({3});
  for (int i = 0; i < 3; i++) f(x, y);
  CHECK(contains(call(counting({4, 3}), y).what(),
                 "args mismatch in JIT: input 0 has shape (4, 3), it was captured with (4, 2)"));
  CHECK(contains(call(x, ints({1, 2, 3})).what(),
                 "input 1 has dtype dtypes.int, it was captured with dtypes.float"));
  CHECK(contains(call(x, Tensor::from<float>({1, 2, 3}, {.device = "CPU:1"})).what(),
                 "input 1 has device CPU:1, it was captured with CPU"));
  CHECK(contains(call(counting({8, 2}).at(Slice{2, 6}), y).what(),
                 "input 0 has the view (8, 2) Shrink from (2, 0) to (4, 2), it was captured with (4, 2)"));
  CHECK(contains(call(counting({2, 4}).T(), y).what(), "Permute to (4, 2)"));
  CHECK(contains(call(x, x.reshape({8}).at(Slice{0, 3})).what(),
                 "duplicate inputs to JIT: inputs 0 and 1 share memory"));
  CHECK(contains(call(x, Tensor(3)).what(), "JIT inputs must be real buffers"));
  check_values(f(x, y), {31});
  auto g = jit([](const std::vector<Tensor>& in) { return Tensor::usum(in); });
  for (int i = 0; i < 2; i++) g(std::vector{floats({1}), floats({2})});
  CHECK(
      contains(user_error([&] { g(std::vector{floats({1})}); }).what(), "1 tensors, it was captured with 2"));
}

TEST_CASE("views are captured as they are") {
  auto f = jit([](const Tensor& x) { return x * 2; });
  for (int i = 0; i < 4; i++)
    check_values(f(counting({2, 2}, static_cast<float>(i)).T()),
                 {2.0 * i, 2.0 * i + 4, 2.0 * i + 2, 2.0 * i + 6});
}

TEST_CASE("data cannot be read during the capture; the tensors survive the error") {
  on_devices([] {
    Tensor w = floats({1}).realize();
    bool reads = true;
    auto f = jit([&](const Tensor& x) {
      w += x;
      w.realize();
      const Tensor y = w * 2;
      if (reads) y.item<float>();
      return y;
    });
    check_values(f(floats({1})), {4});
    CHECK(contains(user_error([&] { f(floats({1})); }).what(),
                   "cannot access tensor data during JIT capture, the value will be baked in"));
    check_values(w, {3});  // it was added before the error
    CHECK(!f.is_captured());
    reads = false;
    for (int i = 0; i < 3; i++) check_values(f(floats({1})), {2.0 * (4 + i)});
    CHECK(f.is_captured());
  });
}

TEST_CASE("an exception of the function leaves what it realised") {
  Tensor w = floats({1}).realize();
  const Tensor before = w * 1;
  bool fails = false;
  auto f = jit([&](const Tensor& x) {
    w += x;
    w.realize();
    if (fails) throw std::runtime_error("stop");
    return w * 1;
  });
  f(floats({1}));
  fails = true;
  CHECK_THROWS_WITH_AS(f(floats({5})), "stop", std::runtime_error);
  check_values(w, {7});
  check_values(before, {1});
  fails = false;
  for (int i = 0; i < 3; i++) check_values(f(floats({1})), {8.0 + i});
}

TEST_CASE("a function that runs nothing is an error") {
  Tensor kept;
  auto f = jit([&](const Tensor& x) { kept = x + 1; });
  f(floats({1}));
  CHECK(contains(user_error([&] { f(floats({1})); }).what(), "didn't JIT anything!"));
}

TEST_CASE("one captured function within another is part of it") {
  int calls = 0;
  auto inner = jit([&](const Tensor& x) {
    calls++;
    return x * 2;
  });
  auto outer = jit([&](const Tensor& x) { return inner(x + 1) + 1; });
  for (int i = 0; i < 5; i++) check_values(outer(floats({static_cast<float>(i)})), {2.0 * (i + 1) + 1});
  CHECK(calls == 2);
  for (int i = 0; i < 3; i++) check_values(inner(floats({4})), {8});
  check_values(outer(floats({0})), {3});
}

TEST_CASE("reset, free_intermediates and JIT=0") {
  float factor = 2;
  auto f = jit([&](const Tensor& x) { return (x * factor).contiguous().sum(0, true) + x.contiguous(); });
  for (int i = 0; i < 3; i++) f(floats({1, 2}));
  factor = 3;
  check_values(f(floats({1, 2})), {7, 8});  // the captured number
  f.free_intermediates();
  check_values(f(floats({1, 1})), {5, 5});
  {
    KnobScope off(Knob::JIT, 0);
    check_values(f(floats({1, 2})), {10, 11});
  }
  f.reset();
  CHECK(!f.is_captured());
  for (int i = 0; i < 3; i++) check_values(f(floats({1, 2})), {10, 11});
  CHECK(f.is_captured());
}

TEST_CASE("memory between kernels is given back") {
  auto f = jit([](const Tensor& x) { return (x + 1).contiguous().sum(0).contiguous().sqrt(); });
  const Tensor x = Tensor::ones({64, 1024}).realize();
  for (int i = 0; i < 3; i++) f(x);
  const int64_t before = counters().memory;
  f.free_intermediates();
  CHECK(counters().memory <= before - int64_t{64 * 1024 * 4});
  check_values(f(x).sum(), {1024 * std::sqrt(128.0)}, 1e-5);
}

TEST_CASE("the same bits as without capture, with any number of threads") {
  for (int threads : {1, 2, 4}) {
    KnobScope cores(Knob::CPU_COUNT, threads);
    Tensor w = (counting({64, 64}) * 0.001).sin().contiguous().realize(), v = w.clone().realize();
    const auto body = [](Tensor& weight, const Tensor& x) {
      const Tensor h = x.matmul(weight).relu().contiguous(), s = x.sum(0).contiguous();
      const Tensor a = (h * 0.5).contiguous(), b = (h + s).contiguous();
      weight.assign(weight - 1e-4 * x.T().matmul(a * b));
      return (a + b).softmax().sum(0);
    };
    auto step = jit([&](const Tensor& x) { return body(w, x); });
    for (int i = 0; i < 5; i++) {
      const Tensor x = (counting({128, 64}, static_cast<float>(i)) * 0.01).cos().contiguous().realize();
      CHECK(step(x).bytes() == body(v, x).bytes());
      CHECK(w.bytes() == v.bytes());
    }
  }
}

TEST_CASE("NULL counts without computing") {
  KnobScope device(Knob::DEV, "NULL");
  Tensor w = Tensor::empty({256, 256});
  w.realize();
  auto f = jit([&](const Tensor& x) {
    w.assign(w * 0.5);
    return x.matmul(w).relu();
  });
  for (int i = 0; i < 3; i++) f(Tensor::empty({8, 256}));
  reset_counters();
  f(Tensor::empty({8, 256}));
  CHECK(counters().kernels == 2);
  CHECK(counters().schedules == 0);
}
