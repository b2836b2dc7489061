// Inference and training of networks. Results at full size are compared with what unoptimised kernels make
// of a part of the same inputs, trainings with the same small training without optimisation.
#include "models.h"

#include "base/knobs.h"
#include "nn/optimizer.h"
#include "nn/training.h"
#include "tensor/jit.h"
#include "uop/variable.h"
#include "workload.h"

#include <cstdlib>

namespace bench {
namespace {

template <class Model>
void realize(const Model& model) {
  Tensor::realize(nn::parameters(model));
}

// `model` over `input` in each call; `part` is what of the input, and of the result, is compared.
template <class Model>
void infer(const Request& request, const std::string& name, const Model& model, const Tensor& input,
           double flops) {
  nn::pack_weights(model);
  auto step = lathe::jit([&](const Tensor& x) { return model(x); });
  Tensor result;
  const auto check = [&] {
    const lathe::KnobScope plain(lathe::Knob::NOOPT, 1);
    const Slice first{0, 1};
    require_close(result.at(first), model(input.at(first).contiguous()), 1e-4);
  };
  measure(request, name, [&] { result = step(input); }, check, {flops, "f32_peak"});
}

void resnet18(const Request& request, const std::string& name) {
  infer(request, name, ResNet18(), random_values({1, 3, 224, 224}), 2 * 1.814e9);
}

constexpr double kBlockFlops = 2.0 * 1024 * 12 * 512 * 512 + 4.0 * 4 * 256 * 256 * 512;

void block_forward(const Request& request, const std::string& name) {
  infer(request, name, Block(512, 8), random_values({4, 256, 512}), kBlockFlops);
}

// A training by Adam: a call is a step and gives the loss.
template <class Model>
class Training {
 public:
  using Loss = Tensor (*)(const Model& model, const Tensor& input);
  Training(const Model& model, Loss loss)
      : adam_((realize(model), nn::parameters(model)), lathe::nn::AdamOptions{.lr = 1e-3}),
        step_([this, model, loss](const Tensor& input) {
          adam_.zero_grad();
          const Tensor value = loss(model, input.detach());
          value.backward();
          adam_.step(std::vector{value});
          return value;
        }) {}
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  float operator()(const Tensor& input) { return step_(input).template item<float>(); }

 private:
  nn::Adam adam_;
  lathe::Jit<std::function<Tensor(const Tensor&)>> step_;
};

// Times steps over `input`. `small` is input for the same model that unoptimised kernels are done with soon.
template <class Make>
void train(const Request& request, const std::string& name, const Make& make, const Tensor& input,
           const Tensor& small, double flops) {
  const nn::TrainingScope training;
  auto model = make();
  std::vector<float> losses;
  const auto check = [&] {
    require(std::isfinite(losses.back()) && losses.back() < losses.front(),
            "the loss does not fall: first {}, last {}", losses.front(), losses.back());
    std::vector<float> three[2];
    for (const bool is_plain : {false, true}) {
      const lathe::KnobScope plain(lathe::Knob::NOOPT, is_plain ? 1 : 0);
      Tensor::manual_seed(2);
      auto twin = make();
      for (int i = 0; i < 4; i++) three[is_plain].push_back(twin(small));
    }
    for (size_t i = 0; i < three[0].size(); i++)
      require(std::abs(three[0][i] - three[1][i]) <= 2e-3 * std::abs(three[1][i]),
              "loss {} of a small training is {}, not {}", i, three[0][i], three[1][i]);
  };
  measure(request, name, [&] { losses.push_back(model(input)); }, check, {flops, "f32_peak"});
}

void block_train(const Request& request, const std::string& name) {
  const auto make = [] {
    return Training<Block>(Block(512, 8),
                           [](const Block& m, const Tensor& x) { return m(x).square().mean(); });
  };
  train(request, name, make, random_values({4, 256, 512}), random_values({1, 16, 512}), 3 * kBlockFlops);
}

// The classes that the images are of: any will do, as long as they stay.
Tensor digits_loss(const DigitsNet& net, const Tensor& images) {
  return net(images).sparse_categorical_crossentropy(Tensor::arange(images.size(0).value()) % 10);
}

void mnist_train(const Request& request, const std::string& name) {
  train(
      request, name, [] { return Training<DigitsNet>(DigitsNet(), digits_loss); },
      random_values({512, 1, 28, 28}), random_values({8, 1, 28, 28}), 2 * 512 * (3 * 13.217e6 - 0.461e6));
}

// Layers, caches and the matrices of the vocabulary; one token a step.
struct Decoder {
  explicit Decoder(const LlamaShape& s) : shape(s), norm(s.dim), head(s.dim, s.vocabulary, false) {
    realize(head);
    embedding = random_values({s.vocabulary, s.dim});
    for (int64_t i = 0; i < s.layers; i++) {
      layers.emplace_back(s);
      realize(layers.back());
      for (std::vector<Tensor>* cache : {&keys, &values})
        cache->push_back(Tensor::zeros({1, s.kv_heads, s.context, s.dim / s.heads}).realize());
    }
  }
  // token: int32 (1). The scores (vocabulary) of the next one.
  Tensor operator()(const Tensor& token, const Variable& position) const {
    Tensor x = embedding.at(token).reshape({1, 1, shape.dim});
    for (size_t i = 0; i < layers.size(); i++) x = layers[i].step(x, keys[i], values[i], position);
    return head(norm(x)).reshape({shape.vocabulary});
  }

