#include "base/knobs.h"
#include "base/log.h"
#include "runtime/kernel_cache.h"

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/test.h"

using namespace lathe;
using test::TempDir;

namespace {

Hash128 key(uint64_t n) { return {n, n * 0x9e3779b97f4a7c15}; }

// Warnings logged while it lives.
class CaughtWarnings {
 public:
  CaughtWarnings()
      : before_(set_log_sink([this](LogLevel level, std::string_view line) {
          if (level == LogLevel::Warn) lines.emplace_back(line);
        })) {}
  ~CaughtWarnings() { set_log_sink(before_); }
  std::vector<std::string> lines;

 private:
  LogSink before_;
};

void run_sql(const std::string& file, const char* sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
  REQUIRE(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

}  // namespace

TEST_CASE("values survive the process that stored them") {
  TempDir folder;
  const std::string file = folder.file("deep/er/kernels.db");
  const std::string value("a\0b\xff", 4);
  {
    KernelCache cache(file);
    CHECK(!cache.find("cpu", key(1)));
    cache.store("cpu", key(1), value);
    cache.store("cpu", key(2), "");
    CHECK(cache.find("cpu", key(1)) == value);
    CHECK(cache.find("cpu", key(2)) == "");
    CHECK(!cache.find("beam", key(1)));
    CHECK(cache.counts().hits == 2);
    CHECK(cache.counts().misses == 2);
    CHECK(cache.counts().stores == 2);
  }
  KernelCache again(file);
  CHECK(again.find("cpu", key(1)) == value);
  again.store("cpu", key(1), "new");
  CHECK(again.find("cpu", key(1)) == "new");
}

TEST_CASE("a damaged value is a miss and is replaced") {
  TempDir folder;
  const std::string file = folder.file("kernels.db");
  {
    KernelCache cache(file);
    cache.store("cpu", key(1), "object one");
    cache.store("cpu", key(2), "object two");
  }
  run_sql(file,
          "UPDATE entries SET value = CAST('object 0ne' AS BLOB) WHERE value = CAST('object one' AS BLOB)");
  KernelCache cache(file);
  CHECK(!cache.find("cpu", key(1)));
  CHECK(cache.find("cpu", key(2)) == "object two");
  cache.store("cpu", key(1), "object one");
  CHECK(cache.find("cpu", key(1)) == "object one");
}

TEST_CASE("a file that is no database is ignored with one warning and left alone") {
  TempDir folder;
  const std::string file = folder.file("kernels.db");
  const std::string text = "these are someone's notes, not a database. " + std::string(5000, 'x');
  std::ofstream(file) << text;
  CaughtWarnings warnings;
  KernelCache cache(file);
  CHECK(!cache.find("cpu", key(1)));
  cache.store("cpu", key(1), "value");
  CHECK(!cache.find("cpu", key(1)));
  CHECK(cache.is_broken());
  REQUIRE(warnings.lines.size() == 1);
  CHECK(test::contains(warnings.lines[0], file));
  std::ifstream in(file);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == text);
}

TEST_CASE("another program's database is not touched") {
  TempDir folder;
  const std::string file = folder.file("browser.db");
  run_sql(file, "CREATE TABLE entries(a, b); INSERT INTO entries VALUES(1, 2);");
  CaughtWarnings warnings;
  {
    KernelCache cache(file);
    cache.store("cpu", key(1), "value");
    CHECK(cache.is_broken());
  }
  REQUIRE(warnings.lines.size() == 1);
  CHECK(test::contains(warnings.lines[0], "another program"));
  run_sql(file, "INSERT INTO entries(a, b) VALUES(3, 4);");
}

TEST_CASE("damage in the middle of the file costs misses, not the run") {
  TempDir folder;
  const std::string file = folder.file("kernels.db");
  {
    KernelCache cache(file);
    for (uint64_t i = 0; i < 200; i++)
      cache.store("cpu", key(i), std::string(1000, static_cast<char>('a' + i % 26)));
  }
  const auto size = std::filesystem::file_size(file);
  REQUIRE(size > 100000);
  {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(4096);
    out << std::string(size - 3 * 4096, '\x5a');
  }
  CaughtWarnings warnings;
  KernelCache cache(file);
  for (uint64_t i = 0; i < 200; i++) {
    auto value = cache.find("cpu", key(i));
    if (value) CHECK(*value == std::string(1000, static_cast<char>('a' + i % 26)));
  }
  cache.store("cpu", key(1), "value");
  CHECK(warnings.lines.size() == 1);
}

TEST_CASE("a cut file is ignored") {
  TempDir folder;
  const std::string file = folder.file("kernels.db");
  {
    KernelCache cache(file);
    for (uint64_t i = 0; i < 50; i++) cache.store("cpu", key(i), std::string(1000, 'v'));
  }
  std::filesystem::resize_file(file, 5000);
  CaughtWarnings warnings;
  KernelCache cache(file);
  for (uint64_t i = 0; i < 50; i++) CHECK(!cache.find("cpu", key(i)));
  cache.store("cpu", key(1), "value");
  CHECK(warnings.lines.size() <= 1);
}

TEST_CASE("a lock that stays is waited for once") {
  TempDir folder;
  const std::string file = folder.file("kernels.db");
  sqlite3* other = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &other) == SQLITE_OK);
  REQUIRE(sqlite3_exec(other, "CREATE TABLE t(a); BEGIN EXCLUSIVE; INSERT INTO t VALUES(1);", nullptr,
                       nullptr, nullptr) == SQLITE_OK);
  CaughtWarnings warnings;
  KernelCache cache(file);
  for (int i = 0; i < 20; i++) {
    CHECK(!cache.find("cpu", key(1)));
    cache.store("cpu", key(1), "value");
  }
  CHECK(cache.is_broken());
  REQUIRE(warnings.lines.size() == 1);
  CHECK(test::contains(warnings.lines[0], "locked"));
  sqlite3_close(other);
}

