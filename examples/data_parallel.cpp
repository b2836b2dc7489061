// ctest:
// Training over several devices in one process: of every batch each has a part, or of every layer, or of the
// optimizer's state.
#include "options.h"

#include <cmath>

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

constexpr const char* kHelp = R"(data_parallel [options]: trains a small network on one device and on several.

  --devices N   4 unless given
  --steps N     batches of 96 images, 12 unless given

Example:
  data_parallel --devices 2 --steps 100
)";

constexpr int64_t kBatch = 96;

struct Net {
  nn::Conv2d first{1, 8, 3};
  nn::BatchNorm norm{8};
  nn::Linear hidden{8 * 6 * 6, 64};
  nn::Linear head{64, 10};

  Tensor operator()(const Tensor& images) const {
    return head(hidden(norm(first(images)).relu().flatten(1)).relu());
  }
  void each(auto&& visit) const {
    visit("first", first), visit("norm", norm), visit("hidden", hidden), visit("head", head);
  }
};

enum class Split { None, Batch, Layers, BatchAndState };

struct Run {
  const char* name;
  Split split;
  std::vector<float> losses = {};
  int64_t memory = 0;  // bytes on the last device, between steps
};

void place(const Net& net, Split split, const std::vector<std::string>& devices) {
  for (auto& [name, t] : nn::state_dict(net)) {
    std::optional<int64_t> axis;
    // Outputs of the first matrix stay on their devices, where the second one folds them.
    if (split == Split::Layers && name.starts_with("hidden")) axis = 0;
    if (split == Split::Layers && name == "head.weight") axis = 1;
    t.move_to_shards(devices, axis);
  }
}

void train(Run& run, std::vector<std::string> devices, int64_t steps) {
  const nn::TrainingScope training;
  const nn::ImageSet digits = nn::digits();
  if (run.split == Split::None) devices.resize(1);
  Tensor::manual_seed(1);
  const Net net;
  place(net, run.split, devices);
  nn::Adam adam(nn::parameters(net), {.lr = 3e-3});
  if (run.split == Split::BatchAndState) adam.shard_state();
  auto step = lathe::jit([&](const Tensor& images, const Tensor& labels) {
    adam.zero_grad();
    const Tensor loss = net(images).sparse_categorical_crossentropy(labels);
    loss.backward();
    adam.step(std::vector{loss});
    return loss;
  });
  const bool splits_batch = run.split == Split::Batch || run.split == Split::BatchAndState;
  const auto axis = splits_batch ? std::optional<int64_t>(0) : std::nullopt;
  for (int64_t i = 0; i < steps; i++) {
    std::vector<int64_t> which;
    for (int64_t k = 0; k < kBatch; k++) which.push_back((i * kBatch + k) % digits.size());
    const Tensor loss = step(digits.image_tensor(which).shard(devices, axis),
                             digits.label_tensor(which).shard(devices, axis));
    run.losses.push_back(loss.item<float>());
  }
  run.memory = lathe::memory_on(devices.back());
}

int compare(const example::Options& options) {
  const int64_t n = options.number("--devices", 4), steps = options.number("--steps", 12);
  if (n < 1 || kBatch % n || 64 % n) throw example::WrongUsage{"--devices has to divide 96 and 64"};
  std::vector<std::string> devices;
  for (int64_t i = 0; i < n; i++) devices.push_back(lathe::default_device().name() + ":" + std::to_string(i));
  std::vector<Run> runs = {{"one device", Split::None},
                           {"parts of the batch", Split::Batch},
                           {"parts of the layers", Split::Layers},
                           {"parts of the batch and of the optimizer's state", Split::BatchAndState}};
  bool agrees = true;
  for (Run& run : runs) {
    train(run, devices, steps);
    float most = 0;
    for (size_t i = 0; i < run.losses.size(); i++)
      most = std::max(most, std::abs(run.losses[i] - runs[0].losses[i]));
    agrees = agrees && most < 1e-3F;
    std::printf("%-48s loss %.5f, %.1e from one device; %lld bytes on the last device\n", run.name,
                run.losses.back(), most, static_cast<long long>(run.memory));
  }
  return example::expect(agrees && runs[0].losses.back() < runs[0].losses[0], "all learn the same") ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, compare); }
