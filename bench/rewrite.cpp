// The matcher and the driver, per node: with the simplifier's own rules over a graph that is already simple
// (what most visits are), and with a rule that fires at every node.
#include "uop/rewrite.h"

#include "uop/simplify.h"

#include <benchmark/benchmark.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <random>

namespace lathe {
namespace {

using namespace pat;

// User-space instructions of this thread, where the kernel lets us count them.
class InstructionCounter {
 public:
  InstructionCounter() {
    perf_event_attr attr;
    std::memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_HARDWARE;
    attr.config = PERF_COUNT_HW_INSTRUCTIONS;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    fd_ = static_cast<int>(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
  }
  ~InstructionCounter() {
    if (fd_ >= 0) close(fd_);
  }
  bool available() const { return fd_ >= 0; }
  uint64_t read_count() const {
    uint64_t n = 0;
    return fd_ >= 0 && read(fd_, &n, sizeof n) == sizeof n ? n : 0;
  }

 private:
  int fd_;
};

// Reports time and instructions for each of `nodes` nodes of an iteration.
template <class F>
void per_node(benchmark::State& state, size_t nodes, F&& work) {
  const InstructionCounter counter;
  const uint64_t before = counter.read_count();
  for (auto _ : state) work();
  const double visits = static_cast<double>(nodes) * static_cast<double>(state.iterations());
  state.counters["nodes"] = static_cast<double>(nodes);
  // An inverted rate: seconds a node, printed with its SI prefix.
  state.counters["time/node"] =
      benchmark::Counter(visits, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  if (counter.available())
    state.counters["instr/node"] = static_cast<double>(counter.read_count() - before) / visits;
}

// About `n` nodes of what kernels hold: float arithmetic over loads at index expressions.
UOp kernel_like(size_t n) {
  std::mt19937 random(1);
  const UOp buffer = param(0, {1 << 20}, DType::Float32);
  const UOp rows = range(1024, 0, AxisType::Loop), columns = range(512, 1, AxisType::Loop);
  std::vector<UOp> pool;
  for (int i = 0; i < 64; i++)
    pool.push_back(
        load(index(buffer, rows * static_cast<int64_t>(1 + i % 4) + columns + static_cast<int64_t>(i))));
  const auto pick = [&] { return pool[pool.size() - 1 - random() % std::min<size_t>(pool.size(), 256)]; };
  while (pool.size() < n * 4 / 5) {  // the rest are constants, conditions and products below these
    const UOp l = pick(), r = pick();
    switch (random() % 8) {
      case 0:
      case 1: pool.push_back(l + r); break;
      case 2:
      case 3: pool.push_back(l * r); break;
      case 4: pool.push_back(l * constant(Scalar(1.25 + static_cast<double>(pool.size())))); break;
      // Branches stay shallow: rules on Where search them, and that is not what is measured here.
      case 5:
        pool.push_back(l + where(lt(pool[random() % 64], r), pool[random() % 64], pool[random() % 64]));
        break;
      case 6: pool.push_back(alu(Op::Sqrt, {l})); break;
      default: pool.push_back(maximum(l, r)); break;
    }
  }
  std::vector<UOp> stores;
  for (size_t i = pool.size() - 256; i < pool.size(); i++)
    stores.push_back(store(index(buffer, rows + static_cast<int64_t>(i % 1000)), pool[i]));
  return sink(stores);
}

// Simple already: rules look at every node and change none.
UOp simple_graph(benchmark::State& state) {
  const UOp graph = simplify(simplify(kernel_like(static_cast<size_t>(state.range(0)))));
  if (!(simplify(graph) == graph)) state.SkipWithError("the graph is not simple");
  return graph;
}

void rewrite_nothing(benchmark::State& state, const Matcher<UOp>& rules) {
  const UOp graph = simple_graph(state);
  per_node(state, toposort(graph).size(), [&] { benchmark::DoNotOptimize(graph_rewrite(graph, rules)); });
}
// Noting nothing on nodes, so that every iteration visits all of them.
const Matcher<UOp>& every_symbolic_rule() {
  static const Matcher<UOp> rules({symbolic_rule_set()});
  return rules;
}
const Matcher<UOp>& no_rules() {
  static const Matcher<UOp> none;
  return none;
}
BENCHMARK_CAPTURE(rewrite_nothing, no_rules, no_rules())
    ->Arg(3000)
    ->Arg(100000)
    ->Unit(benchmark::kMillisecond);
// Nodes that are known to be simple.
BENCHMARK_CAPTURE(rewrite_nothing, noted_rules, symbolic_rules())->Arg(100000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(rewrite_nothing, symbolic_rules, every_symbolic_rule())
    ->Arg(3000)
    ->Arg(100000)
    ->Unit(benchmark::kMillisecond);

// Without the driver.
void match_only(benchmark::State& state) {
  const std::vector<UOp> nodes = toposort(simple_graph(state));
  const Matcher<UOp>& rules = symbolic_rules();
  Match match;
  state.counters["rules"] = static_cast<double>(rules.size());
  per_node(state, nodes.size(), [&] {
    for (const UOp& n : nodes) benchmark::DoNotOptimize(rules.rewrite(n, match));
  });
}
BENCHMARK(match_only)->Arg(3000)->Arg(100000)->Unit(benchmark::kMillisecond);

void visit_only(benchmark::State& state) {
  const UOp graph = simple_graph(state);
  per_node(state, toposort(graph).size(), [&] { benchmark::DoNotOptimize(toposort(graph)); });
}
BENCHMARK(visit_only)->Arg(3000)->Arg(100000)->Unit(benchmark::kMillisecond);

// A chain where the rule fires at every second node and all are rebuilt.
void rewrite_everything(benchmark::State& state) {
  static constexpr auto kRules = rules(rule(x + 2, x + 3));
  static const Matcher<UOp> matcher(kRules);
  UOp chain = variable("a", 0, 100);
  for (int i = 0; i < 50000; i++) chain = alu(Op::Sqrt, {chain + 2});
  per_node(state, 100000, [&] { benchmark::DoNotOptimize(graph_rewrite(chain, matcher)); });
}
BENCHMARK(rewrite_everything)->Unit(benchmark::kMillisecond);

// An index of 200 terms in disorder, new in every iteration: products, quotients and remainders of 100 loops.
void simplify_200_terms(benchmark::State& state) {
  int first = 0;
  size_t nodes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    UOp sum = constant(Scalar(0));
    for (int i = 0; i < 200; i++) {
      const UOp r = range(8 + i % 100, first + i * 37 % 100, AxisType::Loop);
      const int64_t factor = 3 + i * 7 % 50;
      sum = i % 4 == 0 ? sum + r / 4 * factor : i % 4 == 1 ? sum + r % 4 * factor : r * factor + (sum + i);
    }
    first += 100;
    nodes = toposort(sum).size();
    state.ResumeTiming();
    benchmark::DoNotOptimize(simplify(sum));
  }
  state.counters["nodes"] = static_cast<double>(nodes);
}
BENCHMARK(simplify_200_terms)->Unit(benchmark::kMicrosecond);

// What a pass costs on a graph of a few nodes, as shapes and index expressions are.
void rewrite_small(benchmark::State& state) {
  const UOp graph = simplify(range(16, 0, AxisType::Loop) * 4 + range(4, 1, AxisType::Loop));
  for (auto _ : state) benchmark::DoNotOptimize(graph_rewrite(graph, every_symbolic_rule()));
  state.counters["nodes"] = static_cast<double>(toposort(graph).size());
}
BENCHMARK(rewrite_small);

void build_matcher(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Matcher<UOp>({symbolic_rule_set()}));
  state.counters["rules"] = static_cast<double>(symbolic_rules().size());
}
BENCHMARK(build_matcher)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lathe
