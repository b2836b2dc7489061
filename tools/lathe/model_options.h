// What the commands that run a language model have in common.
#pragma once
#include "llm/language_model.h"

#include <CLI/CLI.hpp>

#include <string>

namespace lathe::command {

struct ModelArguments {
  std::string path, kv_type = "f16";
  ModelOptions options;

  // -m, -c, --chunk and --kv-type.
  void add_to(CLI::App& command);
  LanguageModel load() const;
};

}  // namespace lathe::command
