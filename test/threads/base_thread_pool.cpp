#include "base/knobs.h"
#include "base/thread_pool.h"

#include <array>
#include <chrono>
#include <set>
#include <stdexcept>

#include "support/test.h"

using namespace lathe;

namespace {

std::vector<int> counts_after(ThreadPool& pool, int n) {
  std::vector<std::atomic<int>> counts(static_cast<std::size_t>(n));
  pool.run(n, [&](int i) { counts[static_cast<std::size_t>(i)]++; });
  return {counts.begin(), counts.end()};
}

}  // namespace

TEST_CASE("every index runs once") {
  ThreadPool pool(4);
  for (int n : {0, 1, 2, 4, 5, 100})
    CHECK(counts_after(pool, n) == std::vector<int>(static_cast<std::size_t>(n), 1));
  ThreadPool alone(1);
  CHECK(counts_after(alone, 3) == std::vector<int>(3, 1));
}

TEST_CASE("up to the pool's size, all indices run at the same time") {
  ThreadPool pool(4);
  std::atomic<int> arrived{0};
  std::set<std::thread::id> threads;
  std::mutex mutex;
  pool.run(4, [&](int) {
    arrived++;
    while (arrived < 4) std::this_thread::yield();
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  CHECK(threads.size() == 4);
  CHECK(threads.contains(std::this_thread::get_id()));
}

TEST_CASE("spinning and parked workers are both woken") {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  for (int i = 0; i < 2000; i++) pool.run(3, [&](int) { total++; });
  for (int i = 0; i < 20; i++) {
    // Past the spin time by far, and around it.
    std::this_thread::sleep_for(std::chrono::microseconds(i < 10 ? 2000 : 30 + i));
    pool.run(3, [&](int) { total++; });
  }
  CHECK(total == 3 * 2020);
}

TEST_CASE("the caller waits for workers that take long") {
  ThreadPool pool(2);
  std::atomic<bool> done{false};
  pool.run(2, [&](int i) {
    if (i == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done = true;
  });
  CHECK(done);
}

TEST_CASE("the error of the lowest index is rethrown after all have run") {
  ThreadPool pool(3);
  for (int round = 0; round < 50; round++) {
    std::atomic<int> ran{0};
    auto error = test::user_error([&] {
      pool.run(9, [&](int i) {
        ran++;
        if (i >= 4) value_error("index {}", i);
      });
    });
    CHECK(std::string(error.what()) == "index 4");
    CHECK(ran == 9);
  }
  CHECK_THROWS_AS(pool.run(2,
                           [](int i) {
                             if (i == 0) throw std::runtime_error("caller");
                           }),
                  std::runtime_error);
  CHECK(counts_after(pool, 3) == std::vector<int>(3, 1));
}

TEST_CASE("a run sees what all did in those before") {
  ThreadPool pool(3);
  for (int round = 0; round < 3; round++) {
    std::array<int, 3> steps{};
    std::atomic<int> wrong{0};
    for (int step = 1; step <= 1000; step++) {
      pool.run(3, [&](int me) {
        // One that is far behind the others finds them asleep.
        if (round == 2 && me == step % 3 && step % 250 < 3)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        steps[static_cast<std::size_t>(me)] = step;
      });
      pool.run(3, [&](int) {
        for (int s : steps) wrong += s != step;
      });
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("the caller runs what no other thread has come to") {
  ThreadPool pool(2);
  int own = 0;
  for (int i = 0; i < 2000 && own == 0; i++) {
    // Parked by now, and slower to wake than the caller is done.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const auto self = std::this_thread::get_id();
    std::atomic<int> mine{0};
    pool.run(2, [&](int) { mine += std::this_thread::get_id() == self; });
    own += mine == 2;
  }
  CHECK(own > 0);
}

TEST_CASE("a nested run goes on inline") {
  CHECK(!thread_pool().is_inside());
  ThreadPool pool(3);
  std::atomic<int> total{0};
  std::atomic<int> elsewhere{0};
  pool.run(3, [&](int) {
    if (!pool.is_inside()) elsewhere++;
    auto self = std::this_thread::get_id();
    pool.run(5, [&](int) {
      total++;
      if (std::this_thread::get_id() != self) elsewhere++;
    });
  });
  CHECK(total == 15);
  CHECK(elsewhere == 0);
}

TEST_CASE("calls from several threads take turns") {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; t++)
    callers.emplace_back([&] {
      for (int i = 0; i < 200; i++) pool.run(3, [&](int) { total++; });
    });
  for (auto& caller : callers) caller.join();
  CHECK(total == 4 * 200 * 3);
}

TEST_CASE("the shared pool follows CPU_COUNT upwards") {
  CHECK(cpu_count() >= 1);
  CHECK(thread_pool().size() >= cpu_count());
  KnobScope scope(Knob::CPU_COUNT, thread_pool().size() + 2);
  CHECK(cpu_count() == knob(Knob::CPU_COUNT));
  CHECK(thread_pool().size() == cpu_count());
  std::atomic<int> arrived{0};
  thread_pool().run(cpu_count(), [&](int) {
    arrived++;
    while (arrived < cpu_count()) std::this_thread::yield();
  });
  CHECK(arrived == cpu_count());
}
