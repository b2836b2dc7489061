// Beam search: what it tries computes the same, what it finds is the fastest, is kept and is used again.
#include "codegen/search.h"

#include "base/knobs.h"
#include "codegen/actions.h"
#include "codegen/lower.h"
#include "codegen/passes.h"
#include "engine/cancel.h"
#include "engine/compile.h"
#include "engine/launch.h"
#include "engine/tune.h"
#include "renderer/target.h"
#include "runtime/kernel_cache.h"
#include "schedule/schedule.h"
#include "tensor/tensor.h"

#include <cmath>
#include <random>

#include "support/test.h"

using namespace lathe;

namespace {

Tensor numbers(const Shape& shape, double step = 0.37) {
  std::vector<float> values(static_cast<size_t>(prod(shape).value()));
  for (size_t i = 0; i < values.size(); i++)
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
  return Tensor::from(values, shape).realize();
}

ScheduledKernel kernel_of(const Tensor& t) {
  Schedule schedule = make_schedule({&t.uop(), 1});
  REQUIRE(schedule.kernels.size() == 1);
  return schedule.kernels[0];
}

std::vector<float> run(const ScheduledKernel& k, const CompiledKernel& program) {
  std::vector<Buffer*> memory;
  for (const int slot : program.slots)
    memory.push_back(memory_of(k.buffers[static_cast<size_t>(slot)]).get());
  const std::vector<std::byte> empty(memory[0]->size(), std::byte{0x7f});
  memory[0]->copy_in(empty);
  program.program->run(memory, {}, program.n_cores, true);
  std::vector<float> out(memory[0]->size() / sizeof(float));
  memory[0]->copy_out(std::as_writable_bytes(std::span(out)));
  return out;
}

using Schedules = std::vector<std::vector<Action>>;

}  // namespace

TEST_CASE("actions print and parse") {
  for (const char* text :
       {"", "Upcast(0, 4)", "Vector(1, 32) Swap(0, 2) Stage(1, 0) Upcast(-1, -2147483648)"}) {
    const auto actions = parse_actions(text);
    REQUIRE(actions.ok());
    CHECK(print_actions(actions.value()) == text);
  }
  for (const char* text :
       {"Upcast", "Upcast(0,4)", "Upcast(0, 4", "Upcast(, 4)", "Upcast(0, )", "Nothing(0, 4)",
        "Upcast(0, 4) ", " Upcast(0, 4)", "Upcast(0, 4)Upcast(0, 4)", ")(", "Upcast(0, 99999999999)"})
    CHECK_MESSAGE(!parse_actions(text).ok(), text);
}

TEST_CASE("what a search may try computes the same inside its buffers") {
  const KnobScope threads(Knob::CPU_COUNT, 2);
  const Target target = device("CPU").target();
  const Tensor a = numbers({24, 48}), b = numbers({48, 32}, 0.7), image = numbers({2, 6, 9, 9}),
               filter = numbers({8, 6, 3, 3}, 0.9);
  const Tensor codes = (a * 100).cast(DType::Int8).realize(),
               bytes = (b * b * 200).cast(DType::UInt8).realize();
  const auto wide = [](const Tensor& t) { return t.cast(DType::Int32); };
  const Tensor tests[] = {a.matmul(b),
                          (a * 2 + 1).relu(),
                          a.sum(1) * 3,
                          a.sum(0),
                          a.transpose(0, 1).contiguous(),
                          image.conv2d(filter, std::nullopt, {.padding = 1}),
                          a.pad({{{1, 2}, {3, 1}}}) + 1,
                          a.cumsum(1),
                          a.max(1),
                          a.softmax(1),
                          a.layernorm(),
                          wide(codes).matmul(wide(bytes)).cast(DType::Float32)};
  std::mt19937 random(1);
  int n = 0;
  for (const Tensor& t : tests) {
    const ScheduledKernel k = kernel_of(t);
    const UOp body = prepare_kernel(k.body, target);
    const std::vector<float> expected = run(k, *try_compile(k.body, device("CPU"), {}));
    for (const Schedules& start : {Schedules{merge_ranges(body).arg_as<KernelPtr>()->actions},
                                   Schedules{optimise(body, target).arg_as<KernelPtr>()->actions}})
      for (int walk = 0; walk < 6; walk++) {
        std::vector<Action> actions = start[0];
        std::unordered_set<UOp> seen;
        for (int step = 0; step < 4; step++) {
          const Schedules next = neighbours(body, target, 64, actions, seen);
          if (next.empty()) break;
          actions = next[random() % next.size()];
          CAPTURE(print_actions(actions));
          const std::vector<float> got = run(k, *try_compile(k.body, device("CPU"), actions));
          double error = 0;
          for (size_t i = 0; i < got.size(); i++)
            error = std::max(error,
                             std::isnan(got[i]) ? 1.0 : std::abs(static_cast<double>(got[i]) - expected[i]));
          CHECK(error < 1e-4);
          n++;
        }
      }
  }
  CHECK(n > 200);
}

