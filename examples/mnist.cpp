// ctest: --short
// mnist [--short] [FOLDER]: trains a small convolutional network on the MNIST files of a folder (those of
// ../shared/data/mnist unless given) and reports its accuracy on the images held out. With --short it sees
// only the first images, as a test.
#include <lathe/lathe.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

constexpr int kSkipped = 77;  // what ctest takes for skipped
constexpr int64_t kBatch = 100;
constexpr float kRate = 3e-3f;
constexpr double kMoved = 0.5;  // part of the digits that are shown a pixel off

struct Net {
  nn::Conv2d first{1, 16, 5};
  nn::Conv2d second{16, 32, 5};
  nn::Linear head{32 * 4 * 4, 10};

  Tensor operator()(const Tensor& images) const {
    const Tensor features = second(first(images).relu().max_pool2d()).relu().max_pool2d();
    return head(features.flatten(1));
  }
  void each(auto&& visit) const {
    visit("first", first);
    visit("second", second);
    visit("head", head);
  }
};

void train_epoch(const Net& net, nn::Optimizer& optimizer, const nn::ImageSet& set, int64_t steps,
                 uint64_t seed) {
  nn::TrainingScope training;
  lathe::Progress progress("training", steps);
  const std::vector<int64_t> order = nn::permutation(set.size(), seed);
  const nn::ImageSet shown = nn::jittered(set, kMoved, seed);
  for (int64_t step = 0; step < steps; step++) {
    const auto which =
        std::span(order).subspan(static_cast<size_t>(step * kBatch), static_cast<size_t>(kBatch));
    optimizer.zero_grad();
    const Tensor loss =
        net(shown.image_tensor(which)).sparse_categorical_crossentropy(shown.label_tensor(which));
    loss.backward();
    optimizer.step(std::vector{loss});
    progress.update(step + 1, "loss " + std::to_string(loss.item<float>()));
  }
}

double accuracy(const Net& net, const nn::ImageSet& set) {
  int64_t right = 0;
  const std::vector<int64_t> all = nn::permutation(set.size(), 0);
  for (int64_t at = 0; at + kBatch <= set.size(); at += kBatch) {
    const auto which = std::span(all).subspan(static_cast<size_t>(at), static_cast<size_t>(kBatch));
    const std::vector<int32_t> predicted = net(set.image_tensor(which)).argmax(-1).to_vector<int32_t>();
    for (size_t i = 0; i < predicted.size(); i++)
      right += predicted[i] == set.labels[static_cast<size_t>(which[i])];
  }
  return static_cast<double>(right) / static_cast<double>(set.size() / kBatch * kBatch);
}

int run(const std::string& folder, bool is_short) {
  const nn::Mnist mnist = nn::load_mnist(folder);
  Tensor::manual_seed(1);
  const Net net;
  Tensor::realize(nn::parameters(net));
  nn::AdamW adam(nn::parameters(net), {.lr = kRate, .weight_decay = 0.02});
  const int epochs = is_short ? 1 : 5;
  const int64_t steps = is_short ? 60 : mnist.train.size() / kBatch;
  for (int epoch = 0; epoch < epochs; epoch++) {
    // Falls to 0 in a line.
    const float left = 1 - static_cast<float>(epoch) / static_cast<float>(epochs);
    adam.lr.assign(Tensor::from<float>({kRate * left}));
    const double start = lathe::now_seconds();
    train_epoch(net, adam, mnist.train, steps, static_cast<uint64_t>(epoch + 1));
    const double seconds = lathe::now_seconds() - start;
    std::printf("epoch %d: %.1f s, held-out accuracy %.2f %%\n", epoch + 1, seconds,
                100 * accuracy(net, mnist.test));
    std::fflush(stdout);
  }
  const double reached = accuracy(net, mnist.test), wanted = is_short ? 0.85 : 0.985;
  if (reached < wanted) std::printf("less than %.1f %%\n", 100 * wanted);
  return reached < wanted ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool is_short = false;
  std::string folder;
  for (int i = 1; i < argc; i++) {
    if (std::string_view(argv[i]) == "--short")
      is_short = true;
    else
      folder = argv[i];
  }
  if (folder.empty()) {
    const char* data = std::getenv("LATHE_DATA");
    folder = std::string(data != nullptr ? data : "../shared/data") + "/mnist";
    if (!std::filesystem::is_directory(folder)) {
      std::printf("skipped: ../shared/data not found\n");
      return kSkipped;
    }
  }
  try {
    return run(folder, is_short);
  } catch (const lathe::Error& error) {
    std::fprintf(stderr, "mnist: %s\n", error.what());
    return 1;
  }
}
