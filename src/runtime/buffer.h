// Bytes on a device.
#pragma once
#include "uop/arg.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lathe {

class Device;

// Memory comes with the first use, and goes with the last reference. A view shares its base's memory and
// keeps it alive. Allocation is thread-safe; contents are the callers' business.
class Buffer : public Storage {
 public:
  // A UserError when `bytes` is 0.
  static std::shared_ptr<Buffer> make(Device& device, size_t bytes);
  // Foreign host memory: not counted, not reused; `owner` is dropped with the buffer. Devices that the host
  // sees only.
  static std::shared_ptr<Buffer> external(Device& device, void* memory, size_t bytes,
                                          std::shared_ptr<const void> owner = nullptr);
  // `bytes` bytes of `base` from `offset` on; of a view, counted from the view's start. A UserError when they
  // leave it.
  static std::shared_ptr<Buffer> view(const std::shared_ptr<Buffer>& base, size_t offset, size_t bytes);
  ~Buffer() override;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device& device() const { return *device_; }
  size_t size() const { return bytes_; }
  // The buffer that owns the memory: itself unless a view; and where in it this one starts.
  const Buffer& base() const { return base_ ? *base_ : *this; }
  size_t offset() const { return offset_; }
  bool is_view() const { return base_ != nullptr; }
  bool is_external() const { return is_external_; }

  bool is_allocated() const {
    return base_ ? base_->is_allocated() : handle_.load(std::memory_order_acquire) != nullptr;
  }
  void allocate() { handle(); }
  // The device's own name for the base's memory; allocates.
  void* handle() const;
  // The first byte, for the host; allocates. A UserError on devices whose memory the host does not see.
  void* data() const;

  // How often the base's memory was written, as far as those who write say so: what is computed from it is
  // still right as long as this stays. The owner of external memory says nothing.
  uint64_t version() const { return base().version_.load(std::memory_order_relaxed); }
  void mark_written() { base().version_.fetch_add(1, std::memory_order_relaxed); }

  // Exactly size() bytes.
  void copy_in(std::span<const std::byte> from);
  void copy_out(std::span<std::byte> to) const;

 private:
  Buffer(Device& device, size_t bytes) : device_(&device), bytes_(bytes) {}
  void* allocate_now() const;

  Device* device_;
  size_t bytes_;
  size_t offset_ = 0;
  std::shared_ptr<Buffer> base_;
  mutable std::atomic<void*> handle_{nullptr};
  mutable std::atomic<uint64_t> version_{0};
  bool is_external_ = false;
  std::shared_ptr<const void> owner_;
};

// The bytes of `from` into `to`, which has as many, on any two devices. Between NULL devices nothing moves;
// from NULL to memory is a UserError.
void copy_bytes(Buffer& to, const Buffer& from);

}  // namespace lathe
