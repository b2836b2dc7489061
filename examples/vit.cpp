// ctest: --steps 150 --blocks 1
// A vision transformer: images cut into patches, which attend to each other. It learns the digits that come
// with the library.
#include "options.h"

#include <cmath>

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

constexpr const char* kHelp =
    R"(vit [options]: trains a vision transformer on 8x8 digits and reports its accuracy on those held out.

  --steps N    steps of training, 800 unless given
  --blocks N   blocks of attention, 2 unless given
  --seed N     of all random numbers, 1 unless given

Examples:
  vit
  vit --steps 2000
)";

constexpr int64_t kPatch = 2, kPatches = 16, kDim = 32, kHeads = 4, kBatch = 128;

struct Block {
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + attention(attention_norm(x));
    return y + mlp(mlp_norm(y));
  }
  void each(auto&& visit) const {
    visit("attention_norm", attention_norm), visit("attention", attention);
    visit("mlp_norm", mlp_norm), visit("mlp", mlp);
  }
  nn::LayerNorm attention_norm{kDim}, mlp_norm{kDim};
  nn::MultiheadAttention attention{kDim, kHeads};
  nn::Sequential mlp{nn::Linear(kDim, 2 * kDim), [](const Tensor& x) { return x.gelu(); },
                     nn::Linear(2 * kDim, kDim)};
};

struct VisionTransformer {
  explicit VisionTransformer(int64_t count) : blocks(static_cast<size_t>(count)) {}
  // (batch, 1, height, width) to (batch, patches, dim).
  Tensor embedded(const Tensor& images) const { return patches(images).flatten(2).transpose(1, 2); }
  // (batch, patches, dim) to (batch, 10).
  Tensor classified(Tensor x) const {
    for (const Block& block : blocks) x = block(x);
    return head(norm(x).mean(1));
  }
  Tensor operator()(const Tensor& images) const { return classified(embedded(images) + positions); }
  void each(auto&& visit) const {
    visit("patches", patches), visit("positions", positions), visit("blocks", blocks);
    visit("norm", norm), visit("head", head);
  }
  nn::Conv2d patches{1, kDim, kPatch, {.stride = kPatch}};
  Tensor positions = Tensor::normal({kPatches, kDim}, 0, 0.02);
  std::vector<Block> blocks;
  nn::LayerNorm norm{kDim};
  nn::Linear head{kDim, 10};
};

// The largest difference, where the largest element counts as 1.
double difference(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / a.abs().max()).item<float>();
}

double accuracy(const VisionTransformer& net, const nn::ImageSet& set) {
  const std::vector<int64_t> all = nn::permutation(set.size(), 0);
  return net(set.image_tensor(all)).argmax(-1).eq(set.label_tensor(all)).to_float().mean().item<float>();
}

std::vector<float> train(const VisionTransformer& net, const nn::ImageSet& set, int64_t steps,
                         uint64_t seed) {
  nn::TrainingScope training;
  nn::AdamW adam(nn::parameters(net), {.weight_decay = 0.05});
  const nn::LrSchedule rate = nn::warmup(steps / 10, nn::cosine_lr(8e-3, steps - steps / 10));
  lathe::Progress progress("training", steps);
  std::vector<float> losses;
  std::vector<int64_t> order;
  for (int64_t step = 0; step < steps; step++) {
    if (order.size() < kBatch) order = nn::permutation(set.size(), seed + static_cast<uint64_t>(step));
    const std::vector<int64_t> which(order.end() - kBatch, order.end());
    order.resize(order.size() - kBatch);
    adam.set_lr(rate(step));
    adam.zero_grad();
    const Tensor loss = net(set.image_tensor(which)).sparse_categorical_crossentropy(set.label_tensor(which));
    loss.backward();
    adam.step(std::vector{loss});
    losses.push_back(loss.item<float>());
    progress.update(step + 1, "loss " + std::to_string(losses.back()));
  }
  return losses;
}

// Cutting into patches is a convolution without overlap, or an arrangement and a product.
bool embeds_patches(const VisionTransformer& net, const Tensor& images) {
  const Tensor patches =
      images.rearrange("b c (h p) (w q) -> b (h w) (c p q)", {{"p", kPatch}, {"q", kPatch}});
  const Tensor products = patches.linear(net.patches.weight.flatten(1).transpose(), net.patches.bias);
  return difference(net.embedded(images), products) < 1e-5;
}

// Without positions the order of the patches means nothing.
bool ignores_order(const VisionTransformer& net, const Tensor& images) {
  const Tensor x = net.embedded(images);
  return difference(net.classified(x), net.classified(x.flip(1))) < 1e-4;
}

int vit(const example::Options& options) {
  const int64_t steps = options.number("--steps", 800);
  const auto seed = static_cast<uint64_t>(options.number("--seed", 1));
  const auto [train_set, test_set] = nn::split(nn::digits(), 0.8, seed);
  Tensor::manual_seed(static_cast<uint32_t>(seed));
  const VisionTransformer net(options.number("--blocks", 2));
  Tensor::realize(nn::parameters(net));
  const double start = lathe::now_seconds();
  const std::vector<float> losses = train(net, train_set, steps, seed);
  const double reached = accuracy(net, test_set);
  std::printf("%.1f s; loss %.3f, then %.3f; %.1f %% of the digits held out\n", lathe::now_seconds() - start,
              losses.front(), losses.back(), 100 * reached);
  const Tensor images = test_set.image_tensor(nn::permutation(8, 0));
  bool is_right = example::expect(reached > 0.8, "more than 80 % of the digits held out are right");
  is_right &= example::expect(embeds_patches(net, images), "a convolution embeds the patches");
  is_right &= example::expect(ignores_order(net, images), "without positions order means nothing");
  return is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, vit); }
