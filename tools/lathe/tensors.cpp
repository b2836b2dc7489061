#include "formats/tensor_file.h"
#include "lathe/command.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace lathe::command {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const TensorFile& file) {
  Json tensors = Json::array();
  uint64_t bytes = 0;  // views may claim any number
  for (const auto& [name, t] : file.tensors) {
    Json shape = Json::array();
    for (const SInt& size : t.shape()) shape.push_back(size.value());
    tensors.push_back({{"name", name},
                       {"dtype", dtype_full_name(t.dtype())},
                       {"shape", shape},
                       {"bytes", t.nbytes().value()}});
    bytes += static_cast<uint64_t>(t.nbytes().value());
  }
  return {{"format", file.format}, {"bytes", bytes}, {"metadata", file.metadata}, {"tensors", tensors}};
}

void list(const std::string& path, bool as_json) {
  const TensorFile file = load_tensor_file(path, "CPU");
  const Json document = to_json(file);
  if (as_json) {
    std::printf("%s\n", document.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  std::printf("%s, %zu tensor%s, %llu bytes\n", file.format.c_str(), file.tensors.size(),
              file.tensors.size() == 1 ? "" : "s",
              static_cast<unsigned long long>(document["bytes"].get<uint64_t>()));
  for (const auto& [key, value] : file.metadata) std::printf("%s = %s\n", key.c_str(), value.c_str());
  size_t width = 0;
  for (const auto& [name, t] : file.tensors) width = std::max(width, name.size());
  for (const auto& [name, t] : file.tensors)
    std::printf("%-*s  %-9s %s\n", static_cast<int>(width), name.c_str(),
                std::string(dtype_full_name(t.dtype())).c_str(), to_string(t.shape()).c_str());
}

}  // namespace

void add_tensors(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tensors", "Lists what a file of tensors holds.");
  struct Options {
    std::string path;
    bool as_json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("FILE", options->path, "safetensors or its index, checkpoint of PyTorch, npz or npy")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_flag("--json", options->as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe tensors model.safetensors\n"
      "  lathe tensors checkpoint.pt --json");
  command->callback([options] { list(options->path, options->as_json); });
}

}  // namespace lathe::command
