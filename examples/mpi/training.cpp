// Data-parallel training in the processes that mpirun starts: each learns from its part of every batch, and
// the gradients are averaged.
#include "options.h"
#include "runtime/mpi/mpi_collective.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

constexpr const char* kHelp =
    R"(mpirun -np N training [options]: trains on the digits of the library in N processes.

  --steps N   batches of 96 images, 40 unless given
  --check     a test: the first process trains alone as well, and the losses have to agree to 1e-4

Example:
  mpirun -np 2 build/release/examples/example_mpi_training --steps 100
)";

constexpr int64_t kBatch = 96;

struct Net {
  nn::Linear hidden{64, 64};
  nn::Linear head{64, 10};

  Tensor operator()(const Tensor& images) const { return head(hidden(images.flatten(1)).relu()); }
  void each(auto&& visit) const { visit("hidden", hidden), visit("head", head); }
};

// Mean loss of each batch.
std::vector<float> train(lathe::Collective& processes, const nn::ImageSet& set, int64_t steps) {
  const nn::TrainingScope training;
  const Net net;
  const std::vector<Tensor> tensors = nn::parameters(net);
  nn::broadcast(processes, tensors);  // processes draw different numbers
  nn::Adam adam(tensors, {.lr = 3e-3});
  auto gradients = lathe::jit([&](const Tensor& images, const Tensor& labels) {
    adam.zero_grad();
    const Tensor loss = net(images).sparse_categorical_crossentropy(labels);
    loss.backward();
    return Tensor::cat({nn::flat_gradients(tensors), loss.reshape({1})});
  });
  auto step = lathe::jit([&](const Tensor& all) {
    nn::set_gradients(tensors, all.at(lathe::Slice{0, -1}));
    adam.step();
  });
  const int64_t share = kBatch / processes.size();
  std::vector<float> losses;
  for (int64_t i = 0; i < steps; i++) {
    std::vector<int64_t> which;
    for (int64_t k = 0; k < share; k++)
      which.push_back((i * kBatch + processes.rank() * share + k) % set.size());
    const Tensor all = gradients(set.image_tensor(which), set.label_tensor(which));
    nn::average(processes, all);
    losses.push_back(all.at(-1).item<float>());
    step(all);
  }
  return losses;
}

int run(const example::Options& options, lathe::Collective& processes) {
  if (kBatch % processes.size())
    throw example::WrongUsage{"the number of processes has to divide " + std::to_string(kBatch)};
  const int64_t steps = options.number("--steps", 40);
  const nn::ImageSet digits = nn::digits();
  Tensor::manual_seed(1);
  const std::vector<float> losses = train(processes, digits, steps);
  if (processes.rank() != 0) return 0;
  std::printf("%d processes: loss %.5f at first, %.5f after %d batches\n", processes.size(), losses.front(),
              losses.back(), static_cast<int>(steps));
  if (!options.has("--check")) return 0;
  lathe::Alone alone;
  Tensor::manual_seed(1);
  const std::vector<float> expected = train(alone, digits, steps);
  float most = 0;
  for (size_t i = 0; i < losses.size(); i++) most = std::max(most, std::abs(losses[i] - expected[i]));
  std::printf("one process: loss %.5f after as many; they differ by %.1e at most\n", expected.back(), most);
  return example::expect(most < 1e-4F && losses.back() < losses.front() / 2, "both learn the same") ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::unique_ptr<lathe::Collective> processes = lathe::make_mpi_collective(&argc, &argv);
  const int code = example::run(argc, argv, kHelp,
                                [&](const example::Options& options) { return run(options, *processes); });
  if (code == 0) return 0;
  std::fflush(nullptr);
  std::_Exit(code);  // without a farewell, so that mpirun ends the others, which may wait for this one
}
