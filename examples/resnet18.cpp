// ctest: --train-size 64
// ResNet-18 in one file: a step of training, then a prediction, with batch norms and with these folded into
// the convolutions.
#include "options.h"

#include <algorithm>
#include <cmath>

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

constexpr const char* kHelp =
    R"(resnet18 [options] [FILE]: a step of training and a prediction with ResNet-18.

  FILE             weights (.safetensors, with the names torchvision gives them); random ones unless given
  --batch N        images, 1 unless given
  --size N         pixels of an image along both axes, 224 unless given
  --train-size N   the same for the images it trains on

Examples:
  resnet18 --batch 8
  resnet18 resnet18.safetensors
)";

// A convolution with its batch norm: how a network computes the two is left to whoever calls it.
using ConvNorm = Tensor (*)(const Tensor& x, const nn::Conv2d& conv, const nn::BatchNorm2d& norm);

struct BasicBlock {
  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1(in, out, 3, {.stride = stride, .padding = 1, .bias = false}),
        conv2(out, out, 3, {.padding = 1, .bias = false}),
        bn1(out),
        bn2(out) {
    if (stride != 1 || in != out)
      downsample.emplace(nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}), out);
  }
  Tensor operator()(const Tensor& x, ConvNorm apply) const {
    const Tensor y = apply(apply(x, conv1, bn1).relu(), conv2, bn2);
    return (y + (downsample ? apply(x, std::get<0>(*downsample), std::get<1>(*downsample)) : x)).relu();
  }
  void each(auto&& visit) const {
    visit("conv1", conv1), visit("bn1", bn1), visit("conv2", conv2), visit("bn2", bn2);
    visit("downsample", downsample);
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  std::optional<std::tuple<nn::Conv2d, nn::BatchNorm2d>> downsample;
};

struct ResNet18 {
  explicit ResNet18(int64_t classes = 1000) : fc(512, classes) {}
  // (batch, 3, height, width) to (batch, classes).
  Tensor operator()(const Tensor& images, ConvNorm apply) const {
    Tensor x = apply(images, conv1, bn1).relu().max_pool2d({3, 3}, {.stride = 2, .padding = 1});
    for (const auto* layer : {&layer1, &layer2, &layer3, &layer4})
      for (const BasicBlock& block : *layer) x = block(x, apply);
    return fc(x.mean({2, 3}));
  }
  void each(auto&& visit) const {
    visit("conv1", conv1), visit("bn1", bn1);
    visit("layer1", layer1), visit("layer2", layer2), visit("layer3", layer3), visit("layer4", layer4);
    visit("fc", fc);
  }
  using Layer = std::array<BasicBlock, 2>;
  nn::Conv2d conv1{3, 64, 7, {.stride = 2, .padding = 3, .bias = false}};
  nn::BatchNorm2d bn1{64};
  Layer layer1{BasicBlock(64, 64, 1), BasicBlock(64, 64, 1)};
  Layer layer2{BasicBlock(64, 128, 2), BasicBlock(128, 128, 1)};
  Layer layer3{BasicBlock(128, 256, 2), BasicBlock(256, 256, 1)};
  Layer layer4{BasicBlock(256, 512, 2), BasicBlock(512, 512, 1)};
  nn::Linear fc;
};

Tensor in_turn(const Tensor& x, const nn::Conv2d& conv, const nn::BatchNorm2d& norm) { return norm(conv(x)); }

// The same in evaluation, where a batch norm is a factor and a number added for each channel.
Tensor folded(const Tensor& x, const nn::Conv2d& conv, const nn::BatchNorm2d& norm) {
  const Tensor factor = *norm.weight * (*norm.running_var + norm.options.eps).rsqrt();
  return x.conv2d(conv.weight * factor.reshape({-1, 1, 1, 1}), *norm.bias - *norm.running_mean * factor,
                  conv.options);
}

int resnet18(const example::Options& options) {
  const int64_t size = options.number("--size", 224), batch = options.number("--batch", 1);
  Tensor::manual_seed(1);
  const ResNet18 net;
  if (const auto file = options.path()) nn::load_state_dict(net, lathe::safe_load(*file));
  const std::vector<Tensor> tensors = nn::parameters(net);
  Tensor::realize(tensors);
  const int64_t train_size = options.number("--train-size", size);
  const Tensor train_images = Tensor::randn({batch, 3, train_size, train_size}).realize();
  const Tensor labels = Tensor::randint({batch}, 0, 1000).realize();

  double start = lathe::now_seconds();
  auto lap = [&](const char* what) {
    const double now = lathe::now_seconds();
    std::printf("%-24s %.2f s\n", what, now - start);
    std::fflush(stdout);
    start = now;
  };
  double losses[2];
  Tensor norm;
  {
    nn::TrainingScope training;
    nn::SGD sgd(tensors, {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4});
    for (double& loss_value : losses) {
      sgd.zero_grad();
      const Tensor loss = net(train_images.detach(), in_turn).sparse_categorical_crossentropy(labels);
      loss.backward();
      norm = nn::clip_grad_norm(tensors, 10);
      sgd.step(std::vector{loss, norm});
      loss_value = loss.item<float>();
      lap("a step of training");
    }
  }
  std::printf("loss %.4f, then %.4f\n", losses[0], losses[1]);

  const Tensor images = Tensor::randn({batch, 3, size, size}).realize();
  const Tensor logits = net(images, in_turn).realize();
  lap("prediction");
  const Tensor other = net(images, folded).realize();
  lap("prediction, folded");
  const double difference = (logits - other).abs().max().item<float>();
  const double largest = logits.abs().max().item<float>();
  std::printf("class %d; folded batch norms change logits of up to %.2f by up to %.1e\n",
              logits.argmax(-1).to_vector<int32_t>()[0], largest, difference);
  bool is_right = example::expect(std::isfinite(norm.item<float>()), "gradients are finite");
  is_right &= example::expect(losses[1] < losses[0], "the loss of the same images falls");
  is_right &= example::expect(difference < 1e-3 * largest, "folding batch norms changes nothing");
  return is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, resnet18); }
