// Where buffers get their memory: one allocator a kind of device, behind a pool that reuses and counts.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace lathe {

// Raw memory of a device. A handle means something to the device only; offsets are bytes.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual void* allocate(size_t bytes) = 0;  // null when there is none left
  virtual void release(void* handle, size_t bytes) noexcept = 0;
  virtual void copy_in(void* handle, size_t offset, std::span<const std::byte> from) = 0;
  virtual void copy_out(void* handle, size_t offset, std::span<std::byte> to) = 0;
  // Where the host may read and write the memory directly; throws where it may not.
  virtual void* host_pointer(void* handle) = 0;
  virtual bool is_host_visible() const { return true; }
  // Whether there are bytes behind a handle at all.
  virtual bool has_memory() const { return true; }
};

// Memory of this process: 64-byte aligned; from 2 MiB on aligned to 2 MiB and backed by huge pages where the
// system has them. Contents are undefined.
class HostAllocator : public Allocator {
 public:
  void* allocate(size_t bytes) override;
  void release(void* handle, size_t bytes) noexcept override;
  void copy_in(void* handle, size_t offset, std::span<const std::byte> from) override;
  void copy_out(void* handle, size_t offset, std::span<std::byte> to) override;
  void* host_pointer(void* handle) override { return handle; }
};

// Counts what is in use and keeps freed memory for the next request of the same size while LRU is set. What
// it keeps is bounded; the longest unused goes first. Thread-safe.
class MemoryPool {
 public:
  MemoryPool(std::string device, std::unique_ptr<Allocator> allocator);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // A UserError above MAX_BUFFER_SIZE; a DeviceError when memory is short even after every pool gave back
  // what it kept.
  void* acquire(size_t bytes);
  void recycle(void* handle, size_t bytes) noexcept;
  // Gives back everything kept for reuse.
  void trim() noexcept;

  Allocator& allocator() const { return *allocator_; }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t kept() const;

 private:
  struct Block {
    void* handle;
    size_t bytes;
  };
  void* take_kept(size_t bytes);
  void evict_down_to(int64_t limit) noexcept;

  std::string device_;
  std::unique_ptr<Allocator> allocator_;
  std::atomic<int64_t> used_{0};
  mutable std::mutex mutex_;
  std::list<Block> kept_;                                                        // oldest first
  std::unordered_map<size_t, std::vector<std::list<Block>::iterator>> by_size_;  // newest last
  int64_t kept_bytes_ = 0;
};

// Bytes in buffers of all devices, views and external memory not counted; and the most there were since the
// last reset.
int64_t memory_used();
int64_t peak_memory_used();
void reset_peak_memory_used();
// How often a buffer asked a pool of any device for memory.
uint64_t allocation_count();

}  // namespace lathe
