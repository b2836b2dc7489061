#include "base/error.h"
#include "base/mmap.h"
#include "formats/gguf/gguf.h"
#include "lathe/command.h"
#include "llm/chat_template.h"
#include "llm/json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

namespace lathe::command {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string file, model, input, now;
  bool fallback = false, ids = false, as_json = false;
};

std::tm parse_time(const std::string& text) {
  std::tm time = {};
  const char* end = strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time);
  if (!end || *end) value_error("--now \"{}\" is not of the form 2026-01-02 03:04:05", text);
  return time;
}

void render(const Options& options) {
  const std::string name = options.input == "-" ? "standard input" : options.input;
  const std::string text = options.input == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {})
                                                : read_file(options.input);
  Json request = parse_json(text, name);
  if (request.is_array()) request = Json{{"messages", std::move(request)}};
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
  if (!options.model.empty()) {
    const GgufFile file = GgufFile::open(options.model).or_throw();
    tokenizer = Tokenizer::from_gguf(file.metadata());
    chat_template = ChatTemplate::from_gguf(file.metadata(), *tokenizer, options.fallback);
  }
  if (!options.file.empty()) chat_template = ChatTemplate(read_file(options.file), {}, options.file);
  const auto now = options.now.empty() ? std::nullopt : std::optional(parse_time(options.now));
  const ChatPrompt prompt = chat_template->render(request, now);
  const auto ids = tokenizer ? encode_prompt(*tokenizer, prompt) : std::vector<int32_t>();
  if (options.as_json) {
    Json plain = Json::array();
    for (const TextRange range : prompt.plain) plain.push_back({range.begin, range.end});
    Json out = {{"text", prompt.text}, {"plain", plain}};
    if (tokenizer) out["ids"] = ids;
    std::puts(out.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  } else if (options.ids) {
    fmt::print("{}\n", fmt::join(ids, " "));
  } else {
    std::fwrite(prompt.text.data(), 1, prompt.text.size(), stdout);
  }
}

}  // namespace

void add_template(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("template", "Renders the messages of a conversation with a chat template.");
  auto options = std::make_shared<Options>();
  auto* file = command->add_option("FILE", options->file, "Template in the language of Jinja")
                   ->check(CLI::ExistingFile);
  auto* model = command->add_option("-m,--model", options->model, "GGUF file with a template and a tokenizer")
                    ->check(CLI::ExistingFile);
  command
      ->add_option("--input", options->input,
                   "JSON as in a chat request: messages, and maybe tools, add_generation_prompt and other "
                   "variables; or "
                   "the list of messages; - is standard input")
      ->required();
  command
      ->add_flag("--fallback", options->fallback, "Take the built-in form for the model's vocabulary instead")
      ->needs(model);
  command->add_flag("--ids", options->ids, "Print token ids instead of the text")->needs(model);
  command->add_flag("--json", options->as_json,
                    "Print one JSON document: text, plain (bytes from, to that came from messages), ids");
  command->add_option("--now", options->now, "What strftime_now tells, as 2026-01-02 03:04:05");
  command->footer(
      "Examples:\n"
      "  lathe template -m model.gguf --input messages.json\n"
      "  lathe template chat_template.jinja --input messages.json\n"
      "  echo '[{\"role\":\"user\",\"content\":\"Hi\"}]' | lathe template -m model.gguf --ids --input -");
  command->callback([options, file, model] {
    if (file->count() + model->count() == 0) throw CLI::RequiredError("FILE or --model");
    render(*options);
  });
}

}  // namespace lathe::command
