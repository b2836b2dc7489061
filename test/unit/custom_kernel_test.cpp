// Kernels that the user writes: as graphs, as source, as objects.
#include "tensor/custom_kernel.h"

#include "engine/counters.h"
#include "runtime/cpu/compilers.h"
#include "schedule/schedule.h"
#include "tensor/jit.h"
#include "unit/kernels_of.h"
#include "unit/tensor_check.h"

#include <array>

using namespace lathe;
using namespace lathe::test;

namespace {

UOp loop(const UOp& like, int axis, int id) {
  return range(like.shape()[static_cast<size_t>(axis)].uop(), id, AxisType::Loop);
}

// out = f(in) element by element, over one axis.
KernelFunction elementwise(const std::function<UOp(const std::vector<UOp>&)>& f) {
  return [f](const std::vector<UOp>& args) {
    const UOp i = loop(args[0], 0, 0);
    std::vector<UOp> values;
    for (size_t k = 1; k < args.size(); k++) values.push_back(load(index(args[k], i)));
    return UOp::make(Op::End, {store(index(args[0], i), f(values)), i});
  };
}
Tensor copy_kernel(const Tensor& x, const std::string& name = "copy") {
  const Tensor out = Tensor::empty({x.numel()}, {.dtype = x.dtype(), .device = x.device()});
  return custom_kernel({out, x.reshape({x.numel()})}, elementwise([](const auto& v) { return v[0]; }),
                       {.name = name})[0];
}

Tensor product(const Tensor& a, const Tensor& b, const GradientFunction& gradient = nullptr) {
  return custom_kernel({Tensor::empty(a.shape(), {.device = a.device()}), a, b},
                       elementwise([](const auto& v) { return v[0] * v[1]; }),
                       {.name = "product", .gradient = gradient})[0];
}

}  // namespace

TEST_CASE("a kernel over placeholders") {
  for (const char* device : {"CPU", "CPU:C", "INTERP"}) {
    CAPTURE(device);
    const Tensor a = Tensor::from(std::vector<float>{1, 2, 3}, {.device = device});
    const Tensor y = product(a, a + 1);
    CHECK(!y.is_realized());
    check_values(y * 2, {4, 12, 24});
    reset_counters();
    check_values(product(a, a + 1) * 2, {4, 12, 24});
    CHECK(counters().compiled == 0);
  }
}

TEST_CASE("several axes, scalars and a reduction") {
  const Tensor a = floats({1, 2, 3, 4, 5, 6}, {SInt(2), SInt(3)}), scale = Tensor(10.0f);
  const Tensor out = custom_kernel({Tensor::empty({2}), a, scale.cast(DType::Float32)}, [](const auto& args) {
    const UOp i = loop(args[0], 0, 0), k = range(args[1].shape()[1].uop(), 1, AxisType::Reduce);
    const std::array at{i, k};
    const UOp sum = UOp::make(Op::Reduce, {load(index(args[1], at)), k}, ReduceArg{Op::Add, 0});
    return UOp::make(Op::End, {store(index(args[0], i), sum * load(index(args[2], constant(0)))), i});
  })[0];
  check_values(out, {60, 150});
}

TEST_CASE("numbers of kernels") {
  const Tensor x = Tensor::empty({100}), square = Tensor::empty({10, 10});
  Tensor::realize(std::vector{x, square});
  const Tensor y = Tensor::ones({100}).realize();
  CHECK(kernels_of({copy_kernel(y)}) == 1);
  CHECK(kernels_of({copy_kernel(y.reshape({10, 10}).reshape({100}))}) == 1);
  CHECK(kernels_of({copy_kernel(y + y)}) == 2);
  CHECK(kernels_of({copy_kernel(Tensor::linspace(0, 1, 100))}) == 2);
  CHECK(kernels_of({copy_kernel(y.at(Slice{16, 80}))}) <= 2);
  CHECK(kernels_of({copy_kernel(y.at(Slice{0, 80}))}) == 1);
  CHECK(kernels_of({copy_kernel(y.pad({1, 1}))}) == 2);
  CHECK(kernels_of({copy_kernel(y.flip(0))}) == 2);
  CHECK(kernels_of({copy_kernel(copy_kernel(y))}) == 2);
  CHECK(kernels_of({copy_kernel(copy_kernel(y).reshape({10, 10}))}) == 2);
  CHECK(kernels_of({copy_kernel(copy_kernel(y).reshape({10, 10}).permute({1, 0}))}) == 3);
  CHECK(kernels_of({copy_kernel(copy_kernel(y).reshape({10, 10}).permute({1, 0}).permute({1, 0}))}) == 2);
  CHECK(kernels_of({copy_kernel(copy_kernel(y).reshape({10, 10}).shrink({{1, 9}, {1, 9}}))}) == 3);
  CHECK(kernels_of({copy_kernel(copy_kernel(y).reshape({1, 100}).expand({2, 100}))}) == 3);
  Tensor five = y;
  for (int i = 0; i < 5; i++) five = copy_kernel(five);
  CHECK(kernels_of({five}) == 5);
  CHECK((copy_kernel(Tensor::from(std::vector<float>{1, 2, 3, 4, 5})) + 1).sum().item<float>() == 20);
}

