// What is left after an error in the middle of things: too little memory, a kernel that does not compile, a
// run that was cancelled. Tensors stay as they were, and the same calls succeed once they can.
#include "base/knobs.h"
#include "base/log.h"
#include "engine/cancel.h"
#include "engine/counters.h"
#include "tensor/jit.h"
#include "unit/tensor_check.h"

#include <stdexcept>
#include <string>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr int kSize = 97;

Tensor counting() {
  std::vector<float> values(kSize);
  for (int i = 0; i < kSize; i++) values[static_cast<size_t>(i)] = static_cast<float>(i);
  return floats(values);
}
std::vector<double> counting_from(double first, double step = 1) {
  std::vector<double> out(kSize);
  for (int i = 0; i < kSize; i++) out[static_cast<size_t>(i)] = first + step * i;
  return out;
}
// kSize * kSize floats, in memory of their own.
Tensor products(const Tensor& a, const Tensor& b) {
  return (a.reshape({kSize, 1}) * b.reshape({1, kSize})).contiguous();
}

// Calls cancel() at the first kernel that DEBUG=2 reports.
class CancelAtFirstKernel {
 public:
  CancelAtFirstKernel()
      : debug_(Knob::DEBUG, 2), before_(set_log_sink([this](LogLevel, std::string_view line) {
          if (contains(line, "GFLOP/s") && kernels++ == 0) cancel();
        })) {}
  ~CancelAtFirstKernel() { set_log_sink(before_); }
  int kernels = 0;

 private:
  KnobScope debug_;
  LogSink before_;
};

}  // namespace

TEST_CASE("too little memory for a result: an assignment that was to run before it has not") {
  Tensor w = counting().realize();
  w.assign(w + 1);
  const Tensor wide = products(w, w);
  {
    KnobScope limit(Knob::MAX_BUFFER_SIZE, 4 * kSize * kSize - 1);
    const UserError error = user_error([&] { Tensor::realize(std::vector{w, wide}); });
    CHECK(contains(error.what(), "buffer of size 0.04M is too large"));
    check_values(w * 2, counting_from(2, 2));
  }
  Tensor::realize(std::vector{w, wide});
  check_values(w, counting_from(1));
  check_values(wide.sum(1), counting_from(4753, 4753));
}

TEST_CASE("memory that the machine does not have") {
  Tensor w = counting().realize();
  w.assign(w + 1);
  const SInt huge(int64_t{1} << 50);
  const Tensor wide = (w.reshape({kSize, 1}).expand({kSize, huge}) + 1).contiguous();
  const int64_t before = counters().memory;
  const DeviceError error = thrown<DeviceError>([&] { Tensor::realize(std::vector{w, wide}); });
  CHECK(contains(error.what(), "Allocation of 436849163854.94 MB failed on CPU. Used: "));
  CHECK(counters().memory == before);
  check_values(w, counting_from(1));
}

TEST_CASE("too little memory for the values in between") {
  Tensor w = counting().realize();
  w.assign(w + 1);
  const Tensor sums = products(w, w).sum(1);
  for (const int separate : {0, 1}) {
    KnobScope planner(Knob::NO_MEMORY_PLANNER, separate);
    KnobScope limit(Knob::MAX_BUFFER_SIZE, 4 * kSize * kSize - 1);
    CHECK_THROWS_AS(Tensor::realize(std::vector{w, sums}), UserError);
  }
  check_values(sums, counting_from(4753, 4753));
  check_values(w, counting_from(1));
}

TEST_CASE("a gradient is not lost with a step that did not run") {
  Tensor w = counting().realize();
  (w * w).sum().backward();
  w.assign(w + 1);
  const Tensor wide = products(w, w);
  KnobScope limit(Knob::MAX_BUFFER_SIZE, 4 * kSize * kSize - 1);
  CHECK_THROWS_AS(Tensor::realize(std::vector{w, wide}), UserError);
  check_values(*w.grad(), counting_from(0, 2));
}

