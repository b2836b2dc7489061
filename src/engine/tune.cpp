#include "engine/tune.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "codegen/actions.h"
#include "codegen/search.h"
#include "engine/cancel.h"
#include "engine/compile.h"
#include "runtime/cpu/cpu_id.h"
#include "runtime/kernel_cache.h"
#include "uop/number_formats.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>

namespace lathe {
namespace {

constexpr std::string_view kTable = "schedule";
constexpr int kVersion = 1;  // counts up where the meaning of actions changes
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Found in this process. A schedule of the kernel cache is looked up once.
struct Found {
  std::mutex mutex;
  std::unordered_map<Hash128, std::optional<std::string>> schedules;
  std::function<void(const Tuned&)> listener;
};
Found& found() {
  static auto* const all = new Found;
  return *all;
}

// The program's key without what the search decides, and with the machine in place of the device's number.
Hash128 schedule_key(const UOp& body, const Device& device) {
  const std::string key = fmt::format("{}:{}{}", kVersion, device.target().key(), lowering_knobs());
  return hash_text(key, hash_text(to_hex(body.hash()), cpu_id()));
}

bool is_searched(const UOp& body, Device& device) {
  const KernelArg& kernel = *body.arg_as<KernelPtr>();
  return knob(Knob::BEAM) > 0 && !knob(Knob::NOOPT) && device.renderer() &&
         device.memory().allocator().has_memory() && kernel.source.empty() && !kernel.given;
}

std::optional<std::string> look_up(const Hash128& key) {
  std::lock_guard lock(found().mutex);
  const auto [it, is_new] = found().schedules.try_emplace(key);
  if (KernelCache* cache = is_new ? kernel_cache() : nullptr) it->second = cache->find(kTable, key);
  return it->second;
}

void keep(const Hash128& key, const std::vector<Action>& actions) {
  const std::string text = print_actions(actions);
  std::lock_guard lock(found().mutex);
  found().schedules[key] = text;
  if (KernelCache* cache = kernel_cache()) cache->store(kTable, key, text);
}

// Numbers between 1/2 and 1: neither denormal nor growing without bound in products. Integers are 0, which is
// an index into everything.
std::vector<std::byte> contents(DType d, size_t bytes) {
  std::vector<std::byte> out(bytes);
  const auto size = static_cast<size_t>(item_size(d));
  if (!is_float(d)) return out;
  constexpr size_t kPeriod = 1021;
  for (size_t i = 0; i < std::min(kPeriod, bytes / size); i++) {
    const uint64_t bits = encode_float(0.5 + static_cast<double>(i) / (2 * kPeriod), d);
    std::memcpy(out.data() + i * size, &bits, size);
  }
  for (size_t i = kPeriod * size, n = 0; i < bytes; i += n)
    std::memcpy(out.data() + i, out.data(), n = std::min(i, bytes - i));
  return out;
}

// Runs schedules of one kernel over the same memory.
class ScheduleTimer {
 public:
  ScheduleTimer(const UOp& body, Device& device) : body_(body), device_(device) {
    for (const UOp& u : toposort(body)) {
      if (u.op() != Op::Param) continue;
      if (u.param().space == AddrSpace::Alu) {
        variables_[u.param().name] = u.bounds().hi.as_i64();
        continue;
      }
      const auto bytes = static_cast<size_t>(prod(u.shape()).vmax() * item_size(u.dtype()));
      auto& buffer = buffers_[static_cast<int>(u.param().slot)] = Buffer::make(device, bytes);
      buffer->copy_in(contents(u.dtype(), bytes));
    }
  }

  std::vector<double> operator()(std::span<const std::vector<Action>> schedules) {
    compile(schedules);
    // The first run reads its code, so there are two before anything is left out.
    std::vector<double> seconds;
    for (const auto& s : schedules) seconds.push_back(run(s));
    for (size_t i = 0; i < seconds.size(); i++)
      if (seconds[i] < kSlow) seconds[i] = std::min(seconds[i], run(schedules[i]));
    double limit = kSlower * kSlower;
    for (int round = 0; round < kRounds; round++, limit = kSlower) {
      for (size_t i = 0; i < seconds.size(); i++) {
        if (i > 0 && seconds[i] > limit * *std::ranges::min_element(seconds)) continue;
        const double until = now_seconds() + kTurnSeconds;
        do seconds[i] = std::min(seconds[i], run(schedules[i]));
        while (now_seconds() < until);
      }
    }
    return seconds;
  }

