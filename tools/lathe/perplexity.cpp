#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "lathe/command.h"
#include "lathe/model_options.h"
#include "lathe/number_check.h"
#include "lathe/read_text.h"
#include "llm/likelihood.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace lathe::command {
namespace {

struct Options {
  ModelArguments model;
  std::string text;
  int64_t window = 512, windows = 0;
  bool as_json = false;
};

void perplexity(const Options& options) {
  LanguageModel model = options.model.load();
  const std::vector<int32_t> tokens = model.tokenizer().encode(read_text(options.text));
  const int64_t window = std::min(options.window, model.context());
  const int64_t all = static_cast<int64_t>(tokens.size()) / window;
  const int64_t most = options.windows > 0 ? std::min(options.windows, all) : all;
  Progress progress("perplexity", most);
  const LossMean mean = measure_perplexity(model, tokens, window, [&](int64_t index, const LossMean& so_far) {
    const std::string value = fmt::format("{:.4f} ± {:.4f}", so_far.perplexity(), so_far.error());
    progress.update(index + 1, value);
    if (!options.as_json) {
      fmt::print("[{}] {}\n", index + 1, value);
      std::fflush(stdout);
    }
    return index + 1 < most;
  });
  progress.finish();
  if (options.as_json) {
    const nlohmann::ordered_json answer{{"perplexity", mean.perplexity()},
                                        {"error", mean.error()},
                                        {"loss", mean.mean()},
                                        {"scored", mean.count()},
                                        {"tokens", tokens.size()},
                                        {"window", window},
                                        {"windows", most}};
    std::printf("%s\n", answer.dump(2).c_str());
    return;
  }
  fmt::print("perplexity {:.4f} ± {:.4f} over {} tokens in windows of {}\n", mean.perplexity(), mean.error(),
             mean.count(), window);
}

}  // namespace

void add_perplexity(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "perplexity", "How well a language model predicts a text: the perplexity of llama.cpp's protocol.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*command);
  command->add_option("-f,--file", options->text, "The text; - is standard input")->required();
  command
      ->add_option("-w,--window", options->window, "Tokens of a window, the second half of which is scored")
      ->check(CLI::Range(int64_t{4}, int64_t{1} << 24))
      ->capture_default_str();
  command->add_option("--windows", options->windows, "Most windows; 0 is the whole text")
      ->check(not_negative());
  command->add_flag("--json", options->as_json, "Print one JSON document instead");
  command->footer(
      "Examples:\n"
      "  lathe perplexity -f text.txt\n"
      "  lathe perplexity -m model.gguf -f wiki.test.raw --windows 20\n"
      "  lathe perplexity -m model.gguf -f text.txt --json | jq .perplexity");
  command->callback([options] { perplexity(*options); });
}

}  // namespace lathe::command
