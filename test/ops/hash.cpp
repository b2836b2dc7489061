// Digests of bytes.
#include "ops/table.h"

#include <array>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

using State = std::array<uint64_t, 25>;

uint64_t turned(uint64_t v, int by) { return by ? v << by | v >> (64 - by) : v; }

// The permutation of FIPS 202, with its round constants from the shift register that defines them.
void permute_state(State& a) {
  uint8_t shifts = 1;
  for (int round = 0; round < 24; round++) {
    State b{};
    std::array<uint64_t, 5> c{};
    for (size_t i = 0; i < 25; i++) c[i % 5] ^= a[i];
    for (size_t i = 0; i < 25; i++) a[i] ^= c[(i + 4) % 5] ^ turned(c[(i + 1) % 5], 1);
    size_t x = 1, y = 0;
    b[0] = a[0];
    for (int t = 0; t < 24; t++) {
      const size_t to_x = y, to_y = (2 * x + 3 * y) % 5;
      b[to_x + 5 * to_y] = turned(a[x + 5 * y], (t + 1) * (t + 2) / 2 % 64);
      x = to_x;
      y = to_y;
    }
    for (size_t i = 0; i < 25; i++) {
      const size_t row = i / 5 * 5;
      a[i] = b[i] ^ (~b[row + (i + 1) % 5] & b[row + (i + 2) % 5]);
    }
    for (int j = 0; j < 7; j++) {
      if (shifts & 1) a[0] ^= uint64_t{1} << ((1 << j) - 1);
      shifts = static_cast<uint8_t>(shifts << 1 ^ (shifts & 0x80 ? 0x71 : 0));
    }
  }
}

Values digest(const Values& message, size_t rate, uint8_t suffix) {
  State a{};
  size_t at = 0;
  const auto absorb = [&](uint64_t byte) { a[at / 8] ^= byte << (8 * (at % 8)); };
  for (double v : message) {
    absorb(static_cast<uint64_t>(v));
    if (++at < rate) continue;
    permute_state(a);
    at = 0;
  }
  absorb(suffix);
  at = rate - 1;
  absorb(0x80);
  permute_state(a);
  Values out;
  for (size_t i = 0; i < (200 - rate) / 2; i++)
    out.push_back(static_cast<double>(a[i / 8] >> (8 * (i % 8)) & 255));
  return out;
}

Array digests(A x, size_t rate, uint8_t suffix) {
  const int64_t n = x.shape.back(), rows = count({x.shape.begin(), x.shape.end() - 1});
  Array out;
  out.shape = x.shape;
  out.shape.back() = static_cast<int64_t>((200 - rate) / 2);
  for (int64_t i = 0; i < rows; i++) {
    const auto from = x.data.begin() + i * n;
    const Values d = digest({from, from + n}, rate, suffix);
    out.data.insert(out.data.end(), d.begin(), d.end());
  }
  return out;
}

Row keccak(const char* name, Index shape) {
  return Row(
             name, {in(std::move(shape)).range(0, 255)}, [](T x) { return x.keccak(); },
             [](A x) { return digests(x, 136, 6); })
      .on({DType::UInt8});
}

Rows hashes() {
  return {
      keccak("keccak", {3}),
      keccak("keccak: nothing", {2, 0}),
      keccak("keccak: all but one byte of a block", {135}),
      keccak("keccak: a whole block", {136}),
      keccak("keccak: several messages of two blocks", {2, 3, 150}),
      Row(
          "keccak: other algorithms", {in({2, 9}).range(0, 255)},
          [](T x) { return Tensors{x.keccak("sha3_224"), x.keccak("shake_128"), x.keccak(64, 1)}; },
          [](A x) { return Arrays{digests(x, 144, 6), digests(x, 168, 31), digests(x, 64, 1)}; })
          .on({DType::UInt8}),
  };
}

}  // namespace

TABLE_TEST_CASE("digests", hashes)
