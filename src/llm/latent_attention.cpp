#include "llm/latent_attention.h"

#include "base/error.h"
#include "llm/cache.h"

#include <cmath>

namespace lathe {

LatentAttention make_latent_attention(const BlockContext& context, int64_t layer) {
  const ModelConfig& config = context.config;
  const Weights& weights = context.weights;
  const std::string at = fmt::format("blk.{}.", layer);
  const RopeConfig& rope = config.layers[static_cast<size_t>(layer)].rope;
  // The width of the turned part is that of the tensor: rope.dimension_count is wrong in some files.
  LatentAttention a{.heads = config.heads, .rank = config.latent.kv_rank};
  a.turned = weights.rows(at + "attn_kv_a_mqa.weight") - a.rank;
  a.plain = config.head_dim - a.turned;
  if (a.rank < 1 || a.turned < 0 || a.plain < 1 || config.value_dim < 1)
    value_error(
        "{}: {}attn_kv_a_mqa.weight has {} rows, which do not go with {}.attention.kv_lora_rank = {} "
        "and heads of {} numbers",
        weights.file().name(), at, a.rank + a.turned, config.architecture, a.rank, config.head_dim);
  const int64_t q_rows = a.heads * config.head_dim, q_rank = config.latent.q_rank;
  if (weights.has(at + "attn_q_a.weight")) {
    a.q_down = weights.linear(at + "attn_q_a", q_rank, config.dim);
    a.q_norm =
        Norm{weights.values(at + "attn_q_a_norm.weight", {q_rank}), std::nullopt, config.norm_eps, false};
    a.q = weights.linear(at + "attn_q_b", q_rows, q_rank);
  } else {
    a.q = weights.linear(at + "attn_q", q_rows, config.dim);
  }
  a.kv_down = weights.linear(at + "attn_kv_a_mqa", a.rank + a.turned, config.dim);
  a.kv_norm =
      Norm{weights.values(at + "attn_kv_a_norm.weight", {a.rank}), std::nullopt, config.norm_eps, false};
  a.output = weights.linear(at + "attn_output", config.dim, a.heads * config.value_dim);
  if (weights.has(at + "attn_kv_b.weight")) {
    const int64_t both = a.plain + config.value_dim;
    const PackedMatrix kv = weights.matrix(at + "attn_kv_b.weight", a.heads * both, a.rank);
    const auto rows = [&](int64_t begin, int64_t end) {
      PackedMatrix out{kv.type, end - begin, kv.columns, {}};
      for (const Tensor& part : kv.parts)
        out.parts.push_back(part.unflatten(0, {a.heads, both}).at(Slice{}, Slice{begin, end}));
      return out;
    };
    a.k = rows(0, a.plain), a.v = rows(a.plain, both), a.k_is_transposed = true;
  } else {
    a.k = weights.experts(at + "attn_k_b.weight", a.heads, a.rank, a.plain);
    a.v = weights.experts(at + "attn_v_b.weight", a.heads, config.value_dim, a.rank);
  }
  RopeConfig turned = rope;
  turned.dims = a.turned;
  a.rope = context.ropes.table(turned);
  // YaRN as DeepSeek trained with it multiplies scores by the square of its magnitude.
  const double m = rope.scaling == RopeConfig::Scaling::Yarn && rope.log_multiplier != 0
                       ? 1 + rope.log_multiplier * std::log(rope.factor)
                       : 1;
  a.scale = config.attention_scale * m * m;
  return a;
}

LayerState make_state(const LatentAttention& block, const StateOptions& options) {
  return {.cache = make_cache(1, block.rank + block.turned, options.capacity, options)};
}

Tensor forward(const LatentAttention& block, const Tensor& x, const Step& step, LayerState& state) {
  const int64_t rows = step.rows;
  const auto turn = [&](const Tensor& t) { return block.rope ? rotate(t, *block.rope, step) : t; };
  const Tensor narrow = block.q_down ? (*block.q_norm)((*block.q_down)(x)) : x;
  const Tensor q =
      block.q(narrow).reshape({rows, block.heads, -1}).transpose(0, 1);  // (heads, rows, head dim)
  const Tensor plain = q.at(ellipsis, Slice{0, block.plain});
  const Tensor absorbed = block.k_is_transposed ? plain.matmul(unpack(block.k)) : multiply(plain, block.k);
  const Tensor query = Tensor::cat({absorbed, turn(q.at(ellipsis, Slice{block.plain, none}))}, -1);

  const Tensor down = block.kv_down(x).unsqueeze(0);  // (1, rows, rank + turned)
  const Tensor latent = block.kv_norm(down.at(ellipsis, Slice{0, block.rank}));
  write_cache(state.cache, step.full,
              Tensor::cat({latent, turn(down.at(ellipsis, Slice{block.rank, none}))}, -1));
  const Tensor mixed = attend(query, state.cache, state.cache, block.rank, step.full, {.scale = block.scale});
  return block.output(multiply(mixed, block.v).transpose(0, 1).reshape({rows, -1}));
}

}  // namespace lathe
