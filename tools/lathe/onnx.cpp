#include "base/clock.h"
#include "base/error.h"
#include "formats/npy.h"
#include "formats/onnx/call.h"
#include "formats/onnx/check.h"
#include "formats/onnx/session.h"
#include "lathe/command.h"
#include "lathe/onnx_inputs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lathe::command {
namespace {

using Outcome = onnx::CheckedCase::Outcome;
using Json = nlohmann::ordered_json;

void print(const Json& document) {
  std::printf("%s\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

// ---- test

void test(const std::string& folder, const onnx::Tolerance& tolerance, bool as_json) {
  Json failures = Json::array();
  std::map<Outcome, int> counts;
  const std::vector<std::string> cases = onnx::find_cases(folder);
  if (cases.empty()) value_error("no model.onnx in {}", folder);
  for (const std::string& path : cases) {
    const onnx::CheckedCase c = onnx::check_case(path, tolerance);
    counts[c.outcome]++;
    if (c.outcome != Outcome::Failed) continue;
    failures.push_back({{"name", c.name}, {"reason", c.reason}});
    if (as_json) continue;
    std::printf("%s: %s\n", c.name.c_str(), c.reason.c_str());
    std::fflush(stdout);
  }
  if (as_json)
    print({{"total", cases.size()},
           {"passed", counts[Outcome::Passed]},
           {"failed", counts[Outcome::Failed]},
           {"skipped", counts[Outcome::Skipped]},
           {"failures", failures}});
  else
    std::printf("%zu cases: %d passed, %d failed, %d skipped\n", cases.size(), counts[Outcome::Passed],
                counts[Outcome::Failed], counts[Outcome::Skipped]);
  if (counts[Outcome::Failed])
    user_runtime_error("{} of {} cases failed", counts[Outcome::Failed], cases.size());
}

void add_test(CLI::App& app) {
  CLI::App* command = app.add_subcommand("test", "Runs models on recorded inputs and compares the outputs.");
  struct Options {
    std::string folder;
    onnx::Tolerance tolerance;
    bool as_json = false;
  };
  auto options = std::make_shared<Options>();
  command
      ->add_option("DIR", options->folder,
                   "Folder with cases: model.onnx beside test_data_set_N/input_M.pb and output_M.pb")
      ->required()
      ->check(CLI::ExistingDirectory);
  command->add_option("--rtol", options->tolerance.rtol, "Relative tolerance")->capture_default_str();
  command->add_option("--atol", options->tolerance.atol, "Absolute tolerance")->capture_default_str();
  command->add_flag("--json", options->as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe onnx test node\n"
      "  lathe onnx test node/test_add --rtol 1e-4 --json");
  command->callback([options] { test(options->folder, options->tolerance, options->as_json); });
}

// ---- info

void info(const std::string& path, bool as_json) {
  const onnx::Model model = onnx::load_model(path);
  std::map<std::string, int> ops;
  int64_t parameters = 0;
  for (const onnx::TensorData& t : model.graph.initializers) parameters += t.count();
  for (const onnx::Node& node : model.graph.nodes)
    ops[node.domain.empty() ? node.op : node.domain + "." + node.op]++;
  const std::vector<onnx::OpUse> missing = onnx::unsupported_ops(model),
                                 by_value = onnx::value_dependent_ops(model);
  const auto to_json = [](const std::vector<onnx::ValueInfo>& list) {
    Json out = Json::array();
    for (const onnx::ValueInfo& v : list)
      out.push_back({{"name", v.name}, {"type", onnx::to_string(v.type)}});
    return out;
  };
  const auto names_of = [](const std::vector<onnx::OpUse>& list) {
    Json out = Json::array();
    for (const onnx::OpUse& use : list) out.push_back(use.op);
    return out;
  };
  const Json document{
      {"producer", model.producer + (model.producer_version.empty() ? "" : " " + model.producer_version)},
      {"ir_version", model.ir_version},
      {"opsets", model.opsets},
      {"inputs", to_json(onnx::required_inputs(model))},
      {"outputs", to_json(model.graph.outputs)},
      {"nodes", model.graph.nodes.size()},
      {"parameters", parameters},
      {"ops", ops},
      {"value_dependent", names_of(by_value)},
      {"unsupported", names_of(missing)}};
  if (as_json) return print(document);
  std::printf("%s, IR version %lld, %zu nodes, %lld parameters\n",
              document["producer"].get<std::string>().c_str(), static_cast<long long>(model.ir_version),
              model.graph.nodes.size(), static_cast<long long>(parameters));
  for (const auto& [domain, version] : model.opsets)
    std::printf("opset   %s %lld\n", domain.empty() ? "ai.onnx" : domain.c_str(),
                static_cast<long long>(version));
  for (const char* list : {"inputs", "outputs"})
    for (const Json& v : document[list])
      std::printf("%-7s %s %s\n", std::string(list, std::string(list).size() - 1).c_str(),
                  v["name"].get<std::string>().c_str(), v["type"].get<std::string>().c_str());
  for (const auto& [name, count] : ops) std::printf("op      %s %d\n", name.c_str(), count);
  const auto list = [](const char* title, const std::vector<onnx::OpUse>& uses) {
    for (const onnx::OpUse& use : uses) std::printf("%s: %s\n", title, use.to_string().c_str());
  };
  list("built anew where its values follow from inputs", by_value);
  list("not supported", missing);
}

void add_info(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("info", "Shows a model's inputs, outputs and ops, and which are not supported.");
  auto path = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("MODEL", *path, "ONNX file")->required()->check(CLI::ExistingFile);
  command->add_flag("--json", *as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe onnx info mnist.onnx\n"
      "  lathe onnx info mnist.onnx --json | jq .ops");
  command->callback([path, as_json] { info(*path, *as_json); });
}

// ---- run and bench

struct RunOptions : InputOptions {
  std::string output;
  bool as_json = false;
};

// Tensors as npy files, strings as JSON, the items of a sequence one by one.
void save(const std::string& stem, const onnx::Value& v, Json& files) {
  if (v.is_sequence()) {
    for (size_t i = 0; i < v.items().size(); i++) save(fmt::format("{}_{}", stem, i), v.items()[i], files);
    return;
  }
  if (!v.has_value()) return;
  const std::string path = stem + (v.is_tensor() ? ".npy" : ".json");
  if (v.is_tensor())
    save_npy(v.tensor(), path);
  else
    write_file_atomically(path, Json(v.strings().items).dump());
  files.push_back(path);
}

std::string file_stem(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

std::string first_numbers(const onnx::Value& v) {
  if (!v.is_tensor()) return "";
  std::string out;
  const std::vector<Scalar> all = onnx::elements(v.tensor());
  for (size_t i = 0; i < std::min<size_t>(all.size(), 8); i++)
    out += " " + (all[i].is_float() ? fmt::format("{:.6g}", all[i].as_double()) : all[i].to_string());
  return out + (all.size() > 8 ? " …" : "");
}

void run(const RunOptions& options) {
  Tensor::manual_seed(options.seed);
  const onnx::Session session(options.model);
  const auto inputs = make_inputs(session, options);
  const onnx::Values outputs = session.run(inputs);
  if (!options.output.empty()) std::filesystem::create_directories(options.output);
  Json list = Json::array();
  for (size_t i = 0; i < outputs.size(); i++) {
    const std::string& name = session.outputs()[i].name;
    Json row{{"name", name}, {"type", outputs[i].to_string()}};
    if (!options.output.empty()) {
      row["files"] = Json::array();
      save((std::filesystem::path(options.output) / file_stem(name)).string(), outputs[i], row["files"]);
    }
    if (!options.as_json)
      std::printf("%s %s%s\n", name.c_str(), outputs[i].to_string().c_str(),
                  first_numbers(outputs[i]).c_str());
    list.push_back(std::move(row));
  }
  if (options.as_json) print({{"outputs", list}});
}

void bench(const RunOptions& options) {
  Tensor::manual_seed(options.seed);
  double start = now_seconds();
  const onnx::Session session(options.model);
  const double load = now_seconds() - start;
  const auto inputs = make_inputs(session, options);
  start = now_seconds();
  (void)session.run(inputs);
  const double first = now_seconds() - start;
  std::vector<double> times;
  for (int i = 0; i < options.repeats; i++) {
    start = now_seconds();
    (void)session.run(inputs);
    times.push_back(now_seconds() - start);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  if (options.as_json)
    print({{"load_ms", load * 1e3},
           {"first_ms", first * 1e3},
           {"median_ms", median * 1e3},
           {"runs", options.repeats}});
  else
    std::printf("load %.1f ms, first run %.1f ms, median of %d runs %.3f ms\n", load * 1e3, first * 1e3,
                options.repeats, median * 1e3);
}

void add_run(CLI::App& app, bool is_bench) {
  CLI::App* command = is_bench ? app.add_subcommand("bench", "Times a model.")
                               : app.add_subcommand("run", "Runs a model once.");
  auto options = std::make_shared<RunOptions>();
  add_input_options(*command, *options);
  command->add_flag("--json", options->as_json, "Print one JSON document");
  if (is_bench) {
    add_repeats(*command, *options);
    command->footer(
        "Examples:\n"
        "  lathe onnx bench mnist.onnx\n"
        "  lathe onnx bench mnist.onnx -n 100 --input Input3=random --json");
    command->callback([options] { bench(*options); });
    return;
  }
  command->add_option("--output", options->output, "Folder that takes NAME.npy for every output");
  command->footer(
      "Examples:\n"
      "  lathe onnx run mnist.onnx --input Input3=digit.npy\n"
      "  lathe onnx run model.onnx --input x=random --dim N=4 --input mask=ones --output results");
  command->callback([options] { run(*options); });
}

}  // namespace

void add_onnx(CLI::App& app) {
  CLI::App* command = app.add_subcommand("onnx", "Runs and checks ONNX models.");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  lathe onnx info mnist.onnx\n"
      "  lathe onnx run mnist.onnx --input Input3=random --output results\n"
      "  lathe onnx test node --json");
  add_info(*command);
  add_run(*command, false);
  add_test(*command);
  add_run(*command, true);
}

}  // namespace lathe::command