TEST_CASE("a writer elsewhere does not stop lookups") {
  TempDir folder;
  const std::string file = folder.file("kernels.db");
  KernelCache cache(file);
  cache.store("cpu", key(1), "value");
  sqlite3* other = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &other) == SQLITE_OK);
  REQUIRE(sqlite3_exec(other, "BEGIN IMMEDIATE; DELETE FROM entries;", nullptr, nullptr, nullptr) ==
          SQLITE_OK);
  CHECK(cache.find("cpu", key(1)) == "value");
  sqlite3_close(other);
  CHECK(!cache.is_broken());
}

TEST_CASE("threads and processes share a file") {
  TempDir folder;
  const std::string file = folder.file("kernels.db");
  auto fill = [&](uint64_t first) {
    KernelCache cache(file);
    for (uint64_t i = 0; i < 40; i++) {
      cache.store("cpu", key(first + i), "value " + std::to_string(first + i));
      cache.find("cpu", key(i));
    }
    return !cache.is_broken();
  };
  const pid_t child = fork();
  if (child == 0) _exit(fill(1000) ? 0 : 1);
  std::vector<std::thread> threads;
  KernelCache shared(file);
  for (uint64_t t = 0; t < 2; t++)
    threads.emplace_back([&, t] {
      fill(t * 100);
      for (uint64_t i = 0; i < 40; i++) shared.store("beam", key(t * 100 + i), "schedule");
    });
  for (std::thread& thread : threads) thread.join();
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  for (uint64_t first : {0, 100, 1000})
    for (uint64_t i = 0; i < 40; i++)
      CHECK(shared.find("cpu", key(first + i)) == "value " + std::to_string(first + i));
  for (uint64_t i = 0; i < 40; i++) CHECK(shared.find("beam", key(100 + i)) == "schedule");
}

TEST_CASE("a process that is killed while it stores leaves a sound file") {
  TempDir folder;
  const std::string file = folder.file("kernels.db"), value(20000, 'v');
  CaughtWarnings warnings;
  for (const int signal : {SIGKILL, SIGINT, SIGKILL}) {
    int stored[2];
    REQUIRE(pipe(stored) == 0);
    const pid_t child = fork();
    if (child == 0) {
      std::signal(signal, SIG_DFL);  // the test framework catches some
      KernelCache cache(file);
      for (uint64_t i = 0;; i++) {
        cache.store("cpu", key(i), value);
        if (write(stored[1], &i, sizeof i) != sizeof i) _exit(1);
      }
    }
    close(stored[1]);
    uint64_t last = 0;
    while (last < 50) REQUIRE(read(stored[0], &last, sizeof last) == sizeof last);
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    while (read(stored[0], &last, sizeof last) > 0) {
    }
    close(stored[0]);
    KernelCache cache(file);
    for (uint64_t i = 0; i <= last; i++) CHECK(cache.find("cpu", key(i)) == value);
    cache.store("cpu", key(last + 1), "more");
    CHECK(cache.find("cpu", key(last + 1)) == "more");
    CHECK(!cache.is_broken());
  }
  CHECK(warnings.lines.empty());
}

TEST_CASE("a connection is not carried over a fork") {
  TempDir folder;
  KernelCache cache(folder.file("kernels.db"));
  cache.store("cpu", key(1), "value");
  const pid_t child = fork();
  if (child == 0) {
    const bool good = cache.find("cpu", key(1)) == "value";
    cache.store("cpu", key(2), "from the child");
    _exit(good && !cache.is_broken() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(cache.find("cpu", key(2)) == "from the child");
}

TEST_CASE("a file of another version is emptied") {
  TempDir folder;
  const std::string file = folder.file("kernels.db");
  {
    KernelCache cache(file);
    cache.store("cpu", key(1), "value");
  }
  run_sql(file, "PRAGMA user_version = 999");
  KernelCache cache(file);
  CHECK(!cache.find("cpu", key(1)));
  cache.store("cpu", key(1), "value");
  CHECK(cache.find("cpu", key(1)) == "value");
  CHECK(!cache.is_broken());
}

TEST_CASE("the process cache follows the knobs") {
  TempDir folder;
  KnobScope file(Knob::CACHEDB, folder.file("one.db"));
  {
    KnobScope off(Knob::CACHELEVEL, 0);
    CHECK(kernel_cache() == nullptr);
  }
  KnobScope on(Knob::CACHELEVEL, 2);
  REQUIRE(kernel_cache() != nullptr);
  CHECK(kernel_cache()->path() == folder.file("one.db"));
  CHECK(kernel_cache() == kernel_cache());
  KnobScope other(Knob::CACHEDB, folder.file("two.db"));
  CHECK(kernel_cache()->path() == folder.file("two.db"));
}
