// The memory planner: what is in use at one step is apart.
#include "schedule/memory_plan.h"

#include "base/knobs.h"
#include "engine/counters.h"
#include "tensor/tensor.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

size_t aligned(size_t bytes) { return (bytes + kPlanAlign - 1) / kPlanAlign * kPlanAlign; }

// What a free list that reuses blocks of one size ends up with.
size_t naive_peak(const std::vector<Lifetime>& buffers, size_t steps) {
  std::map<size_t, size_t> in_use, made;
  for (size_t step = 0; step < steps; step++) {
    for (const Lifetime& b : buffers)
      if (b.first == step)
        made[aligned(b.bytes)] = std::max(made[aligned(b.bytes)], ++in_use[aligned(b.bytes)]);
    for (const Lifetime& b : buffers)
      if (b.last == step) in_use[aligned(b.bytes)]--;
  }
  size_t total = 0;
  for (const auto& [bytes, count] : made) total += bytes * count;
  return total;
}

// Most bytes in use at one step: no plan does with less.
size_t least_peak(const std::vector<Lifetime>& buffers, size_t steps) {
  size_t most = 0;
  for (size_t step = 0; step < steps; step++) {
    size_t now = 0;
    for (const Lifetime& b : buffers)
      if (b.first <= step && step <= b.last) now += aligned(b.bytes);
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

TEST_CASE("plans keep apart what is in use at one step, and need less than a free list") {
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  double planned = 0, least = 0, naive = 0;
  for (int round = 0; round < 2000; round++) {
    const size_t steps = 1 + below(40), n = below(60), kinds = 1 + below(8);
    std::vector<Lifetime> buffers;
    for (size_t i = 0; i < n; i++) {
      const size_t first = below(steps), last = std::min(steps - 1, first + below(1 + below(steps)));
      buffers.push_back({first, last, 1 + (below(kinds) * 977 + below(2) * 3) * (below(3) + 1)});
    }
    const MemoryPlan plan = plan_memory(buffers);
    REQUIRE(plan.offsets.size() == n);
    for (size_t i = 0; i < n; i++) {
      CHECK(plan.offsets[i] % kPlanAlign == 0);
      CHECK(plan.offsets[i] + buffers[i].bytes <= plan.bytes);
      for (size_t j = 0; j < i; j++) {
        const bool together = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
        const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
        if (together) CHECK(apart);
      }
    }
    CHECK(plan.bytes >= least_peak(buffers, steps));
    CHECK(plan.bytes <= naive_peak(buffers, steps));
    planned += static_cast<double>(plan.bytes);
    least += static_cast<double>(least_peak(buffers, steps));
    naive += static_cast<double>(naive_peak(buffers, steps));
  }
  MESSAGE("planned ", planned / least, ", a free list ", naive / least, " times the least");
  CHECK(planned < 1.1 * least);
}

TEST_CASE("plans of nothing, of one, and of very large buffers") {
  CHECK(plan_memory({}).bytes == 0);
  CHECK(plan_memory(std::vector<Lifetime>{{0, 0, 1}}).bytes == kPlanAlign);
  const size_t large = size_t{1} << 50;
  CHECK(plan_memory(std::vector<Lifetime>{{0, 1, large}, {1, 2, large}, {2, 3, large}}).bytes == 2 * large);
}

TEST_CASE("a schedule's inner buffers share memory, its values do not") {
  const auto peak_of = [](int planner_off) {
    KnobScope scope(Knob::NO_MEMORY_PLANNER, planner_off);
    const TensorOptions null{DType::Float32, "NULL"};
    const Tensor x = Tensor::ones({1024}, null).realize();
    reset_counters();
    const int64_t before = counters().memory;
    Tensor y = x;
    for (int64_t i = 0; i < 8; i++) y = (y.expand({2 + i, 1024}) * 2).contiguous().sum(0).contiguous();
    y.realize();
    CHECK(counters().memory == before + 4096);
    return std::pair(counters().peak_memory - before, counters().allocations);
  };
  const auto [shared, shared_count] = peak_of(0);
  const auto [separate, separate_count] = peak_of(1);
  CHECK(shared <= separate + 4096);
  CHECK(shared_count == 2);
  CHECK(separate_count > 2);
}
