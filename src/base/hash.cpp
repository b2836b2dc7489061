#include "base/hash.h"

#include <fmt/core.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lathe {

Hash128 hash_bytes(const void* data, std::size_t size, Hash128 seed) {
  XXH128_hash_t plain = XXH3_128bits(data, size);
  if (seed == Hash128{}) return {plain.low64, plain.high64};
  // XXH3's own seed has 64 bits only.
  const std::uint64_t both[4] = {seed.lo, seed.hi, plain.low64, plain.high64};
  XXH128_hash_t mixed = XXH3_128bits(both, sizeof both);
  return {mixed.low64, mixed.high64};
}

std::string to_hex(Hash128 hash) { return fmt::format("{:016x}{:016x}", hash.hi, hash.lo); }

}  // namespace lathe