TEST_CASE("kernels run in the order of what they read, under their names") {
  const UOp root = copy_kernel(copy_kernel(Tensor::ones({4}).realize(), "k1"), "k2").uop();
  std::vector<std::string> names;
  for (const ScheduledKernel& k : make_schedule({&root, 1}).kernels)
    names.push_back(k.body.arg_as<KernelPtr>()->name);
  CHECK(names == std::vector<std::string>{"k1", "k2"});
}

TEST_CASE("what a kernel does not store stays") {
  Tensor x = floats({10, 20, 30, 40});
  const Tensor before = x + 0;
  custom_kernel({x}, [](const auto& args) {
    const UOp i = loop(args[0], 0, 0);
    const UOp at = index(args[0], where(lt(i, 2), i, invalid()));
    return UOp::make(Op::End, {store(at, load(index(args[0], i)) + 1), i});
  });
  check_values(x, {11, 21, 30, 40});
  check_values(before, {10, 20, 30, 40});
}

TEST_CASE("memory that grows in place is seen by its views, and runs once") {
  Tensor x = floats({1, 2, 3, 4});
  const Tensor last = x.at(3);
  const auto grow = [&] {
    return custom_kernel({x}, [](const auto& args) {
      const UOp i = loop(args[0], 0, 0);
      return UOp::make(Op::End, {store(index(args[0], i), load(index(args[0], i)) * 2), i});
    });
  };
  const Tensor doubled = grow()[0];
  const Tensor between = x + 0.5;
  grow();
  check_values(last, {16});
  check_values(between, {2.5, 4.5, 6.5, 8.5});
  check_values(x, {4, 8, 12, 16});
  CHECK(doubled.is_same(x));
}

TEST_CASE("a kernel of two results runs once") {
  const Tensor x = floats({1, 2, 3}).realize();
  Tensor count = floats({0});
  const auto both = custom_kernel({x, Tensor::empty({3}), count, Tensor::empty({3})}, [](const auto& args) {
    const UOp i = loop(args[0], 0, 0), v = load(index(args[0], i)), zero = constant(0);
    const UOp once = store(index(args[2], zero), load(index(args[2], zero)) + 1);
    const UOp group =
        UOp::make(Op::Group, {store(index(args[1], i), v * 2), store(index(args[3], i), v * 3)});
    const std::array effects{UOp::make(Op::End, {group, i}), once};
    return sink(effects);
  });
  check_values(both[3], {3, 6, 9});
  check_values(both[1] + both[3], {5, 10, 15});
  check_values(count, {1});
}

TEST_CASE("in a captured function") {
  Tensor total = Tensor::zeros({2});
  auto step = jit([&](const Tensor& x) {
    const Tensor y = product(x, x + 1);
    custom_kernel({total, y}, [](const auto& args) {
      const UOp i = loop(args[0], 0, 0);
      return UOp::make(Op::End,
                       {store(index(args[0], i), load(index(args[0], i)) + load(index(args[1], i))), i});
    });
    return y + 1;
  });
  double sum = 0;
  for (int i = 0; i < 5; i++) {
    const double v = i;
    sum += v * (v + 1);
    reset_counters();
    const Tensor y = step(floats({static_cast<float>(i), 1}));
    if (i > 2) CHECK(counters().compiled + counters().schedules == 0);
    check_values(y, {v * (v + 1) + 1, 3});
    check_values(total, {sum, 2.0 * (i + 1)});
  }
}

