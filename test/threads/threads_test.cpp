// Threads that use tensors of their own at the same time. What two threads must not do to each other's
// tensors shows under the thread sanitizer (preset tsan).
#include "tensor/jit.h"
#include "unit/tensor_check.h"

#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

// Fits w to 3 x; all fits have the same graphs over other memory.
class Fit {
 public:
  explicit Fit(size_t i) : w_(floats({static_cast<float>(i), 1, 2}).realize()) {}
  Tensor step(const Tensor& x) {
    const Tensor v = w_.detach();
    const Tensor loss = (v * x - x * 3).square().sum();
    loss.backward();
    w_.assign(w_ - 0.1 * *v.grad());
    return loss;
  }
  void run(int steps, bool is_captured) {
    for (int i = 0; i < steps; i++) {
      const Tensor x = floats({1, 0.5, 2}), view = w_.flip(0) + 1;
      (is_captured ? captured_(x) : step(x)).realize();
      if (i % 10 == 9) view.realize();
    }
  }
  std::vector<float> result() const { return w_.to_vector<float>(); }

 private:
  Tensor w_;
  Jit<std::function<Tensor(const Tensor&)>> captured_{[this](const Tensor& x) { return step(x); }};
};

}  // namespace

TEST_CASE("threads with tensors of their own do not see each other") {
  constexpr size_t kThreads = 3;
  for (const bool is_captured : {false, true}) {
    CAPTURE(is_captured);
    std::vector<std::vector<float>> alone, together(kThreads);
    std::vector<std::unique_ptr<Fit>> fits;
    for (size_t i = 0; i < kThreads; i++) {
      Fit fit(i);
      fit.run(30, is_captured);
      alone.push_back(fit.result());
      fits.push_back(std::make_unique<Fit>(i));
      fits.back()->run(2, is_captured);  // captures: while one does, no other thread may assign
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; i++)
      threads.emplace_back([&, i] {
        fits[i]->run(28, is_captured);
        together[i] = fits[i]->result();
      });
    for (std::thread& t : threads) t.join();
    CHECK(together == alone);
    CHECK(std::abs(alone[0][0] - 3) < 1e-2F);
  }
}
