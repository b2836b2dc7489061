#include "base/error.h"
#include "base/knobs.h"
#include "lathe/command.h"
#include "lathe/cpu_limits.h"
#include "runtime/device.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

namespace lathe::command {
namespace {

struct Row {
  std::string name;
  bool is_default = false;
  std::string problem;  // why it does not work here; the rest is empty then
  Target target;
};

std::vector<Row> look_at_devices() {
  std::vector<Row> rows;
  // Its name only: the default may be what does not work here.
  const std::string& wanted = knob_str(Knob::DEV);
  const std::string chosen =
      canonical_device_name(wanted.empty() ? "CPU" : wanted.substr(0, wanted.find(';')));
  for (const std::string& name : known_devices()) {
    Row row{.name = name, .is_default = name == chosen, .problem = "", .target = {}};
    try {
      row.target = device(name).target();
    } catch (const Error& error) {
      row.problem = error.what();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> dtype_names(const Target& target) {
  std::vector<std::string> out;
  for (int i = 0; i < kNumDTypes; i++) {
    const auto d = static_cast<DType>(i);
    if (d != DType::Void && !is_weak(d) && target.supports_dtype(d)) out.emplace_back(dtype_full_name(d));
  }
  return out;
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json out{
      {"name", row.name}, {"default", row.is_default}, {"available", row.problem.empty()}};
  if (!row.problem.empty()) {
    out["problem"] = row.problem;
    return out;
  }
  const Target& t = row.target;
  out["language"] = t.name;
  out["arch"] = t.arch;
  if (!t.cpu.empty()) out["cpu"] = t.cpu;
  out["threads"] = t.has_threads ? t.max_threads : 1;
  if (const auto& w = t.work_groups) {
    out["group_items"] = w->group_items;
    out["local_bytes"] = w->local_bytes;
  }
  out["vector_bits"] = t.vector_bits;
  out["vector_registers"] = t.vector_registers;
  out["fma"] = t.has_fma;
  out["cache_bytes"] = {{"l1d", t.l1d_bytes}, {"l2", t.l2_bytes}, {"l3", t.l3_bytes}};
  out["dtypes"] = dtype_names(t);
  return out;
}

std::string to_line(const Row& row) {
  std::string out = fmt::format("{} {:<12}", row.is_default ? '*' : ' ', row.name);
  if (!row.problem.empty()) return out + row.problem;
  const Target& t = row.target;
  const std::string arch = t.arch.empty() ? "any machine" : t.arch;
  if (const auto& w = t.work_groups)
    out += fmt::format("{}, groups of up to {} work items that share {} KiB", arch, w->group_items,
                       w->local_bytes >> 10);
  else
    out += fmt::format("{}, {} thread{}, {}-bit vectors{}", arch, t.max_threads,
                       t.max_threads == 1 ? "" : "s", t.vector_bits, t.has_fma ? ", FMA" : "");
  if (!t.cpu.empty()) out += ", " + t.cpu;
  return out + fmt::format("\n               {}", fmt::join(dtype_names(t), " "));
}

nlohmann::ordered_json to_json(const CpuLimits& limits) {
  nlohmann::ordered_json flops;
  for (const CpuLimits::Peak& p : limits.peaks)
    flops[p.dtype] = p.flops ? nlohmann::ordered_json(p.flops) : nullptr;
  return {{"cpu", limits.cpu},
          {"threads", limits.threads},
          {"fma_flops", flops},
          {"read_bytes_per_second", limits.read_bytes}};
}

std::string to_line(const CpuLimits& limits) {
  std::string out = fmt::format("{}, {} thread{}, reads {:.1f} GB/s; GFLOP/s:", limits.cpu, limits.threads,
                                limits.threads == 1 ? "" : "s", limits.read_bytes * 1e-9);
  for (const CpuLimits::Peak& p : limits.peaks)
    out += fmt::format(" {} {}", p.dtype, p.flops ? fmt::format("{:.0f}", p.flops * 1e-9) : "not measured");
  return out;
}

void print_devices(bool as_json, bool measure) {
  const std::vector<Row> rows = look_at_devices();
  std::optional<CpuLimits> limits;
  std::string problem;
  try {
    limits = cpu_limits(measure);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (as_json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Row& row : rows) list.push_back(to_json(row));
    nlohmann::ordered_json machine = limits ? to_json(*limits) : nlohmann::ordered_json{{"problem", problem}};
    std::printf("%s\n", nlohmann::ordered_json{{"devices", list}, {"machine", machine}}.dump(2).c_str());
    return;
  }
  for (const Row& row : rows) std::printf("%s\n", to_line(row).c_str());
  std::printf("* is the default; DEV=NAME chooses another.\n\nMeasured: %s\n",
              limits ? to_line(*limits).c_str() : ("nothing: " + problem).c_str());
}

}  // namespace

void add_devices(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "Lists what can run kernels here, and what it can do.");
  auto as_json = std::make_shared<bool>(false), measure = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "Print one JSON document");
  command->add_flag("--measure", *measure, "Measure the limits of the machine again");
  command->footer(
      "Examples:\n"
      "  lathe devices\n"
      "  lathe devices --measure                    while nothing else runs\n"
      "  lathe devices --json | jq '.devices[].name'");
  command->callback([=] { print_devices(*as_json, *measure); });
}

}  // namespace lathe::command
