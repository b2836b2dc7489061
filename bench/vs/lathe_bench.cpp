// Times workloads that other libraries have runners for, too, and prints one JSON line for each, so that
// whoever starts them in turn gets ratios of the same minutes: `lathe_bench THREADS SECONDS [ONLY]`. ONLY
// lists prefixes of workload names with commas in between; SECONDS is spent on each at least.
#include "base/clock.h"
#include "base/knobs.h"
#include "engine/counters.h"
#include "nn/layers.h"
#include "nn/optimizer.h"
#include "nn/training.h"
#include "tensor/jit.h"

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace nn = lathe::nn;
using lathe::Tensor;

namespace {

struct Request {
  int threads;
  double seconds;
  std::vector<std::string> prefixes;
};

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

// Runs `call` until the time is up and prints the median of its times.
void measure(const Request& request, const std::string& workload, const std::function<void()>& call) {
  for (int i = 0; i < 3; i++) call();  // runs, captures, replays
  lathe::reset_counters();
  std::vector<double> times;
  const CpuTime before = cpu_time();
  const double start = lathe::now_seconds();
  while (lathe::now_seconds() - start < request.seconds || times.size() < 5) {
    const double began = lathe::now_seconds();
    call();
    times.push_back(lathe::now_seconds() - began);
  }
  const double wall = lathe::now_seconds() - start;
  const CpuTime after = cpu_time();
  const double others = (after.machine - before.machine) - (after.own - before.own);
  const lathe::Counters c = lathe::counters();
  const auto calls = static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  fmt::print(
      R"({{"peer":"ours","workload":"{}","threads":{},"sec":{:.9g},"best":{:.9g},"n":{},"noise":{:.3f},)"
      R"("kernels":{},"schedules":{},"compiled":{},"allocations":{},"peak_mb":{:.1f}}})"
      "\n",
      workload, request.threads, times[times.size() / 2], times[0], times.size(),
      std::max(0.0, others / wall), static_cast<double>(c.kernels) / calls, c.schedules, c.compiled,
      c.allocations, static_cast<double>(c.peak_memory) * 1e-6);
  std::fflush(stdout);
}

// Two pairs of convolutions, each followed by normalisation and pooling.
struct DigitsNet {
  nn::Conv2d conv1{1, 32, 5}, conv2{32, 32, 5}, conv3{32, 64, 3}, conv4{64, 64, 3};
  nn::BatchNorm norm1{32}, norm2{64};
  nn::Linear head{576, 10};

  Tensor operator()(const Tensor& images) {
    const Tensor half = norm1(conv2(conv1(images).relu()).relu()).max_pool2d();
    return head(norm2(conv4(conv3(half).relu()).relu()).max_pool2d().flatten(1));
  }
  void each(auto&& visit) const {
    visit("conv1", conv1);
    visit("conv2", conv2);
    visit("norm1", norm1);
    visit("conv3", conv3);
    visit("conv4", conv4);
    visit("norm2", norm2);
    visit("head", head);
  }
};

void mnist_train(const Request& request, const std::string& workload) {
  DigitsNet net;
  Tensor::realize(nn::parameters(net));
  nn::Adam adam(nn::parameters(net), {.lr = 1e-3});
  const nn::TrainingScope training;
  auto step = lathe::jit([&](const Tensor& images, const Tensor& labels) {
    adam.zero_grad();
    const Tensor loss = net(images.detach()).sparse_categorical_crossentropy(labels);
    loss.backward();
    adam.step(std::vector{loss});
    return loss;
  });
  const Tensor images = Tensor::randn({512, 1, 28, 28}), labels = Tensor::randint({512});
  Tensor::realize(std::vector{images, labels});
  measure(request, workload, [&] { step(images, labels).item<float>(); });
}

struct Workload {
  std::string name;
  void (*run)(const Request&, const std::string& name);
};
const std::vector<Workload> kWorkloads = {{"mnist_train_b512", mnist_train}};

Request parse(int argc, char** argv) {
  Request out{std::atoi(argv[1]), std::atof(argv[2]), {}};
  std::istringstream only(argc > 3 ? argv[3] : "");
  for (std::string prefix; std::getline(only, prefix, ',');)
    if (!prefix.empty()) out.prefixes.push_back(prefix);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || std::atoi(argv[1]) < 1) {
    fmt::print(stderr, "usage: lathe_bench THREADS SECONDS [ONLY]\nworkloads:");
    for (const Workload& w : kWorkloads) fmt::print(stderr, " {}", w.name);
    fmt::print(stderr, "\nexample: lathe_bench 2 5 mnist\n");
    return 2;
  }
  const Request request = parse(argc, argv);
  lathe::KnobScope threads(lathe::Knob::CPU_COUNT, request.threads);
  for (const Workload& w : kWorkloads)
    if (request.prefixes.empty() ||
        std::ranges::any_of(request.prefixes, [&](const std::string& p) { return w.name.starts_with(p); }))
      w.run(request, w.name);
  return 0;
}