TEST_CASE("over several devices, a kernel for each") {
  const std::vector<std::string> devices = {"CPU:0", "CPU:1"};
  const Tensor x = floats({1, 2, 3, 4}), w = floats({10, 20});
  for (const bool realized : {false, true}) {
    CAPTURE(realized);
    const Tensor out = Tensor::zeros({4}).shard(devices, 0), pieces = x.shard(devices, 0);
    const Tensor whole = w.shard(devices);
    if (realized) Tensor::realize(std::vector{out, pieces, whole});
    const Tensor y =
        custom_kernel({out, pieces * 1, whole}, elementwise([](const auto& v) { return v[0] * v[1]; }))[0];
    check_values(y + pieces, {11, 42, 33, 84});
    check_values(out, {10, 40, 30, 80});
  }
  // Beside tensors over several devices, one device has kernels as ever.
  check_values(copy_kernel(x.shard(devices, 0).sum().to("CPU") + x), {11, 12, 13, 14});
}

TEST_CASE("gradients are given") {
  const Tensor a = floats({1, 2, 3}), b = floats({4, 5, 6});
  const Tensor y = product(a * 2, b, [](const auto& grads, const auto& args) {
    check_values(args[0], {8, 20, 36});
    return std::vector<std::optional<Tensor>>{std::nullopt, grads[0] * args[2], grads[0] * args[1]};
  });
  const auto grads = (y * y).sum().gradient({a, b, y});
  check_values(grads[2], {16, 40, 72});
  check_values(grads[0], {128, 400, 864});
  check_values(grads[1], {32, 160, 432});
  const UserError error = user_error([&] { product(a, b).sum().gradient({a}); });
  CHECK(contains(error.what(), "the kernel product was given no gradient"));
  CHECK(contains(user_error([&] {
                   product(a, b,
                           [](const auto&, const auto&) { return std::vector<std::optional<Tensor>>(1); })
                       .sum()
                       .gradient({a});
                 }).what(),
                 "the gradient of a kernel has 1 parts for 3 arguments"));
}

TEST_CASE("kernels in the language of the device, and objects") {
  const std::string source =
      "void twice(void* const* bufs, const long* vars, long core) {\n"
      "  float* out = bufs[0]; const float* in = bufs[1]; (void)vars;\n"
      "  for (int i = (int)core; i < 4; i += 2) out[i] = 2 * in[i];\n}\n";
  const auto twice = [](const Tensor& x, const KernelText& text) {
    return custom_kernel({Tensor::empty({4}, {.device = x.device()}), x}, text)[0];
  };
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4}, {.device = "CPU:C"});
  check_values(twice(x + 1, {"twice", source, false, 2}), {4, 6, 8, 10});
  const Tensor y = Tensor::from(std::vector<float>{1, 2, 3, 4}, {.device = "CPU"});
  auto f = jit([&](const Tensor& t) { return twice(t, {"twice", compile_c(source), true, 2}) + 1; });
  for (int i = 0; i < 4; i++)
    check_values(f((y * i).realize()), {2.0 * i + 1, 4.0 * i + 1, 6.0 * i + 1, 8.0 * i + 1});
  CHECK_THROWS_AS(twice(x, {"thrice", source, false, 2}).realize(), DeviceError);
  CHECK(
      contains(user_error([&] { twice(x.to("INTERP"), {"twice", source}).realize(); }).what(), "no source"));
}

TEST_CASE("what is no kernel") {
  const Tensor a = floats({1, 2}), b = floats({3, 4});
  const auto text_of = [&](auto f) { return std::string(user_error(f).what()); };
  const auto copy = elementwise([](const auto& v) { return v[0]; });
  CHECK(contains(text_of([&] { custom_kernel({a, a}, copy); }),
                 "arguments 0 and 1 of the kernel custom are one memory"));
  CHECK(contains(text_of([&] { custom_kernel({a, b.to("INTERP")}, copy); }), "same device: [CPU, INTERP]"));
  CHECK(contains(text_of([&] { custom_kernel({a, Tensor(1.0)}, copy); }),
                 "argument 1 of the kernel custom is"));
  CHECK(
      contains(text_of([&] { custom_kernel({a.at(Slice{0, 1}), b}, copy); }), "writes to a view of memory"));
  CHECK(
      contains(text_of([&] { custom_kernel({a}, [](const auto&) { return sink({}); }); }), "writes to none"));
  CHECK(contains(text_of([&] {
                   custom_kernel({a, b}, [](const auto& args) {
                     const UOp i = loop(args[0], 0, 0);
                     return store(index(args[0], i), load(index(args[1], i)));
                   });
                 }),
                 "not legal: every loop is closed"));
  CHECK(contains(text_of([&] { custom_kernel({a.reshape({1, 2}), b}, copy); }),
                 "memory of shape (1, 2) with 1 coordinates"));
}