  std::string name(const std::vector<Action>& schedule) const {
    const auto& program = programs_.at(print_actions(schedule));
    return program ? program->name : std::string();
  }

 private:
  // How many times slower than the best of its batch a schedule may be to be timed on.
  static constexpr double kSlower = 1.5;
  static constexpr int kRounds = 5;
  static constexpr double kTurnSeconds = 400e-6, kSlow = 0.2;

  // Those that were not timed before, on all threads. What an earlier call compiled stays: the schedules that
  // a search keeps are timed again.
  void compile(std::span<const std::vector<Action>> schedules) {
    std::vector<std::pair<const std::vector<Action>*, std::unique_ptr<CompiledKernel>*>> todo;
    for (const auto& s : schedules)
      if (const auto [it, is_new] = programs_.try_emplace(print_actions(s)); is_new)
        todo.emplace_back(&s, &it->second);
    const KnobScope objects(Knob::CACHELEVEL, 0);  // a search would fill the file with what nobody runs
    thread_pool().run(static_cast<int>(todo.size()), [&](int i) {
      const auto& [actions, program] = todo[static_cast<size_t>(i)];
      try {
        *program = try_compile(body_, device_, *actions);
      } catch (const std::exception& e) {
        const std::string_view why = e.what();
        if (knob(Knob::DEBUG) >= 2)
          debug_line("search: {} is left out: {}", print_actions(*actions), why.substr(0, why.find('\n')));
      }
    });
  }

  double run(const std::vector<Action>& schedule) {
    stop_if_cancelled();
    const CompiledKernel* k = programs_.at(print_actions(schedule)).get();
    if (!k) return kInfinity;
    SmallVec<Buffer*, 8> memory;
    SmallVec<int64_t, 4> vars;
    for (const int slot : k->slots) memory.push_back(buffers_.at(slot).get());
    for (const std::string& name : k->variables) vars.push_back(variables_.at(name));
    return k->program->run({memory.data(), memory.size()}, {vars.data(), vars.size()}, k->n_cores, true);
  }

  const UOp body_;
  Device& device_;
  std::map<int, std::shared_ptr<Buffer>> buffers_;  // by slot
  std::map<std::string, int64_t> variables_;        // at their largest
  std::map<std::string, std::unique_ptr<CompiledKernel>> programs_;
};

}  // namespace

std::optional<std::vector<Action>> found_schedule(const UOp& body, Device& device) {
  if (!is_searched(body, device)) return std::nullopt;
  const std::optional<std::string> text = look_up(schedule_key(body, device));
  if (!text) return std::nullopt;
  const Result<std::vector<Action>> actions = parse_actions(*text);
  return actions.ok() ? std::optional(actions.value()) : std::nullopt;
}

void find_schedule(const UOp& body, Device& device) {
  if (!is_searched(body, device) || found_schedule(body, device)) return;
  std::optional<ScheduleTimer> timer;
  try {
    timer.emplace(body, device);
  } catch (const DeviceError& e) {
    return log_warn_once("search memory", "a kernel is not searched for want of memory: {}", e.what());
  }
  const SearchOptions options{knob(Knob::BEAM), knob(Knob::BEAM_COPIES),
                              static_cast<double>(knob(Knob::BEAM_SECONDS))};
  Search search(body, device.target(), options, std::ref(*timer));
  const Hash128 key = schedule_key(body, device);
  try {
    search.run();
  } catch (const Cancelled&) {
    if (search.best().seconds < search.heuristic().seconds) keep(key, search.best().actions);
    throw;
  }
  keep(key, search.best().actions);
  std::function<void(const Tuned&)> listener;
  {
    std::lock_guard lock(found().mutex);
    listener = found().listener;
  }
  if (listener)
    listener({timer->name(search.best().actions), print_actions(search.best().actions),
              search.heuristic().seconds, search.best().seconds, search.tried()});
}

std::function<void(const Tuned&)> on_tuned(std::function<void(const Tuned&)> listener) {
  std::lock_guard lock(found().mutex);
  return std::exchange(found().listener, std::move(listener));
}

}  // namespace lathe
