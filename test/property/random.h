// The random numbers of this folder: the same on every platform, unlike the distributions of <random>.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lathe::test {

// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  Random(uint64_t seed, uint64_t stream) : state_(seed) { state_ = next() ^ stream * 0xda942042e4dd58b5; }

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return next() % n; }  // n > 0; the bias is below 2^-50 for the n used here
  bool one_in(uint64_t n) { return below(n) == 0; }
  int64_t between(int64_t lo, int64_t hi) {  // inclusive
    const uint64_t width = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
    return static_cast<int64_t>(static_cast<uint64_t>(lo) +
                                (width == ~uint64_t{0} ? next() : below(width + 1)));
  }
  template <class T, size_t N>
  const T& pick(const T (&list)[N]) {
    return list[below(N)];
  }

 private:
  uint64_t state_;
};

}  // namespace lathe::test
