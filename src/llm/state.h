// What a model keeps of the positions it has seen.
#pragma once
#include "tensor/tensor.h"
#include "uop/variable.h"

#include <vector>

namespace lathe {

// Attention reads its caches in blocks, so that its loops have fixed sizes.
inline constexpr int64_t kKeyBlock = 128;
constexpr int64_t key_blocks(int64_t positions) { return (positions + kKeyBlock - 1) / kKeyBlock; }
struct CacheRange {
  SInt at = 0;                 // where the rows of the call stand in the cache
  SInt first = 0, blocks = 1;  // so many blocks from the first one hold all positions that the rows see
};

// Where the rows of a call are. One graph has a fixed number of rows; the first `count` of them are tokens at
// positions start … start + count - 1, those behind are padding: what a block writes for them must not
// count. Attention may write padding to its cache, since later calls overwrite it before anything reads it;
// recurrent blocks leave their state as it is after the last token.
struct Step {
  int64_t rows = 1;
  SInt start = 0;                     // a Variable in [0, context - 1]
  SInt count = 1;                     // a Variable in [1, rows], or 1
  CacheRange full = {}, window = {};  // of caches of every position, and of those that slide
};

enum class KvType : uint8_t { F16, F32, Q8_0 };

struct StateOptions {
  int64_t capacity = 0;         // positions a cache holds: the context and the padding of the last call
  int64_t window_capacity = 0;  // of layers that see a window
  KvType kv_type = KvType::F16;
  std::string device = {};
};

// The memory of one layer. A block makes it once (`make_state`), realised, and its forward function assigns
// to it in place.
struct LayerState {
  std::vector<Tensor> cache = {};      // one entry a position: may be cut back to any prefix
  std::vector<Tensor> window = {};     // the same of the last positions only
  std::vector<Tensor> recurrent = {};  // float32, a function of all positions so far: zeros at the start
};
using ModelState = std::vector<LayerState>;

// Zeros of a cache's dtype; realised.
Tensor make_zeros(const Shape& shape, DType dtype, const std::string& device);

// Bytes of memory.
int64_t state_bytes(const ModelState& state);

}  // namespace lathe
