#include "lathe/command.h"
#include "lathe/model_options.h"
#include "lathe/sampling_options.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace lathe::command {
namespace {

struct Options {
  ModelArguments model;
  std::string prompt;
  int64_t count = 128;
  SamplingArguments sampling;
  bool print_ids = false, as_json = false, ignore_end = false, parse_special = false;
};

double rate(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

void run(const Options& options) {
  LanguageModel model = options.model.load();
  const Tokenizer& tokenizer = model.tokenizer();
  const std::vector<int32_t> prompt =
      tokenizer.encode(options.prompt, {.add_special = true, .parse_special = options.parse_special});
  const bool streams = !options.as_json && !options.print_ids;
  StreamDecoder decoder(tokenizer, {}, !options.prompt.empty());
  std::string text;
  const auto emit = [&](const std::string& piece) {
    text += piece;
    if (!streams) return;
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  if (streams) emit(options.prompt);
  text.clear();
  GenerateOptions generate;
  generate.max_tokens = options.count;
  generate.stop_at_end = !options.ignore_end;
  generate.sampling = options.sampling.resolved(tokenizer);
  std::optional<GrammarMatcher> matcher;
  if (const auto grammar = options.sampling.load_grammar()) {
    matcher.emplace(*grammar, tokenizer);
    generate.mask = [&](std::span<float> logits) { matcher->mask(logits); };
  }
  const GenerateResult result = model.generate(prompt, generate, [&](const GeneratedToken& token) {
    if (!token.is_end) emit(decoder.push(token.id));
    if (matcher) matcher->accept(token.id);
    return !matcher || !matcher->must_end();
  });
  emit(decoder.finish());
  const double prefill = rate(static_cast<double>(result.prompt_tokens), result.prefill_seconds);
  const double decode = rate(static_cast<double>(result.ids.size()) - 1, result.decode_seconds);
  if (options.as_json) {
    const nlohmann::ordered_json out{{"text", text},
                                     {"ids", result.ids},
                                     {"prompt_tokens", result.prompt_tokens},
                                     {"stopped_by", result.reason == StopReason::Length ? "length" : "end"},
                                     {"prefill_tok_s", prefill},
                                     {"decode_tok_s", decode}};
    std::puts(out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return;
  }
  if (options.print_ids) {
    fmt::print("{}\n", fmt::join(result.ids, " "));
    return;
  }
  std::putchar('\n');
  std::fflush(stdout);
  fmt::print(stderr, "{} tokens of prompt at {:.1f} tokens/s, {} new ones at {:.1f} tokens/s\n",
             result.prompt_tokens, prefill, result.ids.size(), decode);
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Continues a text with a language model.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*command);
  command->add_option("-p,--prompt", options->prompt, "The text to continue, as it is");
  command->add_option("-n,--count", options->count, "Most tokens to add; -1 fills the context")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 31))
      ->capture_default_str();
  options->sampling.add_to(*command);
  options->sampling.add_grammars(*command);
  command->add_flag("--ignore-end", options->ignore_end, "Go on after tokens that end a text");
  command->add_flag("--parse-special", options->parse_special,
                    "Control tokens spelled in the prompt are tokens");
  command->add_flag("--ids", options->print_ids, "Print the ids of the new tokens, separated by spaces");
  command->add_flag("--json", options->as_json, "Print one JSON document: text, ids, tokens a second");
  command->footer(
      "Examples:\n"
      "  lathe run -m model.gguf -p 'Once upon a time' -n 100\n"
      "  lathe run -m model.gguf -p 'Once upon a time' --json | jq .decode_tok_s\n"
      "  lathe run -m model.gguf -p 'Once upon a time' --temp 0.8 --top-p 0.95 --seed 7\n"
      "  lathe run -m model.gguf -p 'A person as JSON: ' --json-schema person.json\n"
      "  lathe run -m model.gguf -p 'The capital of France is' -n 3 --ids");
  command->callback([options] { run(*options); });
}

}  // namespace lathe::command
