#include "engine/tune.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/progress.h"
#include "engine/counters.h"
#include "lathe/number_check.h"
#include "lathe/onnx_inputs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace lathe::command {
namespace {

using Json = nlohmann::ordered_json;

struct TuneOptions : InputOptions {
  int width = 4, seconds = 20;
  bool as_json = false;
};

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

// Hears of every search as long as it lives.
class Searches {
 public:
  explicit Searches(int64_t kernels)
      : bar_("kernels", kernels), before_(on_tuned([this](const Tuned& t) {
          done_.push_back(t);
          bar_.update(static_cast<int64_t>(done_.size()), t.name);
        })) {}
  ~Searches() { on_tuned(before_); }
  std::vector<Tuned> end() {
    bar_.finish();
    std::ranges::sort(done_, std::greater(), [](const Tuned& t) { return t.before - t.after; });
    return done_;
  }

 private:
  std::vector<Tuned> done_;
  Progress bar_;
  std::function<void(const Tuned&)> before_;
};

void tune(const TuneOptions& options) {
  Tensor::manual_seed(options.seed);
  const KnobScope off(Knob::BEAM, 0);
  const onnx::Session plain(options.model), tuned(options.model);
  const auto inputs = make_inputs(plain, options);
  reset_counters();
  (void)plain.run(inputs);
  const auto kernels = static_cast<int64_t>(counters().compiled);
  const double start = now_seconds();
  Searches searches(kernels);
  const KnobScope limit(Knob::BEAM_SECONDS, options.seconds);
  const auto run_tuned = [&] {
    const KnobScope on(Knob::BEAM, options.width);
    (void)tuned.run(inputs);
  };
  run_tuned();
  const std::vector<Tuned> rows = searches.end();
  const double seconds = now_seconds() - start;
  std::vector<double> before, after;
  const auto time = [](std::vector<double>& times, const auto& run) {
    const double began = now_seconds();
    run();
    times.push_back(now_seconds() - began);
  };
  for (int i = 0; i < options.repeats; i++) {  // in turn, so that both meet the same machine
    time(before, [&] { (void)plain.run(inputs); });
    time(after, run_tuned);
  }
  const double was = median(before) * 1e3, is = median(after) * 1e3;
  if (options.as_json) {
    Json list = Json::array();
    for (const Tuned& t : rows)
      list.push_back({{"name", t.name},
                      {"actions", t.actions},
                      {"before_us", t.before * 1e6},
                      {"after_us", t.after * 1e6},
                      {"schedules", t.tried}});
    const Json document{{"kernels", kernels}, {"searched", list}, {"seconds", seconds},
                        {"before_ms", was},   {"after_ms", is},   {"runs", options.repeats}};
    std::printf("%s\n", document.dump(2).c_str());
    return;
  }
  for (const Tuned& t : rows)
    std::printf("%10.1f us -> %10.1f us  %5.2fx  %s\n", t.before * 1e6, t.after * 1e6, t.before / t.after,
                t.name.c_str());
  std::printf(
      "%lld kernels, %zu of them searched in %.1f s, the others known, or on a device without search\n",
      static_cast<long long>(kernels), rows.size(), seconds);
  std::printf("median of %d runs: %.3f ms before, %.3f ms after, %.2f times as fast\n", options.repeats, was,
              is, was / is);
}

}  // namespace

void add_tune(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "tune",
      "Searches for the fastest schedule of every kernel of a model and keeps them for runs with BEAM=1.");
  auto options = std::make_shared<TuneOptions>();
  add_input_options(*command, *options);
  add_repeats(*command, *options);
  command->add_option("--beam", options->width, "Schedules kept from round to round")
      ->check(positive())
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "Time for one kernel; 0 is no limit")
      ->check(not_negative())
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print one JSON document");
  command->footer(
      "What is found is in the kernel cache (CACHEDB) and used by every process with BEAM=1 or more.\n"
      "Ctrl-C ends the search; what was found by then is kept.\n"
      "Examples:\n"
      "  lathe tune resnet18.onnx\n"
      "  lathe tune model.onnx --dim N=8 --beam 2 --seconds 5 --json\n"
      "  BEAM=1 lathe onnx bench resnet18.onnx");
  command->callback([options] { tune(*options); });
}

}  // namespace lathe::command
