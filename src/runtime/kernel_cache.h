// Compiled kernels and search results on disk, shared by all processes of a user.
#pragma once
#include "base/hash.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

// A file of (table, key) → bytes. It can only make a run faster: whatever goes wrong — no file, no rights, a
// lock that stays, damage — a lookup misses, a store is dropped, one warning is logged and the file is left
// alone for the rest of the process. A value carries a checksum and a damaged one is a miss. Thread-safe;
// other processes may use the file.
class KernelCache {
 public:
  explicit KernelCache(std::string path);  // opened at the first lookup or store
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  std::optional<std::string> find(std::string_view table, Hash128 key);
  // Replaces what is there.
  void store(std::string_view table, Hash128 key, std::string_view value);

  struct Counts {
    int64_t hits = 0, misses = 0, stores = 0;
  };
  Counts counts() const;
  bool is_broken() const;
  const std::string& path() const { return path_; }

 private:
  struct Connection;
  std::string path_;
  std::unique_ptr<Connection> connection_;
};

// The cache that CACHEDB names; null when CACHELEVEL is 0. Follows later changes of the knobs.
KernelCache* kernel_cache();

}  // namespace lathe
