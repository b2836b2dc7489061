// ctest: --steps 300
// A variational autoencoder learns to draw the digits that come with the library (Kingma and Welling,
// "Auto-Encoding Variational Bayes", 2013).
#include "options.h"

#include <cmath>

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

constexpr const char* kHelp =
    R"(vae [options]: trains a variational autoencoder on 8x8 digits and draws new ones.

  --steps N   steps of training, 3000 unless given
  --draw N    digits to draw at the end, 6 unless given
  --seed N    of all random numbers, 1 unless given

Examples:
  vae
  vae --steps 10000 --draw 8
)";

constexpr int64_t kPixels = 64, kHidden = 128, kLatent = 8, kBatch = 64;

Tensor relu(const Tensor& x) { return x.relu(); }

struct Vae {
  // Loss of each image (batch): nats by which the bound on its probability falls short of certainty. A
  // pixel is the chance of ink.
  Tensor loss(const Tensor& images) const {
    const Tensor pixels = images.flatten(1);
    const std::vector<Tensor> code = encoder(pixels).chunk(2, -1);
    const Tensor &mean = code[0], &log_variance = code[1];
    const Tensor sample = mean + (log_variance / 2).exp() * mean.detach().randn_like();
    const Tensor missed = decoder(sample).binary_crossentropy_logits(pixels, lathe::Reduction::None).sum(-1);
    const Tensor surprise = (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1) / 2;
    return missed + surprise;
  }
  // Chances of ink (count, pixels).
  Tensor draw(int64_t count) const { return decoder(Tensor::randn({count, kLatent})).sigmoid(); }
  void each(auto&& visit) const { visit("encoder", encoder), visit("decoder", decoder); }

  nn::Sequential encoder{nn::Linear(kPixels, kHidden), relu, nn::Linear(kHidden, 2 * kLatent)};
  nn::Sequential decoder{nn::Linear(kLatent, kHidden), relu, nn::Linear(kHidden, kPixels)};
};

// The digits side by side, two characters a pixel.
std::string drawn(const std::vector<float>& pixels, size_t count) {
  constexpr std::string_view kInk = " .:-=+*#%@";
  std::string out;
  for (size_t row = 0; row < 8; row++) {
    for (size_t i = 0; i < count; i++) {
      for (size_t column = 0; column < 8; column++) {
        const float ink = pixels[i * kPixels + row * 8 + column];
        out.append(2, kInk[static_cast<size_t>(ink * static_cast<float>(kInk.size() - 1) + 0.5f)]);
      }
      out += "  ";
    }
    out += '\n';
  }
  return out;
}

int vae(const example::Options& options) {
  const int64_t steps = options.number("--steps", 3000), count = options.number("--draw", 6);
  const auto seed = static_cast<uint64_t>(options.number("--seed", 1));
  const auto [train_set, test_set] = nn::split(nn::digits(), 0.8, seed);
  const Tensor shown = train_set.image_tensor(nn::permutation(train_set.size(), seed)).realize();
  const Tensor held_out = test_set.image_tensor(nn::permutation(test_set.size(), 0)).realize();
  Tensor::manual_seed(static_cast<uint32_t>(seed));

  // An average of the weights over steps draws better than the last of them.
  const Vae net, average;
  nn::update_average(nn::parameters(average), nn::parameters(net), 0);
  const double start = lathe::now_seconds();
  {
    nn::TrainingScope training;
    nn::Adam adam(nn::parameters(net));
    const nn::LrSchedule rate = nn::one_cycle_lr(5e-3, steps);
    lathe::Progress progress("training", steps);
    for (int64_t step = 0; step < steps; step++) {
      adam.set_lr(rate(step));
      adam.zero_grad();
      const Tensor loss = net.loss(shown.at(Tensor::randint({kBatch}, 0, train_set.size())).detach()).mean();
      loss.backward();
      nn::clip_grad_norm(adam.params(), 50);
      adam.step(std::vector{loss});
      nn::update_average(nn::parameters(average), nn::parameters(net), 0.98);
      progress.update(step + 1, "loss " + std::to_string(loss.item<float>()));
    }
  }
  // The best that can be said of each pixel by itself: how often it has ink.
  const Tensor mean = shown.mean(0).clamp(1e-3, 1 - 1e-3).expand(held_out.shape());
  const double alone =
      mean.binary_crossentropy(held_out, lathe::Reduction::None).flatten(1).sum(-1).mean().item<float>();
  const double together = average.loss(held_out).mean().item<float>();
  std::printf("%.1f s; nats an image held out: %.2f, pixels by themselves %.2f\n",
              lathe::now_seconds() - start, together, alone);
  std::printf("%s", drawn(average.draw(count).to_vector<float>(), static_cast<size_t>(count)).c_str());
  return example::expect(together < alone, "the network knows what pixels by themselves do not tell") ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, vae); }
