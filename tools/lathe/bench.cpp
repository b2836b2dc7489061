#include "base/clock.h"
#include "base/error.h"
#include "base/knobs.h"
#include "lathe/command.h"
#include "lathe/cpu_limits.h"
#include "lathe/model_options.h"
#include "lathe/number_check.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

namespace lathe::command {
namespace {

struct Options {
  ModelArguments model;
  std::vector<int64_t> prompts{512}, counts{64};
  std::vector<int> threads;
  int64_t depth = 0, repetitions = 5;
  bool as_json = false;
};

struct Row {
  std::string test;
  int threads;
  double tok_s, deviation, best;             // mean over the repetitions, its standard deviation, the fastest
  std::optional<double> bandwidth_fraction;  // of decode: bytes of weights read, of what memory delivers
};

std::vector<int32_t> random_tokens(const LanguageModel& model, int64_t n, std::mt19937& random) {
  std::uniform_int_distribution<int32_t> pick(0, static_cast<int32_t>(model.config().vocabulary) - 1);
  std::vector<int32_t> out;
  for (int64_t i = 0; i < n; i++) out.push_back(pick(random));
  return out;
}

// `work` does `tokens` in the seconds that it returns; its first run is not counted.
template <class Before, class Work>
Row measure(std::string name, int threads, const Options& options, int64_t tokens, Before&& before,
            Work&& work) {
  std::vector<double> rates;
  for (int64_t i = 0; i <= options.repetitions; i++) {
    before();
    const double seconds = work();
    if (i > 0) rates.push_back(static_cast<double>(tokens) / seconds);
  }
  double mean = 0, square = 0;
  for (const double r : rates) mean += r / static_cast<double>(rates.size());
  for (const double r : rates) square += (r - mean) * (r - mean);
  const double deviation = rates.size() > 1 ? std::sqrt(square / static_cast<double>(rates.size() - 1)) : 0;
  return {std::move(name), threads, mean, deviation, *std::max_element(rates.begin(), rates.end()), {}};
}

std::vector<Row> rows_with(int threads, const Options& options) {
  const KnobScope count(Knob::CPU_COUNT, threads);
  ModelArguments arguments = options.model;
  const int64_t longest = std::max(*std::max_element(options.prompts.begin(), options.prompts.end()),
                                   *std::max_element(options.counts.begin(), options.counts.end()) + 1);
  if (arguments.options.context < 0) arguments.options.context = options.depth + longest + 1;
  LanguageModel model = arguments.load();
  model.warm();
  std::mt19937 random(1);
  const std::vector<int32_t> before = random_tokens(model, options.depth, random);
  const auto start = [&] {
    model.clear();
    if (!before.empty()) model.evaluate(before);
  };
  std::vector<Row> out;
  for (const int64_t n : options.prompts) {
    if (n < 1) continue;
    std::vector<int32_t> tokens = before;
    for (const int32_t id : random_tokens(model, n, random)) tokens.push_back(id);
    out.push_back(measure(fmt::format("pp{}", n), threads, options, n, start, [&] {
      const double begin = now_seconds();
      model.evaluate(tokens);
      return now_seconds() - begin;
    }));
  }
  for (const int64_t n : options.counts) {
    if (n < 1) continue;
    std::vector<int32_t> tokens = before;
    tokens.push_back(random_tokens(model, 1, random)[0]);
    GenerateOptions generate;
    generate.max_tokens = n + 1;  // the first one comes with the prompt
    generate.stop_at_end = false;
    Row row = measure(fmt::format("tg{}", n), threads, options, n, start,
                      [&] { return model.generate(tokens, generate).decode_seconds; });
    const double bytes = static_cast<double>(model.bytes_per_token()) * row.tok_s;
    if (const CpuLimits limits = cpu_limits(); limits.read_bytes > 0)
      row.bandwidth_fraction = bytes / limits.read_bytes;
    out.push_back(row);
  }
  return out;
}

void bench(const Options& options) {
  std::vector<Row> rows;
  const std::vector<int> threads = options.threads.empty() ? std::vector<int>{0} : options.threads;
  if (!options.as_json)
    fmt::print("{:<10} {:>7} {:>22} {:>11}\n", "test", "threads", "tokens/s", "of memory");
  for (const int t : threads)
    for (const Row& row : rows_with(t, options)) {
      rows.push_back(row);
      if (options.as_json) continue;
      fmt::print("{:<10} {:>7} {:>13.1f} ± {:<6.1f} {:>11}\n", row.test, row.threads, row.tok_s,
                 row.deviation,
                 row.bandwidth_fraction ? fmt::format("{:.0f} %", 100 * *row.bandwidth_fraction) : "");
      std::fflush(stdout);
    }
  if (!options.as_json) return;
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json line{{"test", row.test},
                                {"threads", row.threads},
                                {"tok_s", row.tok_s},
                                {"deviation", row.deviation},
                                {"best", row.best}};
    if (row.bandwidth_fraction) line["bandwidth_fraction"] = *row.bandwidth_fraction;
    out.push_back(line);
  }
  std::puts(out.dump(2).c_str());
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Times prefill and decode of a language model.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*command);
  command->add_option("-p,--prompt", options->prompts, "Prefill of so many tokens; 0 is none")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("-n,--count", options->counts, "Decode of so many tokens; 0 is none")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("-t,--threads", options->threads, "Threads; by default all cores")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  command->add_option("-d,--depth", options->depth, "Tokens that are in the cache before each test")
      ->check(not_negative())
      ->capture_default_str();
  command->add_option("-r,--repetitions", options->repetitions, "Runs of each test, after one to warm up")
      ->check(positive())
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print one JSON document");
  command->footer(
      "Examples:\n"
      "  lathe bench -m model.gguf\n"
      "  lathe bench -m model.gguf -p 128,512 -n 64 -t 1,2 --json\n"
      "  lathe bench -m model.gguf -p 0 -n 32 -d 1000");
  command->callback([options] { bench(*options); });
}

}  // namespace lathe::command