  LlamaShape shape;
  nn::RMSNorm norm;
  nn::Linear head;
  Tensor embedding;
  std::vector<LlamaBlock> layers;
  std::vector<Tensor> keys, values;
};

Tensor scores_of_small_decoder() {
  Tensor::manual_seed(2);
  const Decoder small({64, 4, 2, 96, 2, 50, 16});
  auto step = lathe::jit([&](const Tensor& token, const Variable& at) { return small(token, at); });
  const Variable position("position", 0, small.shape.context - 1);
  Tensor scores;
  for (const int at : {0, 1, 2, 3, 4})
    scores = step(Tensor::from(std::vector<int32_t>{7 * at}).realize(), position.bind(at));
  return scores;
}

// BENCH_LAYERS in the environment makes a model that needs less memory than the 4.4 GB of 16 layers.
void decode_llama(const Request& request, const std::string& name) {
  LlamaShape shape;
  if (const char* layers = std::getenv("BENCH_LAYERS")) shape.layers = std::max(1, std::atoi(layers));
  const Decoder decoder(shape);
  auto step = lathe::jit([&](const Tensor& token, const Variable& at) { return decoder(token, at); });
  const Variable position("position", 0, shape.context - 1);
  const Tensor token = Tensor::from(std::vector<int32_t>{17}).realize();
  Tensor scores;
  const auto check = [&] {
    for (const float score : scores.to_vector<float>()) require(std::isfinite(score), "a score is {}", score);
    const Tensor got = scores_of_small_decoder();
    const lathe::KnobScope plain(lathe::Knob::NOOPT, 1);
    require_close(got, scores_of_small_decoder(), 1e-4);
  };
  const int64_t kv = shape.dim / shape.heads * shape.kv_heads;
  const int64_t layer = 2 * shape.dim * (shape.dim + kv) + 3 * shape.dim * shape.hidden;
  const std::string note = fmt::format(R"("layers":{})", shape.layers);
  measure(request, name, [&] { scores = step(token, position.bind(shape.context / 2)); }, check,
          {4.0 * static_cast<double>(shape.layers * layer + shape.dim * shape.vocabulary), "bw_read", note});
}

}  // namespace

std::vector<Workload> models() {
  return {{"resnet18_b1", resnet18},
          {"block_fwd_512_256_b4", block_forward},
          {"block_train_512_256_b4", block_train},
          {"mnist_train_b512", mnist_train},
          {"decode_llama1b", decode_llama}};
}

}  // namespace bench
