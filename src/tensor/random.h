// The counter-based generator behind Tensor::rand and its relatives: Threefry-2x32 with 20 rounds (Salmon et
// al., Parallel random numbers: as easy as 1, 2, 3).
#pragma once
#include "tensor/tensor.h"

namespace lathe {

// `count` words of 32 bits: the numbers 0 … h-1 paired with h … 2h-1, h = ceil(count / 2), encrypted under a
// uint64 key of one element (second key word in the high half); first halves, then second halves.
Tensor threefry_words(const Tensor& key, int64_t count);

// Words for a float of the default [0, 1) grid: `bits` (an unsigned type as wide as `dtype`) to values.
Tensor unit_interval(const Tensor& bits, DType dtype);

// Last 32 bits of the SHA-256 of the device's number (order of first use) as four big-endian bytes: its first
// key word.
uint32_t device_key(uint32_t number);

}  // namespace lathe
