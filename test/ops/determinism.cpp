// The same program and knobs give the same bits, whatever the number of threads.
#include "base/knobs.h"
#include "ops/inputs.h"
#include "ops/table.h"

#include <bit>
#include <functional>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

Tensor numbers(const Index& shape) {
  Random random("determinism");
  return upload(draw(in(shape), DType::Float32, random), DType::Float32);
}

std::vector<uint32_t> bits(const Tensor& t) {
  std::vector<uint32_t> out;
  for (float v : t.to_vector<float>()) out.push_back(std::bit_cast<uint32_t>(v));
  return out;
}

void check_same_bits(const std::function<Tensor()>& compute) {
  devices();  // sets the kernel cache
  std::vector<uint32_t> first;
  for (int threads : {1, 2, 2, 1}) {
    const KnobScope count(Knob::CPU_COUNT, threads);
    const std::vector<uint32_t> got = bits(compute());
    INFO("with ", threads, " threads");
    REQUIRE(!got.empty());
    if (first.empty()) first = got;
    CHECK((got == first));
  }
}

}  // namespace

TEST_CASE("same bits: product of matrices") {
  const Tensor x = numbers({150, 130}), y = numbers({130, 170});
  check_same_bits([&] { return x.dot(y); });
}

TEST_CASE("same bits: convolution and its gradient") {
  const Tensor x = numbers({2, 8, 18, 18}), w = numbers({16, 8, 3, 3});
  check_same_bits([&] { return x.conv2d(w, {}, {.padding = 1}); });
  check_same_bits([&] { return x.conv2d(w).square().sum().gradient({w})[0]; });
}

TEST_CASE("same bits: a large sum") {
  const Tensor x = numbers({300, 1000});
  check_same_bits([&] { return x.sum(); });
  check_same_bits([&] { return x.sum(0); });
  check_same_bits([&] { return x.sum(1); });
}

TEST_CASE("same bits: softmax") {
  const Tensor x = numbers({200, 300});
  check_same_bits([&] { return x.softmax(); });
  check_same_bits([&] { return x.softmax(0); });
}
