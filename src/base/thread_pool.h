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

  // Calls f(0) … f(n-1) and returns when all are done; the caller runs f(0) and then what no other thread has
  // come to, as where other programs keep the cores busy. So with n <= size() all run at the same time as
  // long as f(0) waits for the others. Beyond that, t, t+size(), … run one after the other. When some throw,
  // the rest still run and the error of the lowest index is rethrown. A call from inside f runs inline on
  // that thread; calls from unrelated threads take turns.
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
  void wait_for_helpers(int helpers);
  void start_worker();

  std::mutex run_mutex_;  // one parallel region at a time
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<int> size_{1};

  // The region that runs now. Written before the workers are released, read only by those that take part.
  FunctionRef<void(int)>* task_ = nullptr;
  int count_ = 0;
  int stride_ = 1;
  std::atomic<int> pending_{0};
  std::atomic<int> caller_core_{-1};

  std::mutex error_mutex_;
  std::exception_ptr error_;
  int error_index_ = 0;
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