TEST_CASE("a kernel that does not compile: nothing ran, and the next try does") {
  KnobScope device(Knob::DEV, "CPU:C"), cache(Knob::CACHELEVEL, 0);
  Tensor w = counting().realize();
  w.assign(w + 1).realize();  // this kernel is compiled
  w.assign(w + 1);
  const Tensor other = (w * 3).flip(0).contiguous();
  {
    KnobScope cc(Knob::CC, "false");
    const DeviceError error = thrown<DeviceError>([&] { Tensor::realize(std::vector{w, other}); });
    CHECK(contains(error.what(), "exit status 1"));
    CHECK(contains(error.what(), "while compiling"));
  }
  Tensor::realize(std::vector{w, other});
  check_values(w, counting_from(2));
  check_values(other.flip(0), counting_from(6, 3));
}

TEST_CASE("too little memory at the capture or at a replay: the call has not happened") {
  Tensor w = counting().realize(), hidden = counting().realize();
  Tensor kept, fresh;
  const auto body = [&](const Tensor& x) {
    w.assign(w + x);
    hidden.replace(hidden + w);
    fresh = w + 1;
    kept = (hidden * 2).realize();
    return products(w, x).sum(1) + w;
  };
  const auto refuses = [&](auto& f, const Tensor& x) {
    KnobScope limit(Knob::MAX_BUFFER_SIZE, 4 * kSize * kSize - 1);
    CHECK_THROWS_AS(f(x), UserError);
  };
  auto step = jit(body);
  const Tensor x = Tensor::ones({kSize}).contiguous().realize();
  step(x);
  check_values(hidden.realize(), counting_from(1, 2));
  refuses(step, x);
  CHECK(!step.is_captured());
  check_values(w, counting_from(1));
  check_values(hidden, counting_from(1, 2));
  for (const Tensor& lost : {kept, fresh})
    CHECK(contains(user_error([&] { lost.to_vector<float>(); }).what(), "failed before its kernels ran"));
  check_values(step(x), counting_from(2 + 2 * kSize, 1 + kSize));
  CHECK(step.is_captured());
  check_values(w, counting_from(2));
  check_values(hidden, counting_from(3, 3));
  step.free_intermediates();
  refuses(step, x);
  check_values(w, counting_from(2));
  check_values(step(x), counting_from(3 + 3 * kSize, 1 + kSize));
  check_values(w, counting_from(3));
}

TEST_CASE("a function that fails at the capture, and too little memory for what it did before") {
  Tensor w = counting().realize();
  bool fails = false;
  auto step = jit([&](const Tensor& x) {
    w.assign(w + x);
    const Tensor sums = products(w, x).sum(1).realize();
    if (fails) throw std::runtime_error("stop");
    return sums;
  });
  const Tensor x = Tensor::ones({kSize}).contiguous().realize();
  step(x);
  fails = true;
  {
    KnobScope limit(Knob::MAX_BUFFER_SIZE, 4 * kSize * kSize - 1);
    CHECK_THROWS_WITH_AS(step(x), "stop", std::runtime_error);
  }
  check_values(w, counting_from(1));
}

TEST_CASE("cancel: between kernels, until memory from before is overwritten") {
  Tensor w = counting().realize();
  const Tensor a = (w + 5).contiguous(), b = products(a, a).sum(1);
  {
    CancelAtFirstKernel at;
    CHECK_THROWS_AS(Tensor::realize(std::vector{a, b}), Cancelled);
    CHECK(at.kernels == 1);
  }
  Tensor::realize(std::vector{a, b});
  check_values(a, counting_from(5));
  check_values(b, counting_from(5 * (4656 + 5 * kSize), 4656 + 5 * kSize));
  w.assign(w + 1);
  const Tensor c = products(w, w).sum(1);
  {
    CancelAtFirstKernel at;
    Tensor::realize(std::vector{w, c});
    CHECK(at.kernels == 3);
    CHECK_THROWS_AS((w + 1).contiguous().realize(), Cancelled);  // it is kept for the next call
  }
  check_values(w, counting_from(1));
  check_values(c, counting_from(4753, 4753));
}

TEST_CASE("cancel: a captured function") {
  Tensor w = counting().realize();
  auto step = jit([&](const Tensor& x) {
    w.assign(w + x);
    return w * 2;
  });
  const Tensor x = Tensor::ones({kSize}).contiguous().realize();
  step(x);
  for (int i = 1; i < 4; i++) {  // the capture and two replays
    cancel();
    CHECK_THROWS_AS(step(x), Cancelled);
    check_values(w, counting_from(i));
    check_values(step(x), counting_from(2.0 * (i + 1), 2));
  }
  CHECK(step.is_captured());
}
