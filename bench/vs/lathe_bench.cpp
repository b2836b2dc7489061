// Times workloads that other libraries have runners for, too, and prints one JSON line for each, so that
// whoever starts them in turn gets ratios of the same minutes: `lathe_bench THREADS SECONDS [ONLY]`. ONLY
// lists prefixes of workload names with commas in between; SECONDS is spent on each at least.
#include "base/clock.h"
#include "base/error.h"
#include "base/knobs.h"
#include "engine/counters.h"
#include "workload.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace bench {
namespace {

// CPU seconds that the whole machine was busy, steal included, and that this process was.
struct CpuTime {
  double machine, own;
};
CpuTime cpu_time() {
  std::ifstream stat("/proc/stat");
  std::string word;
  stat >> word;
  double busy = 0, ticks = 0;
  for (int field = 0; field < 8 && stat >> ticks; field++)
    if (field != 3 && field != 4) busy += ticks;  // idle, waiting for disks
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {busy / static_cast<double>(sysconf(_SC_CLK_TCK)), seconds(use.ru_utime) + seconds(use.ru_stime)};
}

}  // namespace

void report(const Request& request, const std::string& workload, std::vector<double> seconds,
            const std::string& more) {
  std::ranges::sort(seconds);
  fmt::print(R"({{"peer":"ours","workload":"{}","threads":{},"sec":{:.9g},"best":{:.9g},"n":{}{}}})"
             "\n",
             workload, request.threads, seconds[seconds.size() / 2], seconds[0], seconds.size(), more);
  std::fflush(stdout);
}

void measure(const Request& request, const std::string& workload, const std::function<void()>& call,
             const std::function<void()>& check, const Work& work, int times) {
  for (int i = 0; i < 3; i++) call();  // runs, captures, replays
  lathe::reset_counters();
  std::vector<double> seconds;
  const CpuTime before = cpu_time();
  const double start = lathe::now_seconds();
  while (lathe::now_seconds() - start < request.seconds || seconds.size() < 5) {
    const double began = lathe::now_seconds();
    call();
    seconds.push_back((lathe::now_seconds() - began) / times);
  }
  const double wall = lathe::now_seconds() - start;
  const CpuTime after = cpu_time();
  const lathe::Counters c = lathe::counters();
  check();
  const double others = (after.machine - before.machine) - (after.own - before.own);
  std::string more = fmt::format(
      R"(,"noise":{:.3f},"kernels":{},"schedules":{},"compiled":{},"allocations":{},"peak_mb":{:.1f})",
      std::max(0.0, others / wall), static_cast<double>(c.kernels) / static_cast<double>(seconds.size()),
      c.schedules, c.compiled, c.allocations, static_cast<double>(c.peak_memory) * 1e-6);
  if (work.amount > 0) {
    const double best = *std::ranges::min_element(seconds);
    more += fmt::format(R"(,"work":{:.6g},"limit":"{}","rate_best":{:.4g})", work.amount, work.limit,
                        work.amount / best);
  }
  if (!work.note.empty()) more += fmt::format(",{}", work.note);
  report(request, workload, std::move(seconds), more);
}

lathe::Tensor random_values(const lathe::Shape& shape) {
  return lathe::Tensor::uniform(shape, -1, 1).realize();
}

void require_close(const lathe::Tensor& got, const lathe::Tensor& want, double tolerance) {
  const std::vector<float> a = got.to_vector<float>(), b = want.to_vector<float>();
  require(a.size() == b.size(), "{} numbers where {} are right", a.size(), b.size());
  double largest = 0, off = 0;
  for (size_t i = 0; i < a.size(); i++) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= off)) off = difference;  // NaN stays
  }
  require(off <= tolerance * largest, "off by {} where the largest number is {}", off, largest);
}

}  // namespace bench

namespace {

using bench::Request, bench::Workload;

std::vector<Workload> workloads() {
  std::vector<Workload> all;
  for (std::vector<Workload> (*theme)() :
       {bench::operators, bench::models, bench::quantised, bench::first_runs})
    for (Workload& w : theme()) all.push_back(std::move(w));
  return all;
}

Request parse(int argc, char** argv) {
  Request out{std::atoi(argv[1]), std::atof(argv[2]), {}};
  std::istringstream only(argc > 3 ? argv[3] : "");
  for (std::string prefix; std::getline(only, prefix, ',');)
    if (!prefix.empty()) out.prefixes.push_back(prefix);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--first-run")
    return bench::first_run_in_this_process(argv[2]);
  const std::vector<Workload> all = workloads();
  if (argc < 3 || std::atoi(argv[1]) < 1) {
    fmt::print(stderr, "usage: lathe_bench THREADS SECONDS [ONLY]\nworkloads:");
    for (const Workload& w : all) fmt::print(stderr, " {}", w.name);
    fmt::print(stderr, "\nexample: lathe_bench 2 5 gemm_f32,mnist\n");
    return 2;
  }
  const Request request = parse(argc, argv);
  lathe::KnobScope threads(lathe::Knob::CPU_COUNT, request.threads);
  int failed = 0;
  for (const Workload& w : all) {
    if (!request.prefixes.empty() &&
        std::ranges::none_of(request.prefixes, [&](const std::string& p) { return w.name.starts_with(p); }))
      continue;
    lathe::Tensor::manual_seed(1);
    try {
      w.run(request, w.name);
    } catch (const bench::WrongResult& wrong) {
      fmt::print(stderr, "{}: wrong result: {}\n", w.name, wrong.what());
      failed = 1;
    } catch (const lathe::Error& error) {
      fmt::print(stderr, "{}: {}\n", w.name, error.what());
      failed = 1;
    }
  }
  return failed;
}
