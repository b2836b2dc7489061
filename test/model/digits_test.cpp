// Training from end to end on real data.
#include "formats/safetensors.h"
#include "nn/datasets.h"
#include "nn/layers.h"
#include "nn/optimizer.h"
#include "nn/state.h"
#include "nn/training.h"

#include <algorithm>
#include <numeric>

#include "support/test.h"

using namespace lathe;

namespace {

constexpr int64_t kBatch = 64;

// Every kind of layer that has a state of its own in training.
struct Net {
  nn::Conv2d conv{1, 16, 3, {.padding = "same", .bias = false}};
  nn::BatchNorm norm{16};
  nn::Dropout dropout{0.1};
  nn::Linear head{16 * 4 * 4, 10};

  Tensor operator()(const Tensor& images) const {
    return head(dropout(norm(conv(images)).relu().max_pool2d().flatten(1)));
  }
  void each(auto&& visit) const {
    visit("conv", conv);
    visit("norm", norm);
    visit("head", head);
  }
};

std::vector<float> train(const Net& net, const nn::ImageSet& set, int epochs) {
  nn::TrainingScope training;
  nn::AdamW adam(nn::parameters(net), {.lr = 5e-3, .weight_decay = 0.01});
  std::vector<float> losses;
  for (int epoch = 0; epoch < epochs; epoch++) {
    const std::vector<int64_t> order = nn::permutation(set.size(), static_cast<uint64_t>(epoch));
    for (int64_t at = 0; at + kBatch <= set.size(); at += kBatch) {
      const auto which = std::span(order).subspan(static_cast<size_t>(at), static_cast<size_t>(kBatch));
      adam.zero_grad();
      const Tensor loss =
          net(set.image_tensor(which)).sparse_categorical_crossentropy(set.label_tensor(which));
      loss.backward();
      adam.step(std::vector{loss});
      losses.push_back(loss.item<float>());
    }
  }
  return losses;
}

std::vector<float> logits(const Net& net, const nn::ImageSet& set) {
  std::vector<int64_t> all(static_cast<size_t>(set.size()));
  std::iota(all.begin(), all.end(), 0);
  return net(set.image_tensor(all)).to_vector<float>();
}

double accuracy(const std::vector<float>& logits, const nn::ImageSet& set) {
  int right = 0;
  for (size_t i = 0; i < set.labels.size(); i++) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(10 * i);
    right += std::max_element(row, row + 10) - row == set.labels[i];
  }
  return right / static_cast<double>(set.size());
}

}  // namespace

TEST_CASE("a network learns the digits and survives a file") {
  const auto [train_set, test_set] = nn::split(nn::digits(), 0.8, 1);
  Tensor::manual_seed(1);
  const Net net;
  CHECK(accuracy(logits(net, test_set), test_set) < 0.4);
  const std::vector<float> losses = train(net, train_set, 5);
  CHECK(losses.front() > 2);
  CHECK(losses.back() < 0.3);
  CHECK(net.norm.num_batches_tracked->item<int64_t>() == static_cast<int64_t>(losses.size()));
  const std::vector<float> trained = logits(net, test_set);
  CHECK(accuracy(trained, test_set) > 0.95);

  test::TempDir dir;
  safe_save(nn::state_dict(net), dir.file("net.safetensors"));
  const Net fresh;
  nn::load_state_dict(fresh, safe_load(dir.file("net.safetensors")));
  CHECK(logits(fresh, test_set) == trained);
}

TEST_CASE("training is reproducible by seed") {
  const nn::ImageSet set = nn::split(nn::digits(), 0.8, 1).first;
  std::vector<std::vector<float>> runs;
  for (uint32_t seed : {5u, 5u, 6u}) {
    Tensor::manual_seed(seed);
    const Net net;
    runs.push_back(train(net, set, 1));
  }
  CHECK(runs[0] == runs[1]);
  CHECK(runs[0] != runs[2]);
}
