#pragma once

#include "base/function_ref.h"

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lathe {

// Threads that wait for work by spinning a few tens of microseconds and only then park, so that a train of
// small kernels pays no wake-up.
class ThreadPool {
 public:
  // The calling thread counts as one of `size`.
  explicit ThreadPool(int size);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls f(0) … f(n-1) and returns when all are done; the caller runs f(0). With n <= size() each index has
  // a thread of its own and all run at the same time, so f may use barriers; beyond that, thread t runs t,
  // t+size(), …. When some throw, the rest still run and the error of the lowest index is rethrown. A call
  // from inside f runs inline on that thread; calls from unrelated threads take turns.
  void run(int n, FunctionRef<void(int worker)> f);

  int size() const { return size_.load(std::memory_order_acquire); }
  // Whether this thread runs some f now.
  bool is_inside() const;
  // No effect when the pool is already that large, or from inside f.
  void grow(int size);

 private:
  struct Worker;
  void serve(Worker& worker);
  void work(int first);
  void wait_until_done();
  void start_worker();

  std::mutex run_mutex_;  // one parallel region at a time
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<int> size_{1};

  // The region that runs now. Written before the workers are released, read only by those that take part.
  FunctionRef<void(int)>* task_ = nullptr;
  int count_ = 0;
  int stride_ = 1;
  std::atomic<int> pending_{0};

  std::mutex error_mutex_;
  std::exception_ptr error_;
  int error_index_ = 0;
};

// Where `n` threads wait for each other, as often as they like: by spinning as long as a pool does, then
// asleep. What one did before it came is seen by all afterwards.
class MeetingPoint {
 public:
  explicit MeetingPoint(int n) : n_(n) {}
  void wait();

 private:
  const int n_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> round_{0};
};

// Cores this process may use, or CPU_COUNT when that is set.
int cpu_count();

// The pool that kernels share: cpu_count() threads, and more when CPU_COUNT is raised later.
ThreadPool& thread_pool();

// Tells the core that this is a spin loop.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace lathe
