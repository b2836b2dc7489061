#include "llm/cache.h"

#include "base/error.h"

namespace lathe {

constexpr int64_t kBlock = 32;  // numbers that share a scale

std::vector<Tensor> make_cache(int64_t heads, int64_t width, const StateOptions& options) {
  const auto zeros = [&](int64_t size, DType dtype) {
    return make_zeros({heads, options.capacity, size}, dtype, options.device);
  };
  if (options.kv_type == KvType::F16) return {zeros(width, DType::Float16)};
  if (options.kv_type == KvType::F32) return {zeros(width, DType::Float32)};
  if (width % kBlock)
    value_error("a q8_0 cache needs rows of a multiple of {} numbers, those of the model have {}; use f16",
                kBlock, width);
  return {zeros(width, DType::Int8), zeros(width / kBlock, DType::Float16)};
}

void write_cache(std::span<Tensor> cache, const Step& step, const Tensor& x) {
  const Slice all, here{step.start, step.start + step.rows};
  if (cache.size() == 1) {
    cache[0].set({all, here}, x.cast(cache[0].dtype()));
    return;
  }
  const Tensor blocks = x.unflatten(-1, {-1, kBlock});
  const Tensor scales = (blocks.abs().max(-1, true) / 127).half();
  const Tensor inverse = (scales == 0).where(0, scales.to_float().reciprocal());
  cache[0].set({all, here}, (blocks * inverse).round().cast(DType::Int8).flatten(-2));
  cache[1].set({all, here}, scales.squeeze(-1));
}

Tensor read_cache(std::span<const Tensor> cache, const Slice& positions) {
  const Slice all;
  const Tensor data = cache[0].at(all, positions).to_float();
  if (cache.size() == 1) return data;
  return (data.unflatten(-1, {-1, kBlock}) * cache[1].at(all, positions).to_float().unsqueeze(-1))
      .flatten(-2);
}

Tensor visible(const Step& step, int64_t window, int64_t capacity, const SInt& keys) {
  const Tensor key = Tensor::arange(capacity, {.dtype = DType::Int32}).at(Slice{0, keys});
  const Tensor query =
      Tensor(step.start.uop()) + Tensor::arange(step.rows, {.dtype = DType::Int32}).unsqueeze(-1);
  const Tensor causal = key <= query;
  return window ? causal & (key > query - window) : causal;
}

}  // namespace lathe
