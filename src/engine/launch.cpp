#include "engine/launch.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "engine/cancel.h"
#include "engine/counters.h"
#include "engine/profile.h"
#include "schedule/memory_plan.h"
#include "uop/dtype.h"

#include <algorithm>

namespace lathe {
namespace {

void show_launch(const std::string& device_name, const CompiledKernel& k, double seconds, uint64_t number) {
  const double giga = 1e-9 / std::max(seconds, 1e-12);
  debug_line("{:>5} {:<8} {} {:10.2f} us {:9.2f} GFLOP/s {:8.2f} GB/s", number, device_name,
             k.colored_name + std::string(k.name.size() < 40 ? 40 - k.name.size() : 0, ' '), seconds * 1e6,
             k.work.flops * giga, k.work.bytes * giga);
}

// It ends now, and took `seconds`, or without them the time since `start`.
void profile_step(const Launch& launch, double start, std::optional<double> seconds) {
  const double end = now_seconds();
  std::string args, buffers;
  for (const UOp& b : launch.buffers)
    buffers += (buffers.empty() ? "" : ",") + json_quoted(fmt::format("{} {}", b.dtype(), b.shape()));
  double flops = 0, bytes = 0;
  if (const CompiledKernel* k = launch.kernel.get()) {
    flops = k->work.flops, bytes = k->work.bytes;
    args = fmt::format(R"("actions":{},"threads":{},)", json_quoted(k->actions), k->n_cores);
  } else {
    bytes = static_cast<double>(storage_bytes(launch.buffers[0]));
    args = fmt::format(R"("from":{},)", json_quoted(launch.buffers[1].device()));
  }
  if (seconds) start = std::max(start, end - *seconds);
  profile_event(launch.kernel ? "kernel" : "copy", launch.kernel ? launch.kernel->name : "copy", start,
                seconds.value_or(end - start),
                fmt::format(R"({}"flops":{:.0f},"bytes":{:.0f},"buffers":[{}])", args, flops, bytes, buffers),
                launch.device->name());
}

Launch make_launch(const ScheduledKernel& k, std::shared_ptr<const CompiledKernel> kernel,
                   const VariableValues& values) {
  Launch out{std::move(kernel), {}, 0, &device(k.device)};
  for (const int slot : out.kernel->slots) {
    out.n_written += static_cast<size_t>(slot) < k.n_written;
    out.buffers.push_back(k.buffers[static_cast<size_t>(slot)]);
  }
  for (const std::string& name : out.kernel->variables) {
    const auto it = values.find(name);
    if (it == values.end()) user_runtime_error("unbound Variable {} used by {}", name, out.kernel->name);
    out.vars.push_back(it->second);
  }
  return out;
}

}  // namespace

std::vector<Launch> make_launches(std::span<const ScheduledKernel> kernels, const VariableValues& values) {
  std::vector<KernelRequest> requests;
  for (const ScheduledKernel& k : kernels)
    if (!k.is_copy()) requests.push_back({k.body, &device(k.device)});
  auto compiled = compile_kernels(requests);
  std::vector<Launch> out;
  size_t at = 0;
  for (const ScheduledKernel& k : kernels)
    out.push_back(k.is_copy() ? Launch{nullptr, k.buffers, 1, &device(k.device)}
                              : make_launch(k, std::move(compiled[at++]), values));
  return out;
}

void run_step(const Launch& launch, std::span<Buffer* const> memory, std::span<const int64_t> vars) {
  const bool shown = knob(Knob::DEBUG) >= 2, kept = is_profiling();
  const double start = kept ? now_seconds() : 0;
  for (Buffer* b : memory.first(launch.n_written)) b->mark_written();
  if (!launch.kernel) {
    copy_bytes(*memory[0], *memory[1]);
    if (kept) profile_step(launch, start, std::nullopt);
    if (shown)
      debug_line("      {:<8} copy {} bytes from {}", launch.device->name(), memory[1]->size(),
                 memory[1]->device().name());
    return;
  }
  const CompiledKernel& k = *launch.kernel;
  const double seconds = k.program->run(memory, vars, k.n_cores, shown || kept);
  if (kept) profile_step(launch, start, seconds);
  uint64_t number = 0;
  count([&](Counters& c) {
    number = ++c.kernels;
    c.flops += k.work.flops;
    c.bytes += k.work.bytes;
    c.seconds += seconds;
  });
  if (shown) show_launch(launch.device->name(), k, seconds, number);
}

void run_launch(const Launch& launch) {
  const double start = is_profiling() ? now_seconds() : 0;
  SmallVec<std::shared_ptr<Buffer>, 8> held;
  SmallVec<Buffer*, 8> memory;
  for (const UOp& b : launch.buffers) {
    held.push_back(memory_of(b));
    memory.push_back(held.back().get());
  }
  run_step(launch, {memory.data(), memory.size()}, launch.vars);
  if (start) profile_event("launch", "launch", start, now_seconds() - start, "");
}

void run_launches(std::vector<Launch> launches, std::vector<Arena> arenas) {
  const auto overwrites = [](const Launch& l) {
    return std::ranges::any_of(l.written(), [](const UOp& b) { return b.param().store->storage != nullptr; });
  };
  const auto first = std::ranges::find_if(launches, overwrites);
  for (const Arena& a : arenas) {
    const auto memory = make_arena(a);
    for (size_t i = 0; i < memory.size(); i++) a.places[i].buffer.param().store->storage = memory[i];
  }
  arenas.clear();  // memory goes with the last of its buffers
  for (auto it = launches.begin(); it != launches.end(); ++it) {
    if (it <= first) stop_if_cancelled();
    if (it == first)
      for (auto rest = it; rest != launches.end(); ++rest)
        for (const UOp& b : rest->buffers) memory_of(b)->allocate();
    run_launch(*it);
    *it = {};  // the last reader of an intermediate buffer frees it
  }
}

std::shared_ptr<Buffer> memory_of(const UOp& buffer) {
  auto& storage = buffer.param().store->storage;
  if (!storage) storage = Buffer::make(device(buffer.param().device), storage_bytes(buffer));
  return std::static_pointer_cast<Buffer>(storage);
}

std::vector<std::shared_ptr<Buffer>> make_arena(const Arena& arena) {
  const auto limit = static_cast<size_t>(std::max(0, knob(Knob::MAX_BUFFER_SIZE)));
  const bool is_shared = !knob(Knob::NO_MEMORY_PLANNER) && (limit == 0 || arena.bytes <= limit);
  Device& dev = device(arena.device);
  const std::shared_ptr<Buffer> whole = is_shared ? Buffer::make(dev, arena.bytes) : nullptr;
  std::vector<std::shared_ptr<Buffer>> out;
  for (const auto& [buffer, offset] : arena.places) {
    const size_t bytes = storage_bytes(buffer);
    out.push_back(is_shared ? Buffer::view(whole, offset, bytes) : Buffer::make(dev, bytes));
  }
  return out;
}

std::unique_lock<std::mutex> lock_engine() {
  static std::mutex mutex;
  return std::unique_lock(mutex);
}

}  // namespace lathe
