#include "engine/realize.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "engine/counters.h"
#include "engine/launch.h"
#include "engine/profile.h"
#include "engine/recording.h"
#include "engine/schedule_cache.h"
#include "runtime/buffer.h"

namespace lathe {
namespace {

// Of a realised value: a Buffer, or a view of its elements in row-major order without gaps. Null where there
// are no elements.
std::shared_ptr<Buffer> memory_of_value(const UOp& value) {
  const auto run = memory_run(value);
  if (!run || run->storage.op() != Op::Buffer)
    user_runtime_error("only realised values can be read, this is a {}", value.op());
  if (!storage_bytes(value)) return nullptr;
  return Buffer::view(memory_of(run->storage), static_cast<size_t>(run->first * item_size(value.dtype())),
                      storage_bytes(value));
}

}  // namespace

std::vector<Becomes> realize(std::span<const UOp> roots) {
  const auto lock = lock_engine();
  const double start = now_seconds();
  VariableValues values;
  Schedule schedule = cached_schedule(roots, values);
  count([](Counters& c) { c.schedules++; });
  if (knob(Knob::DEBUG) >= 1 && !schedule.kernels.empty())
    debug_line("scheduled {} kernels in {:.2f} ms{}", schedule.kernels.size(), (now_seconds() - start) * 1e3,
               schedule_cache_hit() ? "" : ", cache miss");
  if (is_profiling())
    profile_event(
        "schedule", "schedule", start, now_seconds() - start,
        fmt::format(R"("kernels":{},"is_cached":{})", schedule.kernels.size(), schedule_cache_hit()));
  if (Recording* recording = Recording::open()) {
    recording->add(schedule.kernels, values);
  } else {
    std::vector<Launch> launches = make_launches(schedule.kernels, values);
    schedule.kernels.clear();
    run_launches(std::move(launches), std::exchange(schedule.arenas, {}));
  }
  std::vector<Becomes> out;
  for (auto& [from, to] : schedule.becomes) out.push_back({std::move(from), std::move(to)});
  return out;
}

UOp buffer_from_host(const void* data, size_t bytes, const Shape& shape, DType dtype,
                     const std::string& device_name) {
  const UOp buffer = new_buffer(shape, dtype, canonical_device_name(device_name));
  CHECK(bytes == storage_bytes(buffer), "{} bytes for shape {} of {}", bytes, shape, dtype);
  if (bytes) memory_of(buffer)->copy_in({static_cast<const std::byte*>(data), bytes});
  return buffer;
}

UOp buffer_over(void* memory, const Shape& shape, DType dtype, const std::string& device_name,
                std::shared_ptr<const void> owner) {
  const UOp buffer = new_buffer(shape, dtype, canonical_device_name(device_name));
  buffer.param().store->storage =
      Buffer::external(device(buffer.param().device), memory, storage_bytes(buffer), std::move(owner));
  return buffer;
}

void lend_memory(const UOp& buffer, const std::optional<UOp>& value) {
  CHECK(!value || storage_bytes(buffer) == storage_bytes(*value), "{} lent to {}", value->shape(),
        buffer.shape());
  buffer.param().store->storage = value ? memory_of_value(*value) : nullptr;
}

void read_buffer(const UOp& value, void* out, size_t bytes) {
  if (Recording::open())
    user_runtime_error("cannot access tensor data during JIT capture, the value will be baked in");
  CHECK(bytes == storage_bytes(value), "reading {} bytes of {}", bytes, value.shape());
  if (const auto memory = memory_of_value(value)) memory->copy_out({static_cast<std::byte*>(out), bytes});
}

const std::string& default_device_name() { return default_device().name(); }

}  // namespace lathe
