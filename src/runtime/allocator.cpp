#include "runtime/allocator.h"

#include "base/error.h"
#include "base/knobs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace lathe {
namespace {

constexpr size_t kAlign = 64;                  // a cache line and the widest vector
constexpr size_t kHugePage = size_t{2} << 20;  // x86-64 and arm64
constexpr size_t kMapUnit = 64 << 10;          // a multiple of every page size in use

std::atomic<int64_t> g_used{0};
std::atomic<int64_t> g_peak{0};
std::atomic<uint64_t> g_allocations{0};

void count(int64_t bytes) {
  const int64_t now = g_used.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = g_peak.load(std::memory_order_relaxed);
  while (now > peak && !g_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// mmap aligns to pages only: ask for one huge page more and give back what sticks out.
void* allocate_huge(size_t bytes) {
  const size_t size = round_up(bytes, kMapUnit);
  const size_t request = size + kHugePage;
  if (request < bytes) return nullptr;
  void* memory =
      mmap(nullptr, request, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t aligned = round_up(start, kHugePage);
  if (aligned > start) munmap(memory, aligned - start);
  const uintptr_t end = aligned + size;
  if (start + request > end) munmap(reinterpret_cast<void*>(end), start + request - end);
  madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(aligned);
}

// Every pool of the process: when one device runs out, what the others keep is the same host memory.
struct AllPools {
  std::mutex mutex;
  std::vector<MemoryPool*> pools;
};
AllPools& all_pools() {
  static auto* pools = new AllPools;
  return *pools;
}

// Bytes one pool may keep for reuse.
int64_t keep_limit() {
  static const int64_t kLimit =
      std::max<int64_t>(int64_t{256} << 20, sysconf(_SC_PHYS_PAGES) / 8 * sysconf(_SC_PAGESIZE));
  return kLimit;
}

}  // namespace

int64_t memory_used() { return g_used.load(std::memory_order_relaxed); }
int64_t peak_memory_used() { return g_peak.load(std::memory_order_relaxed); }
void reset_peak_memory_used() { g_peak.store(memory_used(), std::memory_order_relaxed); }

uint64_t allocation_count() { return g_allocations.load(std::memory_order_relaxed); }

void* HostAllocator::allocate(size_t bytes) {
  if (bytes >= kHugePage) return allocate_huge(bytes);
  return std::aligned_alloc(kAlign, round_up(bytes, kAlign));
}

void HostAllocator::release(void* handle, size_t bytes) noexcept {
  if (bytes >= kHugePage)
    munmap(handle, round_up(bytes, kMapUnit));
  else
    std::free(handle);
}

void HostAllocator::copy_in(void* handle, size_t offset, std::span<const std::byte> from) {
  if (!from.empty()) std::memmove(static_cast<std::byte*>(handle) + offset, from.data(), from.size());
}

void HostAllocator::copy_out(void* handle, size_t offset, std::span<std::byte> to) {
  if (!to.empty()) std::memmove(to.data(), static_cast<std::byte*>(handle) + offset, to.size());
}

MemoryPool::MemoryPool(std::string device, std::unique_ptr<Allocator> allocator)
    : device_(std::move(device)), allocator_(std::move(allocator)) {
  AllPools& all = all_pools();
  std::lock_guard lock(all.mutex);
  all.pools.push_back(this);
}

MemoryPool::~MemoryPool() {
  AllPools& all = all_pools();
  {
    std::lock_guard lock(all.mutex);
    std::erase(all.pools, this);
  }
  trim();
}

void* MemoryPool::take_kept(size_t bytes) {
  std::lock_guard lock(mutex_);
  auto found = by_size_.find(bytes);
  if (found == by_size_.end()) return nullptr;
  auto block = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) by_size_.erase(found);
  void* handle = block->handle;
  kept_.erase(block);
  kept_bytes_ -= static_cast<int64_t>(bytes);
  return handle;
}

void* MemoryPool::acquire(size_t bytes) {
  if (bytes == 0) value_error("a buffer on {} needs a positive size", device_);
  const int64_t limit = knob(Knob::MAX_BUFFER_SIZE);
  if (limit > 0 && allocator_->has_memory() && bytes > static_cast<size_t>(limit))
    user_runtime_error("buffer of size {:.2f}M is too large: MAX_BUFFER_SIZE is {} bytes",
                       static_cast<double>(bytes) / 1e6, limit);
  void* handle = knob(Knob::LRU) ? take_kept(bytes) : nullptr;
  if (!handle) handle = allocator_->allocate(bytes);
  if (!handle) {
    AllPools& all = all_pools();
    std::lock_guard lock(all.mutex);
    for (MemoryPool* pool : all.pools) pool->trim();
    handle = allocator_->allocate(bytes);
  }
  if (!handle)
    device_error("Allocation of {:.2f} MB failed on {}. Used: {:.2f} MB", static_cast<double>(bytes) / 1e6,
                 device_, static_cast<double>(used()) / 1e6);
  used_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  count(static_cast<int64_t>(bytes));
  return handle;
}

void MemoryPool::recycle(void* handle, size_t bytes) noexcept {
  used_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  count(-static_cast<int64_t>(bytes));
  if (knob(Knob::LRU) == 0) return allocator_->release(handle, bytes);
  std::lock_guard lock(mutex_);
  kept_.push_back({handle, bytes});
  by_size_[bytes].push_back(std::prev(kept_.end()));
  kept_bytes_ += static_cast<int64_t>(bytes);
  evict_down_to(keep_limit());
}

// With mutex_ held.
void MemoryPool::evict_down_to(int64_t limit) noexcept {
  while (kept_bytes_ > limit) {
    const Block oldest = kept_.front();
    auto found = by_size_.find(oldest.bytes);
    found->second.erase(found->second.begin());  // lists of one size age in the same order
    if (found->second.empty()) by_size_.erase(found);
    kept_.pop_front();
    kept_bytes_ -= static_cast<int64_t>(oldest.bytes);
    allocator_->release(oldest.handle, oldest.bytes);
  }
}

void MemoryPool::trim() noexcept {
  std::lock_guard lock(mutex_);
  evict_down_to(0);
}

int64_t MemoryPool::kept() const {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace lathe
