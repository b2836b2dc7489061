// Trains a small convolutional network on the handwritten digits that come with the library, and lets the
// language model that comes with it write.
#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "engine/realize.h"
#include "formats/safetensors.h"
#include "lathe/command.h"
#include "lathe/number_check.h"
#include "llm/embedded_model.h"
#include "nn/datasets.h"
#include "nn/layers.h"
#include "nn/optimizer.h"
#include "nn/state.h"
#include "nn/training.h"
#include "tensor/jit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>

namespace lathe::command {
namespace {

constexpr int64_t kBatch = 64;
constexpr double kTrainFraction = 0.8;
constexpr double kMoved = 0.6;  // part of the digits that are shown a pixel off
constexpr int kShown = 6;

struct Options {
  int epochs = 20;
  uint32_t seed = 1;
  double learning_rate = 8e-3;
  std::string save;
  bool json = false;
};

struct DigitNet {
  nn::Conv2d first{1, 8, 3, {.padding = "same"}};
  nn::Conv2d second{8, 32, 3, {.padding = "same"}};
  nn::Linear head{32 * 4 * 4, 10};

  Tensor operator()(const Tensor& images) const {
    const Tensor features = second(first(images).relu()).relu().max_pool2d();
    return head(features.flatten(1));
  }
  void each(auto&& visit) const {
    visit("first", first);
    visit("second", second);
    visit("head", head);
  }
};

int64_t count_right(const std::vector<float>& logits, const nn::ImageSet& set,
                    std::span<const int64_t> which) {
  const size_t classes = logits.size() / which.size();
  int64_t right = 0;
  for (size_t i = 0; i < which.size(); i++) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * classes);
    const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row;
    right += best == set.labels[static_cast<size_t>(which[i])];
  }
  return right;
}

// One epoch of `learn`, which takes images and labels and returns loss and logits; `report` hears of each
// step: its number, the mean loss and the part of right answers so far.
template <class L, class F>
void train_epoch(L& learn, const nn::ImageSet& set, uint64_t seed, F&& report) {
  // Every batch has the same size, so that the step is captured once; each order leaves out other images.
  const std::vector<int64_t> order = nn::permutation(set.size(), seed);
  const nn::ImageSet shown = nn::jittered(set, kMoved, seed);
  double loss_sum = 0, right = 0;
  for (int64_t step = 0; step < set.size() / kBatch; step++) {
    const auto which =
        std::span(order).subspan(static_cast<size_t>(step * kBatch), static_cast<size_t>(kBatch));
    const auto [loss, logits] = learn(shown.image_tensor(which), shown.label_tensor(which));
    loss_sum += loss.template item<float>();
    right += static_cast<double>(count_right(logits.template to_vector<float>(), shown, which));
    const double done = static_cast<double>(step + 1);
    report(step, loss_sum / done, right / (done * static_cast<double>(kBatch)));
  }
}

void train(const DigitNet& net, const nn::ImageSet& set, const Options& options) {
  nn::TrainingScope training;
  nn::AdamW adam(nn::parameters(net), {.lr = options.learning_rate, .weight_decay = 0.02});
  auto learn = jit([&](const Tensor& images, const Tensor& labels) {
    adam.zero_grad();
    const Tensor logits = net(images);
    const Tensor loss = logits.sparse_categorical_crossentropy(labels);
    loss.backward();
    adam.step(std::vector{loss, logits});
    return std::pair(loss, logits);
  });
  const int64_t steps = set.size() / kBatch;
  Progress progress("training", options.epochs * steps);
  for (int epoch = 0; epoch < options.epochs; epoch++) {
    // Falls in a line to 0 over the last two thirds.
    const double left = 1 - static_cast<double>(epoch) / options.epochs;
    adam.lr.assign(
        Tensor::from<float>({static_cast<float>(options.learning_rate * std::min(1.0, 1.5 * left))}));
    train_epoch(learn, set, options.seed + 1000u * static_cast<uint64_t>(epoch + 1),
                [&](int64_t step, double loss, double accuracy) {
                  progress.update(
                      epoch * steps + step + 1,
                      fmt::format("epoch {} loss {:.3f} accuracy {:.1f} %", epoch + 1, loss, 100 * accuracy));
                });
  }
}

void save_and_reload(const DigitNet& trained, const DigitNet& fresh, const std::string& path) {
  safe_save(nn::state_dict(trained), path, {{"model", "lathe demo"}});
  nn::load_state_dict(fresh, safe_load(path));
}