namespace {

// A kernel is as fast as it has copies and lanes.
double seconds_of(const std::vector<Action>& actions) {
  double n = 1;
  for (const Action& a : actions)
    if (a.kind == ActionKind::Upcast || a.kind == ActionKind::Vector) n *= a.amount;
  return 1 / n;
}

}  // namespace

TEST_CASE("a search goes where kernels get faster, and never behind the heuristic") {
  const UOp body = kernel_of(numbers({64, 64}) + 1).body;
  const Target target = device("CPU").target();
  int calls = 0;
  const TimeSchedules by_copies = [&](std::span<const std::vector<Action>> schedules) {
    calls++;
    std::vector<double> out;
    for (const auto& s : schedules) out.push_back(seconds_of(s));
    return out;
  };
  Search best(body, target, {.width = 2, .copies = 64}, by_copies);
  best.run();
  CHECK(best.best().seconds < best.heuristic().seconds);
  CHECK(best.best().seconds < 1.0 / 256);
  CHECK(best.best().seconds == seconds_of(best.best().actions));
  CHECK(best.tried() > calls);
  (void)lower(body, target, &best.best().actions);

  Search same(body, target, {}, [](auto schedules) { return std::vector<double>(schedules.size(), 1.0); });
  same.run();
  CHECK(same.best().actions == same.heuristic().actions);

  // Nor does chance lead away from it.
  for (const uint32_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    std::mt19937 random(seed);
    Search noisy(body, target, {.width = 4, .copies = 64}, [&](auto schedules) {
      std::vector<double> out(schedules.size());
      for (double& seconds : out) seconds = 1 + 0.04 * static_cast<double>(random() % 1024) / 1024;
      return out;
    });
    noisy.run();
    CHECK(noisy.best().actions == noisy.heuristic().actions);
  }

  // What was found before the timer threw stays.
  const int half = calls / 2;
  calls = 0;
  Search stopped(body, target, {.width = 2, .copies = 64}, [&](auto schedules) {
    if (calls == half) throw Cancelled("cancelled");
    return by_copies(schedules);
  });
  CHECK_THROWS_AS(stopped.run(), Cancelled);
  CHECK(stopped.best().seconds < stopped.heuristic().seconds);
}

TEST_CASE("schedules that would leave the Thread axis or a staged copy in pieces are illegal") {
  const UOp body = merge_ranges(
      prepare_kernel(kernel_of(numbers({32, 32}).matmul(numbers({32, 32}))).body, device("CPU").target()));
  const auto apply = [&](const char* text) {
    UOp out = body;
    const auto actions = parse_actions(text);
    for (const Action& a : actions.value()) out = apply_action(out, a);
  };
  apply("Thread(0, 4) Stage(1, 0)");
  CHECK_THROWS_AS(apply("Thread(0, 4) Tile(0, 2)"), UserError);
  CHECK_THROWS_AS(apply("Stage(1, 0) Upcast(1, 4)"), UserError);
  CHECK_THROWS_AS(apply("Stage(1, 0) Vector(1, 8)"), UserError);
}

TEST_CASE("BEAM times kernels once, and runs what it found as long as it is set") {
  const test::TempDir dir;
  const KnobScope cache(Knob::CACHEDB, dir.file("k.db")), level(Knob::CACHELEVEL, 2);
  const KnobScope limit(Knob::BEAM_SECONDS, 1);
  std::vector<Tuned> heard;
  const auto before = on_tuned([&](const Tuned& t) { heard.push_back(t); });
  const Tensor a = numbers({96, 80}), b = numbers({80, 112}, 0.5);
  const std::vector<float> expected = a.matmul(b).to_vector<float>();
  const UOp body = kernel_of(a.matmul(b)).body;
  CHECK(!found_schedule(body, device("CPU")));
  for (const int width : {1, 2}) {
    const KnobScope beam(Knob::BEAM, width);
    const std::vector<float> got = a.matmul(b).to_vector<float>();
    for (size_t i = 0; i < got.size(); i++) REQUIRE(std::abs(got[i] - expected[i]) < 1e-4);
    REQUIRE(heard.size() == 1);
    CHECK(heard[0].after <= heard[0].before);
    CHECK(heard[0].tried > 10);
    const auto found = found_schedule(body, device("CPU"));
    REQUIRE(found);
    CHECK(print_actions(*found) == heard[0].actions);
    CHECK(compile_kernels(std::vector{KernelRequest{body, &device("CPU")}})[0]->name == heard[0].name);
    CHECK(!found_schedule(body, device("INTERP")));
  }
  CHECK(!found_schedule(body, device("CPU")));
  CHECK(kernel_cache()->counts().stores > 1);
  on_tuned(before);
}
