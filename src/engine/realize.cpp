#include "engine/realize.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "engine/compile.h"
#include "engine/counters.h"
#include "engine/schedule_cache.h"
#include "runtime/buffer.h"

#include <algorithm>
#include <mutex>

namespace lathe {
namespace {

size_t bytes_of(const UOp& value) {
  return static_cast<size_t>(prod(value.shape()).vmax() * item_size(value.dtype()));
}

Buffer& memory_of(const UOp& buffer) {
  auto& storage = buffer.param().store->storage;
  if (!storage) storage = Buffer::make(device(buffer.param().device), bytes_of(buffer));
  return static_cast<Buffer&>(*storage);
}

// Of a realised value: a Buffer, or a view of its elements in row-major order without gaps. Null where there
// are no elements.
std::shared_ptr<Buffer> memory_of_value(const UOp& value) {
  const auto run = memory_run(value);
  if (!run || run->storage.op() != Op::Buffer)
    user_runtime_error("only realised values can be read, this is a {}", op_name(value.op()));
  if (!bytes_of(value)) return nullptr;
  memory_of(run->storage);
  const auto whole = std::static_pointer_cast<Buffer>(run->storage.param().store->storage);
  return Buffer::view(whole, static_cast<size_t>(run->first * item_size(value.dtype())), bytes_of(value));
}

void show_launch(const std::string& device_name, const CompiledKernel& k, double seconds, uint64_t number) {
  const double giga = 1e-9 / std::max(seconds, 1e-12);
  debug_line("{:>5} {:<8} {} {:10.2f} us {:9.2f} GFLOP/s {:8.2f} GB/s", number, device_name,
             k.colored_name + std::string(k.name.size() < 40 ? 40 - k.name.size() : 0, ' '), seconds * 1e6,
             k.work.flops * giga, k.work.bytes * giga);
}

void run_kernel(const ScheduledKernel& k) {
  Device& dev = device(k.device);
  const auto compiled = compile_kernel(k.body, dev);
  SmallVec<Buffer*, 8> bufs;
  for (int slot : compiled->slots) bufs.push_back(&memory_of(k.buffers[static_cast<size_t>(slot)]));
  const bool timed = knob(Knob::DEBUG) >= 2;
  const double seconds = compiled->program->run({bufs.data(), bufs.size()}, {}, compiled->n_cores, timed);
  uint64_t number = 0;
  count([&](Counters& c) {
    number = ++c.kernels;
    c.flops += compiled->work.flops;
    c.bytes += compiled->work.bytes;
    c.seconds += seconds;
  });
  if (timed) show_launch(k.device, *compiled, seconds, number);
}

void run_copy(const ScheduledKernel& k) {
  const Buffer& from = memory_of(k.buffers[1]);
  copy_bytes(memory_of(k.buffers[0]), from);
  if (knob(Knob::DEBUG) >= 2)
    debug_line("      {:<8} copy {} bytes from {}", k.device, from.size(), from.device().name());
}

}  // namespace

std::vector<Becomes> realize(std::span<const UOp> roots) {
  // One schedule at a time: the order of writes to shared buffers is the order of calls.
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const double start = now_seconds();
  Schedule schedule = cached_schedule(roots);
  count([](Counters& c) { c.schedules++; });
  if (knob(Knob::DEBUG) >= 1 && !schedule.kernels.empty())
    debug_line("scheduled {} kernels in {:.2f} ms{}", schedule.kernels.size(), (now_seconds() - start) * 1e3,
               schedule_cache_hit() ? "" : ", cache miss");
  for (ScheduledKernel& k : schedule.kernels) {
    if (k.is_copy())
      run_copy(k);
    else
      run_kernel(k);
    k = {};  // the last reader of an intermediate buffer frees it
  }
  std::vector<Becomes> out;
  for (auto& [from, to] : schedule.becomes) out.push_back({std::move(from), std::move(to)});
  return out;
}

UOp buffer_from_host(const void* data, size_t bytes, const Shape& shape, DType dtype,
                     const std::string& device_name) {
  const UOp buffer = new_buffer(shape, dtype, canonical_device_name(device_name));
  CHECK(bytes == bytes_of(buffer), "{} bytes for shape {} of {}", bytes, to_string(shape), dtype_name(dtype));
  if (bytes) memory_of(buffer).copy_in({static_cast<const std::byte*>(data), bytes});
  return buffer;
}

UOp buffer_over(void* memory, const Shape& shape, DType dtype, const std::string& device_name,
                std::shared_ptr<const void> owner) {
  const UOp buffer = new_buffer(shape, dtype, canonical_device_name(device_name));
  buffer.param().store->storage =
      Buffer::external(device(buffer.param().device), memory, bytes_of(buffer), std::move(owner));
  return buffer;
}

void lend_memory(const UOp& buffer, const std::optional<UOp>& value) {
  CHECK(!value || bytes_of(buffer) == bytes_of(*value), "{} lent to {}", to_string(value->shape()),
        to_string(buffer.shape()));
  buffer.param().store->storage = value ? memory_of_value(*value) : nullptr;
}

void read_buffer(const UOp& value, void* out, size_t bytes) {
  CHECK(bytes == bytes_of(value), "reading {} bytes of {}", bytes, to_string(value.shape()));
  if (const auto memory = memory_of_value(value)) memory->copy_out({static_cast<std::byte*>(out), bytes});
}

const std::string& default_device_name() { return default_device().name(); }

}  // namespace lathe
