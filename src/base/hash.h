#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lathe {

struct Hash128 {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128& a, const Hash128& b) {
    return a.hi != b.hi ? a.hi <=> b.hi : a.lo <=> b.lo;
  }
};

// XXH3 of the bytes. All 128 bits of a seed count, so a long value may be hashed piece by piece: each piece's
// hash is the next one's seed. The same on every run and machine of the same byte order.
Hash128 hash_bytes(const void* data, std::size_t size, Hash128 seed = {});

inline Hash128 hash_text(std::string_view text, Hash128 seed = {}) {
  return hash_bytes(text.data(), text.size(), seed);
}

// 32 hexadecimal digits, the high half first.
std::string to_hex(Hash128 hash);

}  // namespace lathe

template <>
struct std::hash<lathe::Hash128> {
  // The bits are already mixed.
  std::size_t operator()(const lathe::Hash128& hash) const noexcept { return hash.lo; }
};
