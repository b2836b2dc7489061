// Threads that use tensors of their own at the same time. What two threads must not do to each other's
// tensors shows under the thread sanitizer (preset tsan).
#include "tensor/jit.h"
#include "unit/tensor_check.h"

#include <array>
#include <cmath>
#include <thread>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

// What a thread of its own makes of `f(i)` for some i.
template <class F>
std::array<std::vector<float>, 3> on_threads(F f) {
  std::array<std::vector<float>, 3> out;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < out.size(); i++) threads.emplace_back([&, i] { out[i] = f(static_cast<float>(i)); });
  for (std::thread& t : threads) t.join();
  return out;
}

// Fits w to 3 x; every thread has the same graphs over other memory.
std::vector<float> fit(float first, bool is_captured) {
  Tensor w = floats({first, 1, 2}).realize();
  const auto body = [&](const Tensor& x) {
    const Tensor v = w.detach();
    const Tensor loss = (v * x - x * 3).square().sum();
    loss.backward();
    w.assign(w - 0.1 * *v.grad());
    return loss;
  };
  auto step = jit(body);
  for (int i = 0; i < 30; i++) {
    const Tensor x = floats({1, 0.5, 2});
    const Tensor loss = is_captured ? step(x) : body(x);
    const Tensor view = w.flip(0) + 1;  // follows no assignment
    loss.realize();
    if (i % 10 == 9) view.realize();
  }
  return w.to_vector<float>();
}

}  // namespace

TEST_CASE("threads with tensors of their own do not see each other") {
  for (const bool is_captured : {false, true}) {
    std::array<std::vector<float>, 3> alone;
    for (size_t i = 0; i < alone.size(); i++) alone[i] = fit(static_cast<float>(i), is_captured);
    CHECK(on_threads([&](float first) { return fit(first, is_captured); }) == alone);
    CHECK(std::abs(alone[0][0] - 3) < 1e-2F);
  }
}
