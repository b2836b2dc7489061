#include "base/error.h"
#include "formats/onnx/check.h"
#include "formats/onnx/session.h"
#include "lathe/command.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lathe::command {
namespace {

using Outcome = onnx::CheckedCase::Outcome;

void test(const std::string& folder, const onnx::Tolerance& tolerance, bool as_json) {
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  std::map<Outcome, int> counts;
  const std::vector<std::string> cases = onnx::find_cases(folder);
  for (const std::string& path : cases) {
    const onnx::CheckedCase c = onnx::check_case(path, tolerance);
    counts[c.outcome]++;
    if (c.outcome == Outcome::Failed) failures.push_back({{"name", c.name}, {"reason", c.reason}});
    if (!as_json && c.outcome == Outcome::Failed) std::printf("%s: %s\n", c.name.c_str(), c.reason.c_str());
    if (!as_json) std::fflush(stdout);
  }
  if (as_json)
    std::printf("%s\n", nlohmann::ordered_json{{"total", cases.size()},
                                               {"passed", counts[Outcome::Passed]},
                                               {"failed", counts[Outcome::Failed]},
                                               {"skipped", counts[Outcome::Skipped]},
                                               {"failures", failures}}
                            .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                            .c_str());
  else
    std::printf("%zu cases: %d passed, %d failed, %d skipped\n", cases.size(), counts[Outcome::Passed],
                counts[Outcome::Failed], counts[Outcome::Skipped]);
  if (cases.empty()) value_error("no model.onnx in {}", folder);
  if (counts[Outcome::Failed]) user_runtime_error("{} of {} cases failed", counts[Outcome::Failed], cases.size());
}

void add_test(CLI::App& app) {
  CLI::App* command = app.add_subcommand("test", "Runs models on recorded inputs and compares the outputs.");
  struct Options {
    std::string folder;
    onnx::Tolerance tolerance;
    bool as_json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("DIR", options->folder, "Folder with cases: model.onnx beside test_data_set_N/input_M.pb, output_M.pb")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--rtol", options->tolerance.rtol, "Relative tolerance");
  command->add_option("--atol", options->tolerance.atol, "Absolute tolerance");
  command->add_flag("--json", options->as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe onnx test node\n"
      "  lathe onnx test node/test_add --rtol 1e-4 --json");
  command->callback([options] { test(options->folder, options->tolerance, options->as_json); });
}

}  // namespace

void add_onnx(CLI::App& app) {
  CLI::App* command = app.add_subcommand("onnx", "Runs and checks ONNX models.");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  lathe onnx test node --json");
  add_test(*command);
}

}  // namespace lathe::command
