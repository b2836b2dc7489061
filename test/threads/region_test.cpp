// Kernels in one parallel region do what they do one after the other.
#include "engine/region.h"

#include "base/knobs.h"

#include <array>
#include <random>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

constexpr int64_t kLength = 64;
constexpr int kCores = 4;

// out[i] = 3·a[i] + b[length-1-i] + salt for the core's part of the elements; vars: salt, cores.
void mix(void* const* bufs, const int64_t* vars, int64_t core) {
  auto* out = static_cast<int64_t*>(bufs[0]);
  const auto *a = static_cast<const int64_t*>(bufs[1]), *b = static_cast<const int64_t*>(bufs[2]);
  const int64_t part = kLength / vars[1];
  for (int64_t i = core * part; i < (core + 1) * part; i++) out[i] = 3 * a[i] + b[kLength - 1 - i] + vars[0];
}

using Memory = std::vector<std::array<int64_t, kLength>>;

struct Kernels {
  std::vector<size_t> buffers;  // three a kernel
  std::vector<int64_t> vars;    // two a kernel
  Region region;
};

Kernels random_kernels(std::mt19937& random, size_t n_buffers, int n_kernels) {
  Kernels out;
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int k = 0; k < n_kernels; k++) {
    const std::array<size_t, 3> b{below(n_buffers), below(n_buffers), below(n_buffers)};
    if (b[0] == b[1] || b[0] == b[2]) continue;  // a kernel reads what no core of it writes
    const int n_cores = below(3) == 0 ? kCores : 1;
    std::vector<MemoryUse> uses;
    for (size_t i = 0; i < 3; i++) {
      const size_t at = b[i] * sizeof(Memory::value_type);
      uses.push_back({&out, at, at + sizeof(Memory::value_type), i == 0});
    }
    out.region.add(mix, n_cores, out.buffers.size(), out.vars.size(), below(2) ? 1e6 : 1, uses);
    out.buffers.insert(out.buffers.end(), b.begin(), b.end());
    out.vars.insert(out.vars.end(), {static_cast<int64_t>(k), n_cores});
  }
  return out;
}

Memory start(size_t n) {
  Memory m(n);
  for (size_t b = 0; b < n; b++)
    for (size_t i = 0; i < kLength; i++) m[b][i] = static_cast<int64_t>(b * 100 + i);
  return m;
}

std::vector<void*> pointers(const Kernels& p, Memory& m) {
  std::vector<void*> out;
  for (size_t b : p.buffers) out.push_back(m[b].data());
  return out;
}

}  // namespace

TEST_CASE("random kernels over shared memory") {
  std::mt19937 random(5);
  for (int threads : {1, 2, 3, 4, 6}) {
    KnobScope cores(Knob::CPU_COUNT, threads);
    for (int round = 0; round < 60; round++) {
      const size_t n = 3 + random() % 12;
      const Kernels p = random_kernels(random, n, 60);
      Memory expected = start(n), got = start(n);
      const std::vector<void*> all = pointers(p, expected);
      for (size_t k = 0; k < p.region.n_kernels(); k++)
        for (int64_t core = 0; core < p.vars[2 * k + 1]; core++)
          mix(all.data() + 3 * k, p.vars.data() + 2 * k, core);
      p.region.run(pointers(p, got).data(), p.vars.data());
      CHECK(expected == got);
    }
  }
}

TEST_CASE("a chain of small kernels stays on one thread") {
  KnobScope cores(Knob::CPU_COUNT, 4);
  Region region;
  for (size_t k = 0; k < 20; k++) {
    const std::array uses{MemoryUse{&region, k + 1, k + 2, true}, MemoryUse{&region, k, k + 1, false}};
    region.add(mix, 1, 0, 0, 1e9, uses);
  }
  CHECK(region.n_meetings() == 0);
}

TEST_CASE("threads meet where one needs what another did, and only there") {
  KnobScope cores(Knob::CPU_COUNT, 2);
  Region region;
  const auto use = [&](size_t at, bool is_written) { return MemoryUse{&region, at, at + 1, is_written}; };
  const auto add = [&](int n_cores, std::vector<MemoryUse> uses) {
    region.add(mix, n_cores, 0, 0, 1e9, uses);
  };
  add(1, {use(0, true)});
  add(1, {use(1, true)});                 // another thread
  add(1, {use(1, false), use(2, true)});  // the same one
  CHECK(region.n_meetings() == 0);
  add(1, {use(0, false), use(2, false), use(3, true)});  // needs both
  CHECK(region.n_meetings() == 1);
  add(2, {use(4, true)});  // has nothing to do with it
  CHECK(region.n_meetings() == 1);
  add(2, {use(4, false), use(5, true)});  // other parts of 4 than its own
  CHECK(region.n_meetings() == 2);
  add(1, {use(4, true)});  // which is still being read
  CHECK(region.n_meetings() == 3);
}
