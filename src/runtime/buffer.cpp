#include "runtime/buffer.h"

#include "base/error.h"
#include "runtime/device.h"

#include <mutex>
#include <vector>

namespace lathe {

std::shared_ptr<Buffer> Buffer::make(Device& device, size_t bytes) {
  if (bytes == 0) value_error("a buffer on {} needs a positive size", device.name());
  return std::shared_ptr<Buffer>(new Buffer(device, bytes));
}

std::shared_ptr<Buffer> Buffer::external(Device& device, void* memory, size_t bytes,
                                         std::shared_ptr<const void> owner) {
  if (!device.memory().allocator().is_host_visible())
    value_error("{} cannot use memory of this process: the device does not share it", device.name());
  if (!memory || bytes == 0)
    value_error("external memory on {} needs an address and a positive size", device.name());
  std::shared_ptr<Buffer> buffer(new Buffer(device, bytes));
  buffer->handle_ = memory;
  buffer->is_external_ = true;
  buffer->owner_ = std::move(owner);
  return buffer;
}

std::shared_ptr<Buffer> Buffer::view(const std::shared_ptr<Buffer>& base, size_t offset, size_t bytes) {
  if (bytes == 0 || offset >= base->size() || bytes > base->size() - offset)
    value_error("a view of {} bytes at offset {} leaves the buffer of {} bytes on {}", bytes, offset,
                base->size(), base->device().name());
  std::shared_ptr<Buffer> view(new Buffer(base->device(), bytes));
  view->base_ = base->base_ ? base->base_ : base;
  view->offset_ = base->offset_ + offset;
  return view;
}

Buffer::~Buffer() {
  if (base_ || is_external_) return;
  if (void* handle = handle_.load(std::memory_order_acquire)) device_->memory().recycle(handle, bytes_);
}

void* Buffer::allocate_now() const {
  // One lock for all buffers: it is held for an allocation only, and spares every buffer a mutex.
  static std::mutex* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  void* handle = handle_.load(std::memory_order_acquire);
  if (!handle) {
    handle = device_->memory().acquire(bytes_);
    handle_.store(handle, std::memory_order_release);
  }
  return handle;
}

void* Buffer::handle() const {
  if (base_) return base_->handle();
  void* handle = handle_.load(std::memory_order_acquire);
  return handle ? handle : allocate_now();
}

void* Buffer::data() const {
  return static_cast<std::byte*>(device_->memory().allocator().host_pointer(handle())) + offset_;
}

void Buffer::copy_in(std::span<const std::byte> from) {
  CHECK(from.size() == bytes_, "{} bytes for a buffer of {}", from.size(), bytes_);
  mark_written();
  device_->memory().allocator().copy_in(handle(), offset_, from);
}

void Buffer::copy_out(std::span<std::byte> to) const {
  CHECK(to.size() == bytes_, "{} bytes for a buffer of {}", to.size(), bytes_);
  device_->synchronize();
  device_->memory().allocator().copy_out(handle(), offset_, to);
}

void copy_bytes(Buffer& to, const Buffer& from) {
  CHECK(to.size() == from.size(), "a copy of {} bytes to {}", from.size(), to.size());
  const Allocator& source = from.device().memory().allocator();
  const Allocator& target = to.device().memory().allocator();
  if (!source.has_memory() && !target.has_memory()) return to.allocate();
  from.device().synchronize();
  if (source.is_host_visible()) return to.copy_in({static_cast<const std::byte*>(from.data()), from.size()});
  if (target.is_host_visible()) return from.copy_out({static_cast<std::byte*>(to.data()), to.size()});
  std::vector<std::byte> staged(from.size());
  from.copy_out(staged);
  to.copy_in(staged);
}

}  // namespace lathe
