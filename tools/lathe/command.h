#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

// Each subcommand adds itself to the command line; what it does runs as CLI11's callback. It prints its
// answer on stdout, one JSON document with --json, and throws lathe::Error when the work fails.
namespace lathe::command {

void add_bench(CLI::App& app);
void add_chat(CLI::App& app);
void add_demo(CLI::App& app);
void add_devices(CLI::App& app);
void add_eval(CLI::App& app);
void add_gguf(CLI::App& app);
void add_knobs(CLI::App& app);
void add_onnx(CLI::App& app);
void add_perplexity(CLI::App& app);
void add_profile(CLI::App& app);
void add_run(CLI::App& app);
void add_serve(CLI::App& app);
void add_template(CLI::App& app);
void add_tensors(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_trace(CLI::App& app);
void add_tune(CLI::App& app);

}  // namespace lathe::command
