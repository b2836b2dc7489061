// How many kernels training steps take, upper bounds as in kernel_counts_test.cpp, and kernels of many
// buffers.
#include "base/knobs.h"
#include "engine/counters.h"
#include "nn/layers.h"
#include "nn/optimizer.h"
#include "nn/state.h"
#include "nn/training.h"
#include "schedule/schedule.h"
#include "tensor/tensor.h"
#include "unit/kernels_of.h"
#include "unit/tensor_check.h"

#include <functional>

using namespace lathe;
using namespace lathe::test;

namespace {

template <class... Layers>
std::vector<Tensor> realised(const Layers&... layers) {
  std::vector<Tensor> all;
  (void)std::initializer_list<int>{[&] {
    for (const Tensor& t : nn::parameters(layers)) all.push_back(t);
    return 0;
  }()...};
  Tensor::realize(all);
  return all;
}

Tensor image(const Shape& s) { return Tensor::rand(s).realize(); }

nn::Conv2d conv(int64_t in, int64_t out, int64_t size, bool bias = false) {
  return nn::Conv2d(in, out, size, {.bias = bias});
}

// One step of an optimiser over `params`, whose state is made in it too. The loss is gone by then: a live one
// would be computed with the old parameters.
template <class O, class... Options>
uint64_t step_kernels(const std::vector<Tensor>& params, const std::function<Tensor()>& loss,
                      const Options&... options) {
  O optimizer(params, options...);
  optimizer.zero_grad();
  loss().backward();
  return kernels_of(optimizer.schedule_step());
}

}  // namespace

TEST_CASE("a step of SGD") {
  const nn::TrainingScope training;
  {
    const nn::Conv2d c = conv(3, 32, 3, true);
    CHECK(step_kernels<nn::SGD>(realised(c), [&] { return c(image({2, 3, 4, 4})).relu().sum(); }) <= 5);
  }
  {
    const nn::Conv2d a = conv(3, 16, 3), b = conv(16, 32, 2);
    const auto loss = [&] { return b(a(image({2, 3, 4, 4})).relu()).relu().sum(); };
    CHECK(step_kernels<nn::SGD>(realised(a, b), loss) <= 7);
  }
  {
    const nn::Conv2d a = conv(3, 4, 3), b = conv(4, 8, 3), c = conv(8, 16, 3), d = conv(16, 32, 3);
    const auto loss = [&] { return d(c(b(a(image({2, 3, 16, 16})).relu()).relu()).relu()).relu().sum(); };
    CHECK(step_kernels<nn::SGD>(realised(a, b, c, d), loss) <= 15);
  }
  {
    const nn::Conv2d a = conv(3, 16, 3), b = conv(16, 32, 3);
    const auto loss = [&] { return b(a(image({2, 3, 12, 12})).relu()).relu().sum(); };
    const nn::SGD::Options options{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true};
    CHECK(step_kernels<nn::SGD>(realised(a, b), loss, options) <= 11);
  }
  {
    const nn::Conv2d c = conv(3, 32, 3, true);
    const nn::BatchNorm bn(32, {.track_running_stats = false});
    const auto loss = [&] { return bn(c(image({1, 3, 4, 4}))).relu().sum(); };
    CHECK(step_kernels<nn::SGD>(realised(c, bn), loss) <= 15);
  }
}

TEST_CASE("a step of Adam") {
  const nn::TrainingScope training;
  {
    const nn::Linear l(32, 128);
    CHECK(step_kernels<nn::Adam>(realised(l), [&] { return l(image({4, 64, 32})).relu().sum(); }) <= 13);
  }
  {
    const nn::Conv2d c = conv(3, 32, 3, true);
    CHECK(step_kernels<nn::Adam>(realised(c), [&] { return c(image({2, 3, 4, 4})).relu().sum(); }) <= 13);
  }
  {
    const nn::Conv2d a = conv(3, 16, 3), b = conv(16, 32, 2);
    const auto loss = [&] { return b(a(image({2, 3, 4, 4})).relu()).relu().sum(); };
    CHECK(step_kernels<nn::Adam>(realised(a, b), loss) <= 15);
  }
  {
    const nn::Conv2d c = conv(3, 32, 3, true);
    const nn::BatchNorm bn(32, {.track_running_stats = false});
    const auto loss = [&] { return bn(c(image({1, 3, 4, 4}))).relu().sum(); };
    CHECK(step_kernels<nn::Adam>(realised(c, bn), loss) <= 29);
  }
}

TEST_CASE("batch normalisation") {
  const nn::TrainingScope training;
  const nn::BatchNorm bn(8, {.track_running_stats = false});
  realised(bn);
  CHECK(kernels_of({bn(image({2, 8, 4, 4}))}) <= 3);
  const nn::Conv2d c = conv(3, 8, 3);
  realised(c);
  CHECK(kernels_of({bn(c(image({1, 3, 8, 8}))).relu()}) <= 4);
  const Tensor x = image({2, 8, 4, 4}), out = bn(x).relu();
  std::vector<Tensor> wanted = out.sum().gradient({x, *bn.weight, *bn.bias});
  wanted.push_back(out);
  CHECK(kernels_of(wanted) <= 10);
}

TEST_CASE("reductions within reductions and in their readers") {
  const Tensor x = floats({1, -2, 3, -4, 5, 6, -7, 1}, {2, 2, 2});
  check_values(x.sum(2).relu().sum(1), {0, 11});
  // A total is short enough to be computed in its reader.
  const Tensor shares = x / x.sum();
  CHECK(kernels_of({shares}) == 1);
  check_values(shares, {1. / 3, -2. / 3, 1, -4. / 3, 5. / 3, 2, -7. / 3, 1. / 3});
}

TEST_CASE("kernels keep within a limit of buffers") {
  const KnobScope scope(Knob::MAX_KERNEL_BUFFERS, 8);
  std::vector<Tensor> inputs;
  for (int i = 0; i < 31; i++) inputs.push_back(floats({static_cast<float>(i), 1}));
  Tensor sum = inputs[0];
  for (int i = 1; i < 31; i++) sum = sum + inputs[static_cast<size_t>(i)];
  const UOp root = sum.uop();
  const Schedule schedule = make_schedule({&root, 1});
  CHECK(schedule.kernels.size() == 5);  // 7 inputs, then 6 more and what there is
  for (const ScheduledKernel& k : schedule.kernels) CHECK(k.buffers.size() <= 8);
  check_values(sum, {465, 31});

  // Inside of a reduction and of an assignment.
  Tensor product = inputs[1].reshape({2, 1}) * inputs[2];
  for (int i = 3; i < 12; i++) product = product + inputs[static_cast<size_t>(i)] * 2;
  check_values(product.sum(), {2 * 2 * (3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 + 9) + (1 + 1) * (2 + 1)});
  Tensor target = floats({5, 5});
  target.assign(target.flip(0) + sum);
  check_values(target, {470, 36});
}

TEST_CASE("the limit is the device's unless set") {
  const auto buffers_of = [](const std::string& device) {
    UOp sum;
    for (int i = 0; i < 40; i++) {
      const UOp b = new_buffer({SInt(4)}, DType::Float32, device);
      sum = sum ? sum + b : b;
    }
    size_t most = 0;
    for (const ScheduledKernel& k : make_schedule({&sum, 1}).kernels) most = std::max(most, k.buffers.size());
    return most;
  };
  CHECK(buffers_of("CPU") == 31);
  CHECK(buffers_of("WEBGPU") == 8);
  CHECK(buffers_of("NULL") == 41);
}
