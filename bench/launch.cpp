// What a kernel of a captured graph costs the host: a chain of kernels that do next to nothing, replayed. The
// counter is wall time over kernels. `plain` schedules and launches the same kernels one by one, without
// capture.
#include "base/knobs.h"
#include "engine/counters.h"
#include "tensor/jit.h"

#include <benchmark/benchmark.h>

namespace lathe {
namespace {

constexpr int kKernels = 500;

Tensor filled(int64_t n) {
  const Tensor x = Tensor::full({SInt(n)}, 1.0);
  return x.realize();
}

// `width` chains next to each other, and their sum.
Tensor chains(const Tensor& x, int width) {
  Tensor sum = x;
  for (int w = 0; w < width; w++) {
    Tensor y = x;
    for (int i = 0; i < kKernels / width; i++) y = (y + (w + 2)).contiguous();
    sum = sum + y;
  }
  return sum;
}

void report(benchmark::State& state, uint64_t kernels) {
  state.counters["kernels"] = static_cast<double>(kernels);
  state.counters["time/kernel"] =
      benchmark::Counter(static_cast<double>(kernels) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Arguments: threads, elements of a tensor, chains.
void replay(benchmark::State& state) {
  KnobScope threads(Knob::CPU_COUNT, static_cast<int>(state.range(0)));
  auto f = jit([&](const Tensor& x) { return chains(x, static_cast<int>(state.range(2))); });
  const Tensor x = filled(state.range(1));
  for (int i = 0; i < 3; i++) f(x);
  reset_counters();
  f(x);
  const uint64_t kernels = counters().kernels;
  for (auto _ : state) f(x);
  report(state, kernels);
}
BENCHMARK(replay)
    ->Args({1, 16, 1})
    ->Args({2, 16, 1})
    ->Args({2, 16, 4})
    ->Args({1, 1 << 16, 1})
    ->Args({2, 1 << 16, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void plain(benchmark::State& state) {
  KnobScope threads(Knob::CPU_COUNT, 1);
  const Tensor x = filled(16);
  chains(x, 1).realize();
  for (auto _ : state) chains(x, 1).realize();
  report(state, kKernels);
}
BENCHMARK(plain)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lathe
