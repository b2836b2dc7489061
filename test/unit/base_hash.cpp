#include "base/hash.h"

#include <set>
#include <unordered_set>
#include <vector>

#include "support/test.h"

using namespace lathe;

TEST_CASE("the hash is XXH3's") {
  // XXH3_128bits of no bytes, as the xxHash specification's test vectors have it.
  CHECK(to_hex(hash_bytes(nullptr, 0)) == "99aa06d3014798d86001c324468d497f");
  CHECK(hash_text("abc") == hash_bytes("abc", 3));
  CHECK(hash_text("abc") != hash_text("abd"));
}

TEST_CASE("every bit of the seed counts") {
  std::set<Hash128> seen{hash_text("text")};
  for (int bit = 0; bit < 64; bit++) {
    seen.insert(hash_text("text", {std::uint64_t{1} << bit, 0}));
    seen.insert(hash_text("text", {0, std::uint64_t{1} << bit}));
  }
  CHECK(seen.size() == 129);
}

TEST_CASE("hashes order, print and serve as keys") {
  Hash128 low{5, 1};
  Hash128 high{0, 2};
  CHECK(low < high);
  CHECK(low == Hash128{5, 1});
  CHECK(to_hex(low) == "00000000000000010000000000000005");
  std::unordered_set<Hash128> set{low, high, low};
  CHECK(set.size() == 2);
}
