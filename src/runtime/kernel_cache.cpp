#include "runtime/kernel_cache.h"

#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>

namespace lathe {
namespace {

// Raise when the layout of the tables or the meaning of a value changes: a file of another version is
// emptied.
constexpr int kSchemaVersion = 2;
constexpr int kApplicationId = 0x6c746865;  // "lthe": files of other programs are not touched
// A writer holds the lock for well under a millisecond.
constexpr int kBusyTimeoutMs = 1000;

constexpr const char kSchema[] =
    "DROP TABLE IF EXISTS entries;"
    "CREATE TABLE entries(tab TEXT NOT NULL, key BLOB NOT NULL, checksum BLOB NOT NULL, value BLOB NOT NULL,"
    " PRIMARY KEY(tab, key));";

Hash128 checksum(std::string_view table, Hash128 key, std::string_view value) {
  return hash_text(value, hash_text(table, key));
}

}  // namespace

struct KernelCache::Connection {
  explicit Connection(const std::string& file) : path(file) {}
  ~Connection() { close(); }

  const std::string& path;
  mutable std::mutex mutex;
  sqlite3* db = nullptr;
  sqlite3_stmt* find_statement = nullptr;
  sqlite3_stmt* store_statement = nullptr;
  pid_t owner = 0;
  bool broken = false;
  bool writable = true;
  Counts counts;

  void close() {
    // A connection must not be used, nor closed, on the other side of a fork.
    if (db && owner == getpid()) {
      sqlite3_finalize(find_statement);
      sqlite3_finalize(store_statement);
      sqlite3_close(db);
    }
    db = nullptr;
    find_statement = store_statement = nullptr;
  }

  // False, for callers that return whether the file is of use.
  bool give_up(const char* action, std::string reason = {}) {
    if (reason.empty()) reason = db ? sqlite3_errmsg(db) : "out of memory";
    log_warn_once("kernel cache " + path, "kernel cache {} is not used: cannot {}: {}", path, action, reason);
    close();
    broken = true;
    return false;
  }

  bool run(const char* sql) { return sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK; }

  // The number a query yields; nothing when it fails.
  std::optional<int> number(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    std::optional<int> value;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
      value = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return value;
  }

