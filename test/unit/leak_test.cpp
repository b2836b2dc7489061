// Nodes, tensors and memory return to where they were, step after step.
#include "base/knobs.h"
#include "engine/counters.h"
#include "nn/layers.h"
#include "nn/optimizer.h"
#include "nn/state.h"
#include "nn/training.h"
#include "tensor/jit.h"
#include "tensor/state.h"
#include "uop/uop.h"

#include <tuple>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

struct Net {
  nn::Linear first{8, 16}, second{16, 4};
  Tensor operator()(const Tensor& x) const { return second(first(x).relu()); }
  void each(auto&& visit) const { visit("first", first), visit("second", second); }
};

auto alive() { return std::tuple(live_node_count(), LiveTensors::instance().count(), counters().memory); }

}  // namespace

TEST_CASE("a thousand training steps leave nothing behind") {
  nn::TrainingScope training;
  for (const bool is_captured : {false, true}) {
    CAPTURE(is_captured);
    KnobScope captured(Knob::JIT, is_captured);
    Tensor::manual_seed(1);
    (void)Tensor::rand({1}).item<float>();  // the generator's own tensors
    const auto before = LiveTensors::instance().count();
    {
      const Net net;
      nn::AdamW adam(nn::parameters(net), {.lr = 0.01});
      auto step = jit([&](const Tensor& x, const Tensor& y) {
        adam.zero_grad();
        const Tensor loss = (net(x.dropout(0.1)) - y).square().mean();
        loss.backward();
        adam.step(std::vector{loss});
        return loss;
      });
      const auto run = [&](int steps) {
        for (int i = 0; i < steps; i++) {
          // A number in the graph would be another kernel, and those are kept.
          const Tensor x = Tensor::from(std::vector<float>(32, static_cast<float>(i)), {4, 8}),
                       y = Tensor::from(std::vector<float>(16, 1), {4, 4});
          (void)step(x, y).item<float>();
        }
      };
      run(5);
      const auto start = alive();
      run(1000);
      const auto [nodes, tensors, memory] = alive();
      CHECK(nodes == std::get<0>(start));
      CHECK(tensors == std::get<1>(start));
      CHECK(memory == std::get<2>(start));
    }
    CHECK(LiveTensors::instance().count() == before);
  }
}
