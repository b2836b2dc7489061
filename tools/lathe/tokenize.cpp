#include "base/error.h"
#include "formats/gguf/gguf.h"
#include "lathe/command.h"
#include "llm/embedded_model.h"
#include "llm/tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <cstdio>
#include <memory>

namespace lathe::command {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model;
  bool detokenize = false, special = false, parse_special = false, as_json = false;
};

std::string read_stdin() {
  std::string out;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) out.append(buffer, n);
  if (std::ferror(stdin)) user_runtime_error("cannot read standard input");
  return out;
}

std::vector<int32_t> ids_in(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n,[]";
  std::vector<int32_t> out;
  for (size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != text.npos;) {
    const std::string_view word =
        text.substr(at, std::min(text.find_first_of(kBlanks, at), text.size()) - at);
    int32_t id = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (problem != std::errc() || end != word.data() + word.size())
      value_error("\"{}\" at byte {} of the input is no token id", word.substr(0, 40), at);
    out.push_back(id);
    at += word.size();
  }
  return out;
}

void tokenize(const Options& options) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(open_model(options.model)->metadata());
  const std::string input = read_stdin();
  if (options.detokenize) {
    const std::string text = tokenizer.decode(ids_in(input), {.show_special = options.special});
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  const auto ids =
      tokenizer.encode(input, {.add_special = options.special, .parse_special = options.parse_special});
  if (!options.as_json) {
    fmt::print("{}\n", fmt::join(ids, " "));
    return;
  }
  Json pieces = Json::array();
  for (const int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  std::puts(
      Json{{"ids", ids}, {"pieces", pieces}}.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace

void add_tokenize(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Turns text on stdin into token ids, or ids into text.");
  auto options = std::make_shared<Options>();
  command
      ->add_option("-m,--model", options->model,
                   "GGUF file with a tokenizer; without one the model that comes with lathe")
      ->check(CLI::ExistingFile);
  command->add_flag("--detokenize", options->detokenize,
                    "Read ids and print the text, without a newline added");
  command->add_flag("--special", options->special,
                    "Add the tokens around a text (BOS, EOS …); with --detokenize, show control tokens");
  command->add_flag("--parse-special", options->parse_special,
                    "Control tokens spelled in the text are tokens");
  command->add_flag("--json", options->as_json, "Print one JSON document with ids and pieces");
  command->footer(
      "Examples:\n"
      "  lathe tokenize -m model.gguf --json < text.txt\n"
      "  echo -n 'Hello world' | lathe tokenize\n"
      "  echo 15339 1917 | lathe tokenize -m model.gguf --detokenize");
  command->callback([options] { tokenize(*options); });
}

}  // namespace lathe::command