  // True once the file is open and of this version.
  bool ready() {
    if (db && owner != getpid()) close();
    if (broken) return false;
    if (db) return true;
    std::error_code ignored;
    std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    owner = getpid();
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path.c_str(), &db, flags, nullptr) != SQLITE_OK) return give_up("open it");
    sqlite3_busy_timeout(db, kBusyTimeoutMs);
    std::optional<int> version = number("PRAGMA user_version");
    if (!version) return give_up("read it");
    if (*version != kSchemaVersion && !make_schema()) return false;
    return prepare();
  }

  // Another process may be at the same point: what the file holds is asked again under the write lock.
  bool make_schema() {
    number("PRAGMA journal_mode=WAL");  // readers go on while another process writes; the mode stays with the
                                        // file
    if (!run("BEGIN IMMEDIATE")) return give_up("lock it");
    const std::optional<int> version = number("PRAGMA user_version");
    const std::optional<int> id = number("PRAGMA application_id");
    const std::optional<int> tables = number("SELECT count(*) FROM sqlite_master");
    if (!version || !id || !tables) return give_up("read it");
    if (*id != kApplicationId && *tables != 0) return give_up("use it", "it belongs to another program");
    if (*version != kSchemaVersion) {
      std::string sql = fmt::format("{} PRAGMA application_id={}; PRAGMA user_version={};", kSchema,
                                    kApplicationId, kSchemaVersion);
      if (!run(sql.c_str())) return give_up("create its table");
    }
    return run("COMMIT") || give_up("create its table");
  }

  bool prepare() {
    // A checksum guards each value, so a crash may lose the last entries but never yields a wrong one.
    run("PRAGMA synchronous=NORMAL");
    if (sqlite3_prepare_v3(db, "SELECT checksum, value FROM entries WHERE tab=? AND key=?", -1,
                           SQLITE_PREPARE_PERSISTENT, &find_statement, nullptr) == SQLITE_OK &&
        sqlite3_prepare_v3(db, "INSERT OR REPLACE INTO entries VALUES(?,?,?,?)", -1,
                           SQLITE_PREPARE_PERSISTENT, &store_statement, nullptr) == SQLITE_OK)
      return true;
    return give_up("read its table");
  }

  static void bind_blob(sqlite3_stmt* statement, int at, const void* data, size_t size) {
    sqlite3_bind_blob64(statement, at, data, size, SQLITE_STATIC);
  }
  static void bind_key(sqlite3_stmt* statement, std::string_view table, const Hash128& key) {
    sqlite3_bind_text(statement, 1, table.data(), static_cast<int>(table.size()), SQLITE_STATIC);
    bind_blob(statement, 2, &key, sizeof(key));
  }

  static std::string_view blob(sqlite3_stmt* statement, int column) {
    const void* data = sqlite3_column_blob(statement, column);
    return {static_cast<const char*>(data),
            data ? static_cast<size_t>(sqlite3_column_bytes(statement, column)) : 0};
  }

  std::optional<std::string> find(std::string_view table, const Hash128& key) {
    bind_key(find_statement, table, key);
    std::optional<std::string> value;
    const int status = sqlite3_step(find_statement);
    if (status == SQLITE_ROW) {
      const std::string_view found = blob(find_statement, 1);
      const Hash128 expected = checksum(table, key, found);
      if (blob(find_statement, 0) ==
          std::string_view(reinterpret_cast<const char*>(&expected), sizeof(expected)))
        value = found;
    }
    sqlite3_reset(find_statement);
    if (status != SQLITE_ROW && status != SQLITE_DONE) give_up("look up a kernel");
    return value;
  }

  void store(std::string_view table, const Hash128& key, std::string_view value) {
    const Hash128 check = checksum(table, key, value);
    bind_key(store_statement, table, key);
    bind_blob(store_statement, 3, &check, sizeof(check));
    // A null pointer would be stored as NULL.
    bind_blob(store_statement, 4, value.empty() ? "" : value.data(), value.size());
    const int status = sqlite3_step(store_statement);
    sqlite3_reset(store_statement);
    sqlite3_clear_bindings(store_statement);
    if (status == SQLITE_READONLY) {
      writable = false;  // what it holds still serves
      log_warn_once("kernel cache " + path, "kernel cache {} is read-only: new kernels are not kept", path);
    } else if (status != SQLITE_DONE) {
      give_up("store a kernel");
    }
  }
};

KernelCache::KernelCache(std::string path)
    : path_(std::move(path)), connection_(std::make_unique<Connection>(path_)) {}
KernelCache::~KernelCache() = default;

std::optional<std::string> KernelCache::find(std::string_view table, Hash128 key) {
  std::lock_guard lock(connection_->mutex);
  std::optional<std::string> value;
  if (connection_->ready()) value = connection_->find(table, key);
  (value ? connection_->counts.hits : connection_->counts.misses)++;
  return value;
}

void KernelCache::store(std::string_view table, Hash128 key, std::string_view value) {
  std::lock_guard lock(connection_->mutex);
  if (!connection_->ready() || !connection_->writable) return;
  connection_->store(table, key, value);
  connection_->counts.stores++;
}

KernelCache::Counts KernelCache::counts() const {
  std::lock_guard lock(connection_->mutex);
  return connection_->counts;
}

bool KernelCache::is_broken() const {
  std::lock_guard lock(connection_->mutex);
  return connection_->broken;
}

namespace {

std::string cache_path() {
  const std::string& given = knob_str(Knob::CACHEDB);
  if (!given.empty()) return given;
  const char* folder = std::getenv("XDG_CACHE_HOME");
  if (folder && *folder) return std::string(folder) + "/lathe/kernels.db";
  const char* home = std::getenv("HOME");
  return std::string(home && *home ? home : "/tmp") + "/.cache/lathe/kernels.db";
}

}  // namespace

KernelCache* kernel_cache() {
  if (knob(Knob::CACHELEVEL) <= 0) return nullptr;
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<KernelCache>>
      caches;  // closed at exit, which merges the write-ahead log
  std::lock_guard lock(mutex);
  std::unique_ptr<KernelCache>& cache = caches[cache_path()];
  if (!cache) cache = std::make_unique<KernelCache>(cache_path());
  return cache.get();
}

}  // namespace lathe
