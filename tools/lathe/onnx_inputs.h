// Inputs of an ONNX model, as the command line asks for them.
#pragma once
#include "formats/onnx/session.h"
#include "lathe/command.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lathe::command {

struct InputOptions {
  std::string model;
  std::vector<std::string> inputs, dims;
  uint32_t seed = 0;
  int repeats = 0;  // timed runs; inputs that nobody names are ones then
};

// MODEL, --input, --dim and --seed.
void add_input_options(CLI::App& command, InputOptions& options);
// The number of timed runs, -n.
void add_repeats(CLI::App& command, InputOptions& options);
// ValidationError for options that are not of their form, ValueError for a name that the model does not have.
onnx::Inputs make_inputs(const onnx::Session& session, const InputOptions& options);

}  // namespace lathe::command
