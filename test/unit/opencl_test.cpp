// Kernels of work groups on the first OpenCL device of this machine, and their schedules.
#include "base/knobs.h"
#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "engine/counters.h"
#include "engine/launch.h"
#include "schedule/schedule.h"
#include "tensor/custom_kernel.h"
#include "unit/has_opencl.h"
#include "unit/tensor_check.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

Tensor counting(const Shape& shape, const std::string& device) {
  const auto n = static_cast<size_t>(prod(shape).value());
  std::vector<float> values(n);
  for (size_t i = 0; i < n; i++) values[i] = static_cast<float>(i % 23) * 0.25f - 2;
  Tensor t = Tensor::from(values, shape).to(device);
  t.realize();
  return t;
}

UOp with_schedule(const UOp& body, const std::vector<Action>& actions) {
  KernelArg arg = *body.arg_as<KernelPtr>();
  arg.given = actions;
  return body.with_arg(std::make_shared<const KernelArg>(std::move(arg)));
}

// The values of `t`, which takes one kernel, under a schedule.
std::vector<float> run_with(const Tensor& t, const std::vector<Action>& actions) {
  Schedule schedule = make_schedule({&t.uop(), 1});
  REQUIRE(schedule.kernels.size() == 1);
  ScheduledKernel& k = schedule.kernels[0];
  k.body = with_schedule(k.body, actions);
  run_launch(make_launches({&k, 1}, {})[0]);
  const auto memory = memory_of(k.buffers[0]);
  std::vector<float> out(memory->size() / sizeof(float));
  memory->copy_out(std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace

TEST_CASE("values go to an OpenCL device, are computed with there, and come back") {
  if (!has_opencl()) return;
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor there = x.to("CL");
  CHECK(there.device() == "CL");
  const Tensor sum = (there * 2 + there.flip(1)).to("CPU");
  check_values(sum, {5, 6, 7, 14, 15, 16});
  check_values(there.to("CL:1") + 1, {2, 3, 4, 5, 6, 7});
  check_values(there.matmul(there.transpose()), {14, 32, 32, 77});
}

TEST_CASE("a slice of a buffer is an argument, wherever it starts") {
  if (!has_opencl()) return;
  const KnobScope dev(Knob::DEV, "CL");
  const Tensor x = counting({100}, "CL");
  const auto memory = memory_of(strip_views(x.uop()));
  CHECK(memory->size() == 400);
  for (const int64_t first : {1, 3, 64}) {
    const UOp slice = new_buffer({10}, DType::Float32, "CL");
    slice.param().store->storage = Buffer::view(memory, static_cast<size_t>(first) * 4, 40);
    std::vector<double> expected;
    for (int64_t i = 0; i < 10; i++) expected.push_back(static_cast<double>((first + i) % 23) * 0.25 - 1);
    check_values(Tensor(slice) + 1, expected);
  }
}

TEST_CASE("every schedule computes the same") {
  if (!has_opencl()) return;
  using enum ActionKind;
  const Tensor a = counting({32, 48}, "CL"), b = counting({48, 64}, "CL");
  const Tensor product = a.matmul(b), largest = a.max(1), rows = (a - 1).relu();
  const std::vector<float> expected = a.to("CPU").matmul(b.to("CPU")).to_vector<float>();
  for (const std::vector<Action>& actions : std::vector<std::vector<Action>>{
           {},
           {{Local, 0, 8}},
           {{Local, 1, 16}, {Local, 0, 4}},
           {{Group, 2, 16}},
           {{Local, 1, 4}, {Group, 3, 8}, {Unroll, 3, 2}},
           {{Vector, 1, 4}, {Local, 0, 4}, {Upcast, 0, 2}},
           {{Vector, 1, 4}, {Group, 3, 4}},
           {{Vector, 2, 4}, {Group, 2, 4}},
           {{Vector, 1, 8}, {Upcast, 0, 4}, {Local, 0, 4}, {Local, 3, 2}, {Group, 6, 2}},
       }) {
    INFO(print_actions(actions));
    const std::vector<float> got = run_with(product, actions);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); i++)
      CHECK(std::abs(got[i] - expected[i]) <= 1e-5 * std::max(1.0f, std::abs(expected[i])));
  }
  CHECK(run_with(largest, {{Group, 1, 16}}) == run_with(largest, {{Local, 0, 32}}));
  CHECK(run_with(rows, {{Local, 0, 16}}) == run_with(rows, {{Vector, 0, 16}}));
  CHECK(run_with(rows, {{Local, 0, 16}}) == run_with(rows, {{Vector, 1, 3}}));
  const Tensor turned = (a.transpose() + 1).contiguous();
  CHECK(run_with(turned, {{Vector, 0, 3}}) == run_with(turned, {{Local, 1, 4}, {Local, 0, 4}}));
}

