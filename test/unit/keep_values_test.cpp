// Rows whose values are kept between two loops, and prefetched, are those of a kernel without.
#include "base/knobs.h"
#include "codegen/actions.h"
#include "tensor/custom_kernel.h"
#include "unit/tensor_check.h"

using namespace lathe;
using namespace lathe::test;

namespace {

Tensor table(const char* device, int64_t rows, int64_t columns) {
  const Tensor x = (Tensor::arange(rows * columns, {.device = device}).cast(DType::Float32) * 0.37).sin() * 3;
  return x.reshape({rows, columns}).contiguous();
}

void check_close(const Tensor& got, const Tensor& expected) {
  const auto a = got.to_vector<float>(), b = expected.to_vector<float>();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); i++) CHECK(a[i] == doctest::Approx(b[i]).epsilon(2e-6));
}

// out[i, j] = exp2(x[i, j]) * sum over k of exp2(x[i, k])
Tensor weighed(const Tensor& x, std::vector<Action> actions) {
  const Tensor out = Tensor::empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  const int64_t n = x.shape()[0].value(), m = x.shape()[1].value();
  const auto kernel = [&](const std::vector<UOp>& args) {
    const UOp i = range(n, 0, AxisType::Loop), j = range(m, 1, AxisType::Loop),
              k = range(m, 2, AxisType::Reduce);
    const auto power = [&](const UOp& c) { return alu(Op::Exp2, {load(index(args[1], i * m + c))}); };
    const UOp sum = UOp::make(Op::Reduce, {power(k), k}, ReduceArg{Op::Add, 0});
    return UOp::make(Op::End, {store(index(args[0], i * m + j), power(j) * sum), i, j});
  };
  return custom_kernel({out.reshape({n * m}), x.reshape({n * m})}, kernel,
                       {.name = "weighed", .actions = std::move(actions)})[0];
}

}  // namespace

TEST_CASE("kept values under every schedule") {
  using enum ActionKind;
  const std::vector<std::vector<Action>> schedules = {
      {},
      {{Vector, 1, 32}, {Vector, 3, 64}},
      {{Upcast, 0, 4}, {Vector, 2, 32}, {Vector, 4, 64}},
      {{Vector, 0, 4}, {Thread, 0, 2}},
      {{Vector, 0, 8}, {Unroll, 2, 4}},
      {{Upcast, 0, 2}, {Thread, 0, 2}, {Unroll, 4, 8}},
      {{Upcast, 1, 4}, {Upcast, 0, 2}},
  };
  Tensor expected;
  {
    KnobScope plain(Knob::NOOPT, 1);
    expected = weighed(table("INTERP", 8, 128), {}).contiguous();
    expected.realize();
  }
  for (const auto& actions : schedules) {
    CAPTURE(print_actions(actions));
    for (const char* device : {"CPU", "CPU:C", "INTERP"})
      check_close(weighed(table(device, 8, 128), actions), expected);
  }
}

TEST_CASE("vectors of lanes that are no power of two") {
  using enum ActionKind;
  const std::vector<std::vector<Action>> schedules = {
      {{Vector, 1, 48}, {Vector, 3, 48}},
      {{Vector, 1, 24}, {Vector, 3, 36}},
      {{Upcast, 0, 4}, {Vector, 2, 72}, {Unroll, 4, 8}},
  };
  const auto run = [](const char* device, std::vector<Action> actions) {
    const Tensor x = table(device, 8, 144);
    return weighed(x, std::move(actions)).reshape({8, 144});
  };
  Tensor expected;
  {
    KnobScope plain(Knob::NOOPT, 1);
    expected = run("INTERP", {}).contiguous();
    expected.realize();
  }
  for (const auto& actions : schedules) {
    CAPTURE(print_actions(actions));
    for (const char* device : {"CPU", "CPU:C", "INTERP"}) check_close(run(device, actions), expected);
  }
}

TEST_CASE("softmax and its like along rows and columns") {
  for (const int axis : {0, 1})
    for (const auto& [n, m] : {std::pair{6, 1024}, {1024, 6}, {96, 100}, {3, 65}}) {
      CAPTURE(axis);
      CAPTURE(n);
      const auto run = [&](const char* device) {
        const Tensor x = table(device, n, m);
        return x.softmax(axis) + x.log_softmax(axis) * 0.01 +
               (x - x.mean(axis, true)).sin().sum(axis, true) * 1e-3;
      };
      KnobScope plain(Knob::NOOPT, 1);
      const Tensor expected = run("INTERP").contiguous();
      expected.realize();
      KnobScope optimised(Knob::NOOPT, 0);
      for (const char* device : {"CPU", "CPU:C"}) check_close(run(device), expected);
    }
}
