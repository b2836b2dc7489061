#include "base/error.h"
#include "base/mmap.h"
#include "lathe/command.h"
#include "lathe/cpu_limits.h"
#include "runtime/cpu/cpu_id.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace lathe::command {
namespace {

using Json = nlohmann::ordered_json;

// Launches of kernels that are the same but for their memory; of copies, those of one size.
struct Total {
  std::string kind, name, device;
  Json args;
  int64_t calls = 0;
  double us = 0;
};

struct Sums {
  std::vector<Total> kernels;                              // and copies, the longest first
  std::map<std::string, std::pair<int64_t, double>> host;  // events and microseconds by their kind
  std::string cpu;
  int threads = 0;
  int64_t calls = 0;
  double kernel_us = 0, wall_us = 0;
  bool is_complete = true;
};

// What a process that was killed left ends in the middle of a line, each of which is an event.
Json parse_events(std::string text, bool& is_complete) {
  is_complete = text.ends_with("\n]\n");
  if (!is_complete) {
    const size_t end = text.rfind(",\n");
    text = text.substr(0, end) + "]";
  }
  return Json::parse(text);
}

Sums sums_of(const std::string& file) try {
  Sums out;
  const Json events = parse_events(read_file(file), out.is_complete);
  out.cpu = events.at(0).at("args").at("cpu");
  out.threads = events.at(0).at("args").at("threads");
  std::map<std::string, Total> totals;
  std::map<int, std::string> devices;
  double begin = 1e300, end = 0;
  for (const Json& e : events) {
    const std::string& name = e.at("name").get_ref<const std::string&>();
    const Json& args = e.at("args");
    if (e.at("ph") == "M") {
      if (name == "thread_name" && e.at("pid") == 2) devices[e.at("tid")] = args.at("name");
      continue;
    }
    const std::string& kind = e.at("cat").get_ref<const std::string&>();
    const double start = e.at("ts"), us = e.at("dur");
    begin = std::min(begin, start), end = std::max(end, start + us);
    if (e.at("pid") == 1) {
      auto& [count, time] = out.host[name == "replay" ? name : kind];
      count++, time += us;
      continue;
    }
    const std::string& device = devices.at(e.at("tid"));
    Total& t = totals[device + '\n' + name + '\n' + args.dump()];
    if (!t.calls++) t.kind = kind, t.name = name, t.device = device, t.args = args;
    t.us += us;
    out.calls++, out.kernel_us += us;
  }
  for (auto& [key, t] : totals) out.kernels.push_back(std::move(t));
  std::ranges::sort(out.kernels, [](const Total& a, const Total& b) {
    return std::tie(b.us, a.name) < std::tie(a.us, b.name);
  });
  out.wall_us = std::max(0.0, end - begin);
  return out;
} catch (const std::exception& error) {
  if (dynamic_cast<const Error*>(&error)) throw;
  value_error("{} is no profile: {}", file, error.what());
}

// Fractions are of the limits of this machine: none where another one ran the kernels.
std::optional<CpuLimits> limits_for(const Sums& sums) {
  if (sums.cpu != cpu_name()) return std::nullopt;
  try {
    const CpuLimits limits = cpu_limits();
    if (limits.threads == sums.threads) return limits;
  } catch (const Error&) {
  }
  return std::nullopt;
}

struct Rates {
  double flops, bytes;  // per second
  std::optional<double> fma, read;
};
Rates rates_of(const Total& t, const std::optional<CpuLimits>& limits) {
  const double each = static_cast<double>(t.calls) / std::max(t.us * 1e-6, 1e-12);
  Rates out{t.args.at("flops").get<double>() * each, t.args.at("bytes").get<double>() * each, {}, {}};
  if (!limits || !t.device.starts_with("CPU")) return out;
  if (limits->peaks[0].flops) out.fma = out.flops / limits->peaks[0].flops;
  out.read = out.bytes / limits->read_bytes;
  return out;
}

Json to_json(const Sums& sums, const std::optional<CpuLimits>& limits, size_t top) {
  Json kernels = Json::array(), host = Json::object();
  for (const Total& t : std::span(sums.kernels).first(std::min(top, sums.kernels.size()))) {
    const Rates r = rates_of(t, limits);
    kernels.push_back({{"name", t.name},
                       {"kind", t.kind},
                       {"device", t.device},
                       {"calls", t.calls},
                       {"ms", t.us * 1e-3},
                       {"share", t.us / sums.kernel_us},
                       {"flops_per_second", r.flops},
                       {"bytes_per_second", r.bytes},
                       {"fma_fraction", r.fma ? Json(*r.fma) : nullptr},
                       {"read_fraction", r.read ? Json(*r.read) : nullptr}});
    kernels.back().update(t.args);
  }
  for (const auto& [kind, total] : sums.host)
    host[kind] = {{"events", total.first}, {"ms", total.second * 1e-3}};
  return {{"complete", sums.is_complete},
          {"cpu", sums.cpu},
          {"threads", sums.threads},
          {"wall_ms", sums.wall_us * 1e-3},
          {"kernel_ms", sums.kernel_us * 1e-3},
          {"calls", sums.calls},
          {"distinct", sums.kernels.size()},
          {"host", host},
          {"kernels", kernels}};
}

void print_sums(const Sums& sums, const std::optional<CpuLimits>& limits, size_t top) {
  fmt::print("{} calls of {} kernels and copies took {:.2f} ms of {:.2f} ms, on {} with {} threads\n",
             sums.calls, sums.kernels.size(), sums.kernel_us * 1e-3, sums.wall_us * 1e-3, sums.cpu,
             sums.threads);
  for (const auto& [kind, total] : sums.host)
    fmt::print("  {:<9} {:>7} times {:>10.2f} ms\n", kind, total.first, total.second * 1e-3);
  fmt::print("\n{:>6} {:>10} {:>7} {:>10} {:>9} {:>5} {:>8} {:>6}  kernel\n", "share", "ms", "calls",
             "us each", "GFLOP/s", "of FMA", "GB/s", "of read");
  const auto percent = [](const std::optional<double>& part) {
    return part ? fmt::format("{:.0f} %", *part * 100) : std::string("-");
  };
  for (const Total& t : std::span(sums.kernels).first(std::min(top, sums.kernels.size()))) {
    const Rates r = rates_of(t, limits);
    fmt::print("{:>4.1f} % {:>10.2f} {:>7} {:>10.2f} {:>9.2f} {:>6} {:>8.2f} {:>7}  {} {} {}\n",
               100 * t.us / sums.kernel_us, t.us * 1e-3, t.calls, t.us / static_cast<double>(t.calls),
               r.flops * 1e-9, percent(r.fma), r.bytes * 1e-9, percent(r.read), t.device, t.name,
               t.args.value("actions", ""));
  }
  if (sums.kernels.size() > top)
    fmt::print("{} more; --top {} shows all\n", sums.kernels.size() - top, sums.kernels.size());
  fmt::print("\n{}\n",
             limits
                 ? fmt::format("of FMA: of {:.0f} GFLOP/s of float32; of read: of {:.1f} GB/s from memory, "
                               "which caches exceed",
                               limits->peaks[0].flops * 1e-9, limits->read_bytes * 1e-9)
                 : "no fractions: the limits of the machine that ran this are not known here");
}

}  // namespace