TEST_CASE("a kernel without work items takes the driver's or the fastest number of them, once") {
  if (!has_opencl()) return;
  const KnobScope noopt(Knob::NOOPT, 1);
  Tensor x = counting({4096}, "CL");
  x.assign(x + 1);
  check_values(x.sum(), {4096 + counting({4096}, "CPU").sum().item<double>()}, 1e-5);
}

TEST_CASE("the loop of a kernel that orders its effects keeps its order") {
  if (!has_opencl()) return;
  const Tensor out = Tensor::empty({8}, {.device = "CL"}), x = floats({1, 2, 3, 4, 5, 6, 7, 8}).to("CL");
  const Tensor sums = custom_kernel({out, x}, [](const std::vector<UOp>& args) {
    const UOp i = range(8, 0, AxisType::Loop);
    const UOp before = where(alu(Op::CmpLt, {constant(0), i}), i - 1, invalid());
    const UOp so_far = load(index(after(args[0], {&i, 1}), before));
    return close_loops(store(index(args[0], i), so_far + load(index(args[1], i))), {&i, 1});
  })[0];
  check_values(sums, {1, 3, 6, 10, 15, 21, 28, 36});
}

TEST_CASE("DEBUG=2 asks a device for the time of a kernel") {
  if (!has_opencl()) return;
  const KnobScope debug(Knob::DEBUG, 2);
  const double before = counters().seconds;
  check_values(counting({3}, "CL") + 1, {-1, -0.75, -0.5});
  CHECK(counters().seconds > before);
}

TEST_CASE("work items that share a reduction all read the element that one of them writes") {
  if (!has_opencl()) return;
  const auto step = [](const std::string& device) {
    Tensor x = counting({4}, device);
    const Tensor y = counting({4, 16}, device);
    x.assign(y.maximum(x.reshape({4, 1})).sum(1));
    return x.to_vector<double>();
  };
  const std::vector<double> here = step("CPU"), there = step("CL");
  for (size_t i = 0; i < here.size(); i++) CHECK(there[i] == doctest::Approx(here[i]));
}

TEST_CASE("a kernel of the user in OpenCL C") {
  if (!has_opencl()) return;
  const KernelText twice{
      "twice",
      "kernel void twice(global float* out, ulong to, global const float* in, ulong from) {\n"
      "  const size_t i = get_global_id(0);\n"
      "  out[to + i] = 2 * in[from + i];\n}\n",
      false, 4};
  const Tensor x = floats({1, 2, 3, 4}).to("CL"), out = Tensor::empty({4}, {.device = "CL"});
  check_values(custom_kernel({out, x + 1}, twice)[0] + 1, {5, 7, 9, 11});
  const Tensor misfit = custom_kernel({out, x}, KernelText{.entry = "f", .source = "kernel void f() {}"})[0];
  CHECK_THROWS_AS(misfit.to_vector<float>(), DeviceError);
  KernelText binary = twice;
  binary.is_binary = true;
  CHECK(contains(user_error([&] { custom_kernel({out, x}, binary)[0].realize(); }).what(), "no binaries"));
}