// As `save_and_reload`, by way of a file that does not stay.
void save_and_reload_in_passing(const DigitNet& trained, const DigitNet& fresh) {
  std::string folder = (std::filesystem::temp_directory_path() / "lathe-demo-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) user_runtime_error("cannot create {}", folder);
  struct Removal {
    const std::string& folder;
    ~Removal() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  } removal{folder};
  save_and_reload(trained, fresh, folder + "/digits.safetensors");
}

// The first digits of the set side by side, two characters a pixel, with what the network takes them for.
std::string draw(const nn::ImageSet& set, const std::vector<int32_t>& predicted, int count) {
  constexpr std::string_view kInk = " .:-=+*#%@";
  std::string out;
  for (int64_t row = 0; row < set.rows; row++) {
    for (int i = 0; i < count; i++) {
      for (int64_t column = 0; column < set.columns; column++) {
        const int pixel = set.image(i)[static_cast<size_t>(row * set.columns + column)];
        out.append(2,
                   kInk[static_cast<size_t>(pixel) * (kInk.size() - 1) / static_cast<size_t>(set.max_pixel)]);
      }
      out += "  ";
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  }
  for (int i = 0; i < count; i++) {
    const auto at = static_cast<size_t>(i);
    out += fmt::format("{:<18}", fmt::format("{}, is {}{}", predicted[at], set.labels[at],
                                             predicted[at] == set.labels[at] ? "" : "  WRONG"));
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

// A few words of the language model, as they come.
void write_a_little(uint32_t seed) {
  constexpr const char* kPrompt = "It was a cold morning, and";
  LanguageModel model = load_language_model("");
  fmt::print(
      "\nA language model of {:.1f} MB that was trained with lathe (data/model) goes on with \"{}\":\n\n{}",
      1e-6 * static_cast<double>(embedded_model_bytes().size()), kPrompt, kPrompt);
  GenerateOptions options;
  options.max_tokens = 48;
  options.sampling.temperature = 0.7f;
  options.sampling.top_p = 0.9f;
  options.sampling.seed = seed;
  StreamDecoder decoder(model.tokenizer(), {}, true);
  const auto say = [](const std::string& text) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  const GenerateResult result =
      model.generate(model.tokenizer().encode(kPrompt), options, [&](const GeneratedToken& token) {
        if (!token.is_end) say(decoder.push(token.id));
        return true;
      });
  say(decoder.finish());
  fmt::print("\n\n{:.0f} tokens/s; `lathe run` and `lathe chat` have more of it.\n",
             static_cast<double>(result.ids.size()) / std::max(result.decode_seconds, 1e-9));
}

void run_demo(const Options& options) {
  const nn::ImageSet digits = nn::digits();
  const auto [train_set, test_set] = nn::split(digits, kTrainFraction, options.seed);
  Tensor::manual_seed(options.seed);
  const DigitNet net;
  Tensor::realize(nn::parameters(net));
  int64_t weights = 0;
  for (const Tensor& t : nn::parameters(net)) weights += t.numel().value();
  auto say = [&](const std::string& line) {
    if (options.json) return;
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
  };
  say(fmt::format("{} handwritten digits of {}x{} pixels: {} to learn from, {} to be tested with.",
                  digits.size(), digits.rows, digits.columns, train_set.size(), test_set.size()));
  say(fmt::format("A convolutional network of {} weights on {}, {} epochs of batches of {}.", weights,
                  default_device_name(), options.epochs, kBatch));

  const double start = now_seconds();
  train(net, train_set, options);
  const double seconds = now_seconds() - start;
  say(fmt::format("Trained for {:.1f} s.", seconds));

  const DigitNet fresh;
  if (options.save.empty())
    save_and_reload_in_passing(net, fresh);
  else
    save_and_reload(net, fresh, options.save);
  say(fmt::format("Weights saved{} and loaded into a fresh network; what it takes test digits for:\n",
                  options.save.empty() ? "" : " to " + options.save));

  std::vector<int64_t> all(static_cast<size_t>(test_set.size()));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int32_t> predicted = fresh(test_set.image_tensor(all)).argmax(-1).to_vector<int32_t>();
  int64_t right = 0;
  for (size_t i = 0; i < predicted.size(); i++) right += predicted[i] == test_set.labels[i];
  const double accuracy = static_cast<double>(right) / static_cast<double>(test_set.size());
  say(draw(test_set, predicted, std::min<int>(kShown, static_cast<int>(test_set.size()))));
  say(fmt::format("test accuracy {:.1f} %", 100 * accuracy));
  if (options.json) {
    const nlohmann::ordered_json answer{{"test_accuracy", accuracy},        {"test_digits", test_set.size()},
                                        {"train_digits", train_set.size()}, {"weights", weights},
                                        {"epochs", options.epochs},         {"train_seconds", seconds}};
    std::printf("%s\n", answer.dump(2).c_str());
  } else {
    write_a_little(options.seed);
  }
}

}  // namespace

void add_demo(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo",
                                         "Trains a small convolutional network on 1,797 handwritten digits "
                                         "and shows what it sees; then a language "
                                         "model writes a little.");
  auto options = std::make_shared<Options>();
  command->add_option("--epochs", options->epochs, "Times every digit is learned from")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the split, the weights and the order")
      ->capture_default_str();
  command->add_option("--lr", options->learning_rate, "Learning rate of Adam")
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("--save", options->save, "Keep the weights in this safetensors file")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print one JSON document instead");
  command->footer(
      "Examples:\n"
      "  lathe demo\n"
      "  lathe demo --epochs 2 --save digits.safetensors\n"
      "  DEV=CPU:C lathe demo --json");
  command->callback([options] { run_demo(*options); });
}

}  // namespace lathe::command
