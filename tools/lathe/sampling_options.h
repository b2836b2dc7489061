// How the commands that generate draw tokens, and what answers they allow.
#pragma once
#include "llm/grammar/grammar.h"
#include "llm/sampling.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace lathe::command {

struct SamplingArguments {
  SamplingOptions options;
  std::string grammar, json_schema;  // files
  std::vector<std::string> logit_bias;

  void add_to(CLI::App& command);        // how tokens are drawn
  void add_grammars(CLI::App& command);  // and what answers are allowed
  // The options with what takes the tokenizer to say. UserError for a value that makes no sense.
  SamplingOptions resolved(const Tokenizer& tokenizer) const;
  // UserError for a file that cannot be read or does not say a grammar.
  std::optional<Grammar> load_grammar() const;
};

}  // namespace lathe::command