void add_profile(CLI::App& app) {
  CLI::App* command = app.add_subcommand("profile", "Shows where the time went in a run with PROFILE=FILE.");
  struct Options {
    std::string file;
    bool as_json = false;
    size_t top = 20;
  };
  auto options = std::make_shared<Options>();
  command->add_option("FILE", options->file, "A profile")->required();
  command->add_flag("--json", options->as_json, "Print one JSON document");
  command->add_option("--top", options->top, "Kernels to list")->capture_default_str();
  command->footer(
      "Examples:\n"
      "  lathe profile demo.json                 after PROFILE=demo.json lathe demo\n"
      "  lathe profile demo.json --top 5\n"
      "  lathe profile demo.json --json | jq '.kernels[0]'\n"
      "ui.perfetto.dev and chrome://tracing draw the same file.");
  command->callback([options] {
    const Sums sums = sums_of(options->file);
    const std::optional<CpuLimits> limits = limits_for(sums);
    if (!sums.is_complete)
      fmt::print(stderr, "lathe: {} ends early: the program that wrote it did not come to its end\n",
                 options->file);
    if (options->as_json)
      std::printf("%s\n", to_json(sums, limits, options->top).dump(2).c_str());
    else
      print_sums(sums, limits, options->top);
  });
}

}  // namespace lathe::command
