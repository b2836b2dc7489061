#include "llm/cache.h"

#include "base/error.h"

#include <limits>

namespace lathe {

constexpr int64_t kBlock = 32;  // numbers that share a scale

std::vector<Tensor> make_cache(int64_t heads, int64_t width, int64_t positions, const StateOptions& options) {
  positions = key_blocks(positions) * kKeyBlock;
  const auto zeros = [&](int64_t size, DType dtype) {
    return make_zeros({heads, positions, size}, dtype, options.device);
  };
  if (options.kv_type == KvType::F16) return {zeros(width, DType::Float16)};
  if (options.kv_type == KvType::F32) return {zeros(width, DType::Float32)};
  if (width % kBlock)
    value_error("a q8_0 cache needs rows of a multiple of {} numbers, those of the model have {}; use f16",
                kBlock, width);
  return {zeros(width, DType::Int8), zeros(width / kBlock, DType::Float16)};
}

void write_cache(std::span<Tensor> cache, const CacheRange& range, const Tensor& x) {
  const Slice all, here{range.at, range.at + x.size(1)};
  if (cache.size() == 1) {
    // An infinity would outlive its position: masked rows have the weight 0, and 0 times it is no number.
    constexpr double kMostHalf = 65504;
    const bool is_half = cache[0].dtype() == DType::Float16;
    cache[0].set({all, here}, is_half ? x.clamp(-kMostHalf, kMostHalf).half() : x);
    return;
  }
  const Tensor blocks = x.unflatten(-1, {-1, kBlock});
  const Tensor scales = (blocks.abs().max(-1, true) / 127).half();
  const Tensor inverse = (scales == 0).where(0, scales.to_float().reciprocal());
  cache[0].set({all, here}, (blocks * inverse).round().clamp(-127, 127).cast(DType::Int8).flatten(-2));
  cache[1].set({all, here}, scales.squeeze(-1));
}

namespace {

// float32 (heads, blocks, positions of a block, width) of the blocks that are read.
Tensor read_blocks(std::span<const Tensor> cache, const CacheRange& range) {
  const auto part = [&](const Tensor& t) {
    return t.unflatten(1, {-1, kKeyBlock})
        .at(Slice{}, Slice{range.first, range.first + range.blocks})
        .to_float();
  };
  const Tensor data = part(cache[0]);
  if (cache.size() == 1) return data;
  return (data.unflatten(-1, {-1, kBlock}) * part(cache[1]).unsqueeze(-1)).flatten(-2);
}

// Which keys the rows of a call see: bool (rows, blocks, positions of a block).
Tensor visible(const CacheRange& range, int64_t rows, int64_t window, int64_t capacity) {
  const TensorOptions integers{.dtype = DType::Int32};
  const Tensor key = Tensor::arange(capacity, integers)
                         .unflatten(0, {-1, kKeyBlock})
                         .at(Slice{range.first, range.first + range.blocks});
  const Tensor query = Tensor(range.at.uop()) + Tensor::arange(rows, integers).reshape({-1, 1, 1});
  const Tensor causal = key <= query;
  return window ? causal & (key > query - window) : causal;
}

}  // namespace

// In steps, each with its loops over blocks of fixed size, since the number of positions is known only at a
// call: scores, what softmax does with them, and the mix of values.
Tensor attend(const Tensor& query, std::span<const Tensor> keys, std::span<const Tensor> values,
              int64_t value_width, const CacheRange& range, const Scores& scores) {
  const int64_t heads = query.size(0).value(), kv_heads = keys[0].size(0).value();
  const int64_t rows = query.size(1).value(), group = heads / kv_heads;
  const Tensor q = query.contiguous().reshape({kv_heads, group, rows, 1, 1, -1});
  const Tensor k = read_blocks(keys, range).unsqueeze(1).unsqueeze(1);
  Tensor s = (q * k).sum(-1) * scores.scale;  // (kv heads, group, rows, blocks, positions of a block)
  if (scores.softcap != 0) s = (s / scores.softcap).tanh() * scores.softcap;
  s = s.contiguous();
  s = visible(range, rows, scores.window, keys[0].size(1).value())
          .where(s, -std::numeric_limits<double>::infinity());
  Tensor top = s.max({-2, -1}, true), sinks;
  if (scores.sinks) {
    sinks = scores.sinks->reshape({kv_heads, group, 1, 1, 1});
    top = top.maximum(sinks);
  }
  top = top.contiguous();
  const Tensor weights = (s - top).exp().contiguous();
  Tensor total = weights.sum({-2, -1}, true);
  if (scores.sinks) total = total + (sinks - top).exp();
  const SInt positions = range.blocks * SInt(kKeyBlock);
  Tensor v = read_blocks(values, range).reshape({kv_heads, 1, positions, -1});
  if (v.size(-1).value() != value_width) v = v.at(ellipsis, Slice{0, value_width});
  const Tensor mixed = weights.reshape({kv_heads, group, rows, positions}).matmul(v);
  return (mixed / total.contiguous().squeeze(-1)).reshape({heads, rows, value_width});
}

}  // namespace lathe
