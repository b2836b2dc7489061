// What the base folder costs its users: a parallel region, a knob, a hash, an update of a progress bar.

#include "base/hash.h"
#include "base/knobs.h"
#include "base/progress.h"
#include "base/small_vec.h"
#include "base/thread_pool.h"

#include <benchmark/benchmark.h>

#include <string>

using namespace lathe;

namespace {

void parallel_region(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) pool.run(pool.size(), [](int i) { benchmark::DoNotOptimize(i); });
}
BENCHMARK(parallel_region)->Arg(1)->Arg(2)->Arg(4)->UseRealTime();

void knob_read(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(knob(Knob::DEBUG));
}
BENCHMARK(knob_read);

void hash(benchmark::State& state) {
  std::string text(static_cast<std::size_t>(state.range(0)), 'x');
  Hash128 seed{1, 2};
  for (auto _ : state) benchmark::DoNotOptimize(seed = hash_text(text, seed));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(hash)->Arg(16)->Arg(64)->Arg(4096);

void progress_update(benchmark::State& state) {
  Progress bar("bench", 0);
  std::int64_t done = 0;
  for (auto _ : state) bar.update(++done, "note");
}
BENCHMARK(progress_update);

void small_vec_push(benchmark::State& state) {
  for (auto _ : state) {
    SmallVec<int, 8> v;
    for (int i = 0; i < 8; i++) v.push_back(i);
    benchmark::DoNotOptimize(v.data());
  }
}
BENCHMARK(small_vec_push);

}  // namespace
