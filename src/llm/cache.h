// Caches of what attention keeps of each position.
#pragma once
#include "llm/state.h"
#include "tensor/tensor.h"

#include <span>
#include <vector>

namespace lathe {

// Rows of `width` numbers for heads and positions, zeros: (heads, capacity, width) of floats, or int8 of that
// shape and float16 scales of its blocks, (heads, capacity, width / 32). ValueError for widths that are no
// whole blocks then.
std::vector<Tensor> make_cache(int64_t heads, int64_t width, const StateOptions& options);
// x (heads, rows, width) goes to the positions of the step.
void write_cache(std::span<Tensor> cache, const Step& step, const Tensor& x);
// float32 (heads, positions, width).
Tensor read_cache(std::span<const Tensor> cache, const Slice& positions);

// Which keys the rows of a call see, the last `window` of those up to a row's own, all of them where it is 0:
// bool (rows, keys). `capacity` bounds `keys`.
Tensor visible(const Step& step, int64_t window, int64_t capacity, const SInt& keys);

}  // namespace lathe
