// Numbers that random expressions are made of.
#pragma once
#include <cstdint>
#include <utility>

namespace lathe::test {

inline constexpr int64_t k31 = int64_t{1} << 31, k62 = int64_t{1} << 62;
// Positive, negative and of both signs, single, at the ends of 32 bits and near 2^62.
inline constexpr std::pair<int64_t, int64_t> kBoxes[] = {{0, 1},
                                                         {0, 2},
                                                         {0, 3},
                                                         {0, 3},
                                                         {0, 5},
                                                         {0, 7},
                                                         {0, 8},
                                                         {0, 15},
                                                         {0, 31},
                                                         {0, 63},
                                                         {0, 100},
                                                         {0, 511},
                                                         {0, 1000},
                                                         {1, 4},
                                                         {1, 8},
                                                         {2, 5},
                                                         {3, 12},
                                                         {-3, 4},
                                                         {-5, 5},
                                                         {-10, -3},
                                                         {-1, 0},
                                                         {-8, -1},
                                                         {-20, 20},
                                                         {7, 7},
                                                         {0, 0},
                                                         {-4, -4},
                                                         {-100, 100},
                                                         {0, k31 - 1},
                                                         {0, k31},
                                                         {-k31, k31 - 1},
                                                         {0, k62},
                                                         {-k62, k62},
                                                         {k31 - 5, k31 + 5},
                                                         {k62 - 3, k62 + 4}};
inline constexpr int64_t kDivisors[] = {1, 2,  2,  3,  3,  4,  4,  5,  6,  7,   8,  8,
                                        9, 12, 14, 15, 16, 24, 32, 49, 64, 100, 512};
inline constexpr int64_t kRareDivisors[] = {-1, -2, -3, -4, -6, -7, -12, k31, k31 - 1, k62, -k31, 1000003};
inline constexpr int64_t kFactors[] = {1,  1,  1,  1,  2,  3,  4,  4,  6,  8, 12,
                                       16, 24, 32, 49, -1, -1, -2, -3, -4, -8};
inline constexpr int64_t kConstants[] = {0,  0,   1,   1,   2,    3,   4,   5,       7,   8,    11, 12,
                                         16, 31,  32,  63,  100,  512, -1,  -1,      -2,  -3,   -4, -7,
                                         -8, -13, -31, -64, -100, 255, 256, k31 - 1, k31, -k31, k62};
inline constexpr double kReals[] = {0.0, 1.0, -1.0, 2.0, 0.5, 4.0, -2.0, 0.25, 3.0, 1.5, -0.5, 0.1};
inline constexpr int64_t kEnds[] = {1, 2, 3, 4, 5, 8, 16, 49, 64};

}  // namespace lathe::test
