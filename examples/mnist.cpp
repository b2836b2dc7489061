// ctest: --short
// A small convolutional network learns the digits of MNIST.
#include "options.h"

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

constexpr const char* kHelp =
    R"(mnist [options] [FOLDER]: trains a small convolutional network and reports its accuracy on images held out.

  FOLDER       with the MNIST files; ../shared/data/mnist unless given
  --epochs N   how often it sees every image, 5 unless given
  --short      a test: one epoch of the first images

Examples:
  mnist --epochs 10
  mnist ~/data/mnist
)";

constexpr int64_t kBatch = 100;
constexpr double kRate = 3e-3;
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

// `step` takes images and labels of a batch, learns from them and returns the loss.
void train_epoch(auto& step, const nn::ImageSet& set, int64_t steps, uint64_t seed) {
  nn::TrainingScope training;
  lathe::Progress progress("training", steps);
  const std::vector<int64_t> order = nn::permutation(set.size(), seed);
  const nn::ImageSet shown = nn::jittered(set, kMoved, seed);
  for (int64_t i = 0; i < steps; i++) {
    const auto which = std::span(order).subspan(static_cast<size_t>(i * kBatch), static_cast<size_t>(kBatch));
    const Tensor loss = step(shown.image_tensor(which), shown.label_tensor(which));
    progress.update(i + 1, "loss " + std::to_string(loss.item<float>()));
  }
}

double accuracy(auto& predict, const nn::ImageSet& set) {
  int64_t right = 0;
  const std::vector<int64_t> all = nn::permutation(set.size(), 0);
  for (int64_t at = 0; at + kBatch <= set.size(); at += kBatch) {
    const auto which = std::span(all).subspan(static_cast<size_t>(at), static_cast<size_t>(kBatch));
    const std::vector<int32_t> predicted = predict(set.image_tensor(which)).template to_vector<int32_t>();
    for (size_t i = 0; i < predicted.size(); i++)
      right += predicted[i] == set.labels[static_cast<size_t>(which[i])];
  }
  return static_cast<double>(right) / static_cast<double>(set.size() / kBatch * kBatch);
}

int mnist(const example::Options& options) {
  const auto folder = options.path_or_data("mnist");
  if (!folder) return example::kSkipped;
  const bool is_short = options.has("--short");
  const nn::Mnist mnist = nn::load_mnist(*folder);
  Tensor::manual_seed(1);
  const Net net;
  Tensor::realize(nn::parameters(net));
  nn::AdamW adam(nn::parameters(net), {.lr = kRate, .weight_decay = 0.02});
  auto step = lathe::jit([&](const Tensor& images, const Tensor& labels) {
    adam.zero_grad();
    const Tensor loss = net(images).sparse_categorical_crossentropy(labels);
    loss.backward();
    adam.step(std::vector{loss});
    return loss;
  });
  auto predict = lathe::jit([&](const Tensor& images) { return net(images).argmax(-1); });
  const int64_t epochs = is_short ? 1 : options.number("--epochs", 5);
  const int64_t steps = is_short ? 60 : mnist.train.size() / kBatch;
  const nn::LrSchedule rate = nn::linear_lr(kRate, 0, std::max<int64_t>(epochs, 1));
  for (int64_t epoch = 0; epoch < epochs; epoch++) {
    adam.set_lr(rate(epoch));
    const double start = lathe::now_seconds();
    train_epoch(step, mnist.train, steps, static_cast<uint64_t>(epoch + 1));
    const double seconds = lathe::now_seconds() - start;
    std::printf("epoch %d: %.1f s, held-out accuracy %.2f %%\n", static_cast<int>(epoch + 1), seconds,
                100 * accuracy(predict, mnist.test));
    std::fflush(stdout);
  }
  const bool is_right = accuracy(predict, mnist.test) > (epochs < 5 ? 0.85 : 0.985);
  return example::expect(is_right, "the accuracy is what so many epochs reach") ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, mnist); }
