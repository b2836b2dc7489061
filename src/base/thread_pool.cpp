#include "base/thread_pool.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/knobs.h"

#include <algorithm>

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

namespace lathe {
namespace {

constexpr double kSpinSeconds = 40e-6;
constexpr int kPausesPerClockRead = 32;

enum State : int { kIdle, kWork, kParked, kStop };

thread_local const ThreadPool* t_inside = nullptr;

int current_core() {
#ifdef __linux__
  return sched_getcpu();
#else
  return -1;
#endif
}

// Waits for `ready` for the spin time at most; returns whether it came true. Not at all for a thread that ran
// on the core that spinning would keep from it.
template <class Ready>
bool spin_until(Ready ready, const std::atomic<int>& core) {
  if (ready()) return true;
  if (const int own = current_core(); own >= 0 && own == core.load(std::memory_order_relaxed)) return false;
  double deadline = 0;
  while (true) {
    for (int i = 0; i < kPausesPerClockRead; i++) {
      if (ready()) return true;
      spin_pause();
    }
    double now = now_seconds();
    if (deadline == 0) deadline = now + kSpinSeconds;
    if (now > deadline) return false;
  }
}

int usable_cores() {
#ifdef __linux__
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

// On its own cache line: the caller writes one worker's state while its neighbour spins.
struct alignas(64) ThreadPool::Worker {
  std::atomic<int> state{kIdle};
  std::atomic<int> core{-1};  // where it ran last
  int index = 0;
  std::thread thread;
};

ThreadPool::ThreadPool(int size) {
  CHECK(size >= 1, "a pool of {} threads", size);
  grow(size);
}

ThreadPool::~ThreadPool() {
  for (auto& worker : workers_) {
    worker->state.store(kStop);
    worker->state.notify_one();
  }
  for (auto& worker : workers_) worker->thread.join();
}

bool ThreadPool::is_inside() const { return t_inside == this; }

void ThreadPool::grow(int size) {
  if (size <= this->size() || t_inside == this) return;
  std::lock_guard lock(run_mutex_);
  while (static_cast<int>(workers_.size()) + 1 < size) start_worker();
  size_.store(static_cast<int>(workers_.size()) + 1, std::memory_order_release);
}

void ThreadPool::start_worker() {
  auto worker = std::make_unique<Worker>();
  worker->index = static_cast<int>(workers_.size()) + 1;
  worker->thread = std::thread([this, w = worker.get()] { serve(*w); });
#ifdef __linux__
  // For debuggers, top and profiles; 15 characters at most.
  pthread_setname_np(worker->thread.native_handle(), fmt::format("lathe {}", worker->index).c_str());
#endif
  workers_.push_back(std::move(worker));
}

void ThreadPool::serve(Worker& worker) {
  t_inside = this;
  while (true) {
    auto released = [&] { return worker.state.load(std::memory_order_acquire) != kIdle; };
    if (!spin_until(released, caller_core_)) {
      int idle = kIdle;
      if (worker.state.compare_exchange_strong(idle, kParked)) worker.state.wait(kParked);
    }
    // Idle again before the caller can learn that we are done, and so before it can release us for the next
    // region. It may have taken the work back meanwhile.
    int state = kWork;
    if (!worker.state.compare_exchange_strong(state, kIdle, std::memory_order_acquire)) {
      if (state == kStop) return;
      continue;
    }
    worker.core.store(current_core(), std::memory_order_relaxed);
    work(worker.index);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

void ThreadPool::work(int first) {
  for (int i = first; i < count_; i += stride_) {
    try {
      (*task_)(i);
    } catch (...) {
      std::lock_guard lock(error_mutex_);
      if (error_ == nullptr || i < error_index_) {
        error_ = std::current_exception();
        error_index_ = i;
      }
    }
  }
}

void ThreadPool::wait_for_helpers(int helpers) {
  int last = -1;  // one that has begun
  for (int i = 0; i < helpers; i++) {
    int unclaimed = kWork;
    if (workers_[static_cast<std::size_t>(i)]->state.compare_exchange_strong(unclaimed, kIdle)) {
      work(i + 1);
      pending_.fetch_sub(1, std::memory_order_relaxed);
    } else {
      last = i;
    }
  }
  auto done = [&] { return pending_.load(std::memory_order_acquire) == 0; };
  if (last < 0 || spin_until(done, workers_[static_cast<std::size_t>(last)]->core)) return;
  for (int left = pending_.load(std::memory_order_acquire); left != 0;
       left = pending_.load(std::memory_order_acquire))
    pending_.wait(left, std::memory_order_acquire);
}

void ThreadPool::run(int n, FunctionRef<void(int worker)> f) {
  if (n <= 0) return;
  if (n == 1 || t_inside == this || size() == 1) {
    for (int i = 0; i < n; i++) f(i);
    return;
  }
  std::exception_ptr error;
  {
    std::lock_guard lock(run_mutex_);
    stride_ = size();
    count_ = n;
    task_ = &f;
    int helpers = std::min(n, stride_) - 1;
    pending_.store(helpers, std::memory_order_relaxed);
    caller_core_.store(current_core(), std::memory_order_relaxed);
    for (int i = 0; i < helpers; i++) {
      std::atomic<int>& state = workers_[static_cast<std::size_t>(i)]->state;
      if (state.exchange(kWork, std::memory_order_acq_rel) == kParked) state.notify_one();
    }
    const ThreadPool* outer = std::exchange(t_inside, this);
    work(0);
    wait_for_helpers(helpers);
    t_inside = outer;
    error = std::exchange(error_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

int cpu_count() {
  static const int usable = usable_cores();
  int wanted = knob(Knob::CPU_COUNT);
  return wanted > 0 ? wanted : usable;
}

ThreadPool& thread_pool() {
  static ThreadPool pool(cpu_count());
  pool.grow(cpu_count());
  return pool;
}

}  // namespace lathe
