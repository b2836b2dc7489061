// Optimisers and state dicts over several devices, and over several processes.
#include "nn/training.h"

#include "nn/data_parallel.h"
#include "nn/layers.h"
#include "nn/optimizer.h"
#include "nn/state.h"
#include "unit/tensor_check.h"

#include <functional>
#include <memory>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

const std::vector<std::string> kTwo = {"CPU:0", "CPU:1"};
using Axis = std::optional<int64_t>;

Tensor weights() {
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>((i * 7) % 11) / 8.0F - 0.5F;
  return Tensor::from(values, {4, 8});
}

using MakeOptimizer = std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>&)>;

// The weights after three steps.
Tensor trained(const Tensor& w, const MakeOptimizer& make, bool shards_state = false) {
  const auto optimizer = make({w});
  if (shards_state) optimizer->shard_state();
  for (int i = 0; i < 3; i++) {
    optimizer->zero_grad();
    (w * w * w).sum().backward();
    optimizer->step();
  }
  for (const auto& [name, t] : nn::state_dict(*optimizer)) {
    INFO(name);
    CHECK(t.device() == w.device());
    if (t.shape() == w.shape() && !shards_state) CHECK(t.shard_axis() == w.shard_axis());
    if (t.shape() == w.shape() && shards_state) CHECK(t.shard_axis() == 0);
  }
  return w;
}

// Two processes played by one: the other's values are `other`.
class PairOfProcesses final : public Collective {
 public:
  explicit PairOfProcesses(std::vector<float> other) : other_(std::move(other)) {}
  int rank() const override { return 1; }
  int size() const override { return 2; }
  void all_reduce(Buffer& values, DType dtype) override {
    CHECK(dtype == DType::Float32);
    CHECK(values.size() == other_.size() * sizeof(float));
    for (size_t i = 0; i < other_.size(); i++) static_cast<float*>(values.data())[i] += other_[i];
  }
  void broadcast(Buffer& bytes, int) override {
    for (size_t i = 0; i < bytes.size() / sizeof(float); i++)
      static_cast<float*>(bytes.data())[i] = other_[i];
  }
  void barrier() override {}

 private:
  std::vector<float> other_;
};

}  // namespace

TEST_CASE("optimisers step over several devices as on one") {
  const nn::TrainingScope training;
  const std::vector<MakeOptimizer> optimizers = {
      [](const auto& t) {
        return std::make_unique<nn::SGD>(t, nn::SGD::Options{.lr = 0.1, .momentum = 0.9});
      },
      [](const auto& t) { return std::make_unique<nn::AdamW>(t, nn::AdamOptions{.lr = 0.1}); },
      [](const auto& t) { return std::make_unique<nn::LAMB>(t, nn::AdamOptions{.lr = 0.1}); },
      [](const auto& t) { return std::make_unique<nn::Muon>(t, nn::Muon::Options{.lr = 0.1}); },
  };
  for (size_t i = 0; i < optimizers.size(); i++) {
    const std::vector<double> expected = trained(weights(), optimizers[i]).to_vector<double>();
    for (const Axis axis : {Axis(), Axis(0), Axis(1)}) {
      INFO("optimiser ", i, ", axis ", axis.value_or(-1));
      check_values(trained(weights().shard(kTwo, axis), optimizers[i]), expected, 1e-4);
    }
    INFO("optimiser ", i, ", its state in pieces");
    const Tensor whole = trained(weights().shard(kTwo), optimizers[i], true);
    check_values(whole, expected, 1e-4);
    CHECK(!whole.shard_axis());
    for (const std::string& d : kTwo)
      CHECK(whole.detach().to(d).to_vector<float>() == whole.to_vector<float>());  // its gradient is gone
  }
}

TEST_CASE("a state dict is loaded to where the model is") {
  const nn::Linear from(8, 4), to(8, 4);
  Tensor(to.weight).move_to_shards(kTwo, 0);
  Tensor(*to.bias).move_to_shards(kTwo);
  nn::load_state_dict(to, nn::state_dict(from));
  CHECK(to.weight.shard_axis() == 0);
  CHECK(to.bias->device() == "CPU,CPU:1");
  check_values(to.weight, from.weight.to_vector<double>());
  check_values(*to.bias, from.bias->to_vector<double>());
}

TEST_CASE("gradients travel between processes as one vector") {
  const Tensor a = floats({1, 2}), b = floats({3}), unused = floats({5});
  const std::vector<Tensor> tensors = {a, b, unused, a};
  CHECK(contains(user_error([&] { nn::flat_gradients(tensors); }).what(), "none of 4 tensors"));
  ((a * a).sum() + b.sum() * 5).backward();
  const Tensor flat = nn::flat_gradients(tensors);
  check_values(flat, {2, 4, 5});
  PairOfProcesses processes({4, 2, 1});
  nn::average(processes, flat);
  check_values(flat, {3, 3, 3});
  nn::set_gradients(tensors, flat + 1);
  check_values(*a.grad(), {4, 4});
  check_values(*b.grad(), {4});
  CHECK(!unused.grad());
  CHECK(contains(user_error([&] { nn::set_gradients(tensors, floats({1})); }).what(), "3 elements"));

  nn::broadcast(processes, {a, b});
  check_values(a, {4, 2});
  check_values(b, {4});
}
