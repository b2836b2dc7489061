// Caches of what attention keeps of each position.
#pragma once
#include "llm/state.h"
#include "tensor/tensor.h"

#include <optional>
#include <span>
#include <vector>

namespace lathe {

// Rows of `width` numbers for heads and positions, zeros: (heads, positions, width) of floats, or int8 of
// that shape and float16 scales of its blocks, (heads, positions, width / 32); positions are rounded up to
// whole blocks of kKeyBlock. ValueError for widths that are no whole blocks then.
std::vector<Tensor> make_cache(int64_t heads, int64_t width, int64_t positions, const StateOptions& options);
// x (heads, rows, width) goes to the rows of the call.
void write_cache(std::span<Tensor> cache, const CacheRange& range, const Tensor& x);

// What scores become before and in the softmax.
struct Scores {
  double scale = 1, softcap = 0;
  int64_t window = 0;                // a row sees so many positions up to its own; 0: all
  std::optional<Tensor> sinks = {};  // float32 (heads): logits of one more column, which has no value
};

// Attention of query (heads, rows, width) float32 over the positions up to the last row's: float32 (heads,
// rows, value width). Heads share those of the caches in groups; the value of a position is the first
// `value_width` numbers of its row. Row r sees what stands up to its own place, range.at + r.
Tensor attend(const Tensor& query, std::span<const Tensor> keys, std::span<const Tensor> values,
              int64_t value_width, const CacheRange& range, const Scores& scores);

}  // namespace lathe
