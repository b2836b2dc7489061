#include "base/clock.h"
#include "base/error.h"
#include "engine/cancel.h"
#include "formats/gguf/gguf.h"
#include "lathe/command.h"
#include "lathe/line_reader.h"
#include "lathe/model_options.h"
#include "lathe/sampling_options.h"
#include "llm/chat_template.h"
#include "llm/output_router.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>

namespace lathe::command {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "/reset  forget the conversation\n"
    "/help   this text\n"
    "Ctrl-C stops an answer, Ctrl-D ends the program.\n";

struct Options {
  ModelArguments model;
  SamplingArguments sampling;
  bool has_seed = false;
  std::string system;
  std::optional<bool> think;
  int64_t count = -1;
  bool no_template = false;
};

std::atomic<bool> g_answering = false, g_interrupted = false;

void on_interrupt(int) {
  g_interrupted = true;
  if (g_answering) cancel();
}

class Conversation {
 public:
  Conversation(const Options& options, LanguageModel& model)
      : options_(options),
        model_(model),
        sampling_(options.sampling.resolved(model.tokenizer())),
        template_(ChatTemplate::from_gguf(model.file().metadata(), model.tokenizer(), options.no_template)),
        colors_(isatty(STDOUT_FILENO)) {
    reset();
  }

  void reset() {
    messages_ = Json::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  // Prints the answer to a question as it comes. What was said so far stays as it was when this throws.
  void ask(const std::string& question) {
    Json messages = messages_;
    messages.push_back({{"role", "user"}, {"content", question}});
    Json request = {{"messages", messages}};
    if (options_.think) request["enable_thinking"] = *options_.think;
    const ChatPrompt prompt = template_.render(request);
    const auto tokens = encode_prompt(model_.tokenizer(), prompt);
    if (static_cast<int64_t>(tokens.size()) >= model_.context())
      value_error("the conversation has {} tokens, but the context is {}; /reset begins a new one",
                  tokens.size(), model_.context());
    answer_.clear(), reasoning_.clear();
    const GenerateResult result = generate(tokens, OutputRouter::opens_reasoning(prompt.text));
    Json reply = {{"role", "assistant"}, {"content", answer_}};
    if (!reasoning_.empty()) reply["reasoning_content"] = reasoning_;
    messages.push_back(reply);
    messages_ = std::move(messages);
    report(result);
  }

 private:
  GenerateResult generate(std::span<const int32_t> tokens, bool in_reasoning) {
    const Tokenizer& tokenizer = model_.tokenizer();
    StreamDecoder decoder(tokenizer, {.show_special = true});
    OutputRouter router({.starts_in_reasoning = in_reasoning, .finds_calls = false});
    GenerateOptions options;
    options.max_tokens = options_.count;
    options.sampling = sampling_;
    options.sampling.seed = options_.has_seed ? sampling_.seed + messages_.size() : std::random_device()();
    GenerateResult result;
    g_interrupted = false;
    g_answering = true;
    try {
      result = model_.generate(tokens, options, [&](const GeneratedToken& token) {
        if (token.is_end) return true;
        if (!tokenizer.is_control(token.id) || OutputRouter::is_tag(tokenizer.piece(token.id)))
          print(router.push(decoder.push(token.id)));
        return !g_interrupted;
      });
    } catch (const Cancelled&) {
    }
    g_answering = false;
    try {  // it may have come when nothing ran any more
      stop_if_cancelled();
    } catch (const Cancelled&) {
    }
    print(router.push(decoder.finish()));
    print(router.finish());
    std::puts("");
    std::fflush(stdout);
    return result;
  }

  void print(const std::vector<OutputPiece>& pieces) {
    for (const OutputPiece& piece : pieces) {
      const bool is_reasoning = piece.kind == OutputPiece::Kind::Reasoning;
      (is_reasoning ? reasoning_ : answer_) += piece.text;
      const bool grey = is_reasoning && colors_;
      fmt::print("{}{}{}", grey ? "\033[90m" : "", piece.text, grey ? "\033[0m" : "");
    }
    std::fflush(stdout);
  }

  void report(const GenerateResult& r) const {
    if (g_interrupted) fmt::print(stderr, "[stopped]\n");
    const auto rate = [](int64_t count, double seconds) {
      return seconds > 0 ? static_cast<double>(count) / seconds : 0;
    };
    const auto written = static_cast<int64_t>(r.ids.size());
    fmt::print(stderr, "[{} + {} tokens in at {:.1f} tokens/s, {} out at {:.1f} tokens/s]\n", r.cached_tokens,
               r.prompt_tokens - r.cached_tokens, rate(r.prompt_tokens - r.cached_tokens, r.prefill_seconds),
               written, rate(std::max<int64_t>(written - 1, 0), r.decode_seconds));
  }

  const Options& options_;
  LanguageModel& model_;
  const SamplingOptions sampling_;
  const ChatTemplate template_;
  const bool colors_;
  Json messages_;
  std::string answer_, reasoning_;
};

void chat(const Options& options) {
  LanguageModel model = options.model.load();
  LineReader reader;
  if (reader.is_terminal()) {
    fmt::print(stderr, "{}, {:.1f} MB of weights, context {}; /help tells what else there is\n",
               model.config().name.empty() ? options.model.path : model.config().name,
               static_cast<double>(model.weight_bytes()) / 1e6, model.context());
  }
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  Conversation conversation(options, model);
  while (true) {
    g_interrupted = false;
    const auto line = reader.read(">>> ");
    if (!line && g_interrupted) continue;  // Ctrl-C leaves a line, and not the program
    if (!line) break;
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    if (*line == "/reset") {
      conversation.reset();
    } else if (*line == "/help") {
      fmt::print(stderr, "{}", kHelp);
    } else {
      try {
        conversation.ask(*line);
      } catch (const UserError& error) {
        if (!reader.is_terminal()) throw;
        fmt::print(stderr, "{}\n", error.what());
      }
    }
  }
  if (reader.is_terminal()) std::puts("");
}

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talks with a language model.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*command);
  command->add_option("-s,--system", options->system, "What the model is told before the conversation");
  command->add_option("-n,--count", options->count, "Most tokens of an answer; -1 fills the context")
      ->capture_default_str();
  command->add_flag("--think,!--no-think", options->think,
                    "Ask the model to reason before it answers, or not to");
  command->add_flag("--no-template", options->no_template,
                    "Ignore the model's chat template, for a built-in one");
  SamplingOptions& s = options->sampling.options;
  s.temperature = 0.8f, s.top_k = 40, s.top_p = 0.95f, s.min_p = 0.05f;
  options->sampling.add_to(*command);
  command->footer(
      "Examples:\n"
      "  lathe chat -m model.gguf\n"
      "  lathe chat -m model.gguf --system 'You are terse.' --temp 0\n"
      "  echo 'What is a kernel?' | lathe chat -m model.gguf\n"
      "A line is a question; /reset, /help, Ctrl-C stops an answer, Ctrl-D ends.");
  command->callback([options, command] {
    options->has_seed = command->count("--seed") > 0;
    chat(*options);
  });
}

}  // namespace lathe::command
