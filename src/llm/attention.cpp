#include "llm/attention.h"

#include "base/error.h"
#include "llm/cache.h"

namespace lathe {
namespace {

// The projection to `heads` heads of `width`, or the part of a fused attn_qkv that begins at row `begin`.
Linear projection(const Weights& weights, const std::string& at, const char* name, int64_t begin,
                  int64_t rows, int64_t dim, int64_t fused_rows) {
  if (weights.has(at + "attn_qkv.weight"))
    return weights.linear_rows(at + "attn_qkv", begin, rows, dim, fused_rows);
  return weights.linear(at + name, rows, dim);
}

// A norm of heads of `width`, or of all `heads` of them at once where it is longer.
std::optional<Norm> head_norm(const Weights& weights, const std::string& name, int64_t heads, int64_t width,
                              double eps, bool& per_head) {
  const GgufTensor* tensor = weights.file().find(name);
  if (!tensor) return std::nullopt;
  per_head = tensor->elements() == width;
  return Norm{weights.values(name, {per_head ? width : heads * width}), std::nullopt, eps, false};
}

}  // namespace

Attention make_attention(const BlockContext& context, int64_t layer) {
  const ModelConfig& config = context.config;
  const Weights& weights = context.weights;
  const std::string at = fmt::format("blk.{}.", layer);
  const LayerConfig& l = config.layers[static_cast<size_t>(layer)];
  Attention a;
  a.heads = config.heads, a.kv_heads = l.kv_heads;
  a.head_dim = config.head_dim, a.value_dim = config.value_dim;
  a.window = l.window;
  a.scale = config.attention_scale, a.softcap = config.attention_softcap;
  const int64_t q_rows = a.heads * a.head_dim, k_rows = a.kv_heads * a.head_dim;
  const int64_t v_rows = a.kv_heads * a.value_dim, fused = q_rows + k_rows + v_rows;
  a.gated = weights.rows(at + "attn_q.weight") == 2 * q_rows;
  a.q = projection(weights, at, "attn_q", 0, a.gated ? 2 * q_rows : q_rows, config.dim, fused);
  a.k = projection(weights, at, "attn_k", q_rows, k_rows, config.dim, fused);
  a.v = projection(weights, at, "attn_v", q_rows + k_rows, v_rows, config.dim, fused);
  a.output = weights.linear(at + "attn_output", config.dim, a.heads * a.value_dim);
  bool k_per_head = false;
  a.q_norm =
      head_norm(weights, at + "attn_q_norm.weight", a.heads, a.head_dim, config.norm_eps, a.norm_heads);
  a.k_norm =
      head_norm(weights, at + "attn_k_norm.weight", a.kv_heads, a.head_dim, config.norm_eps, k_per_head);
  if (a.k_norm && a.q_norm && a.norm_heads != k_per_head && a.heads != 1)
    value_error("{}: {}attn_q_norm and attn_k_norm differ in kind", weights.file().name(), at);
  a.sinks = weights.optional_values(at + "attn_sinks.weight", {a.heads});
  a.rope = context.ropes.table(l.rope);
  return a;
}

LayerState make_state(const Attention& block, const StateOptions& options) {
  LayerState out;
  std::vector<Tensor>& both = block.window ? out.window : out.cache;
  for (const int64_t width : {block.head_dim, block.value_dim})
    for (Tensor& t : make_cache(block.kv_heads, width,
                                block.window ? options.window_capacity : options.capacity, options))
      both.push_back(std::move(t));
  return out;
}

Tensor forward(const Attention& block, const Tensor& x, const Step& step, LayerState& state) {
  const int64_t rows = step.rows;
  // Heads (heads, rows, width) of a projection, normed and turned.
  const auto heads = [&](Tensor t, int64_t n, const std::optional<Norm>& norm) {
    if (norm && !block.norm_heads) t = (*norm)(t);
    t = t.reshape({rows, n, -1});
    if (norm && block.norm_heads) t = (*norm)(t);
    t = t.transpose(0, 1);
    return block.rope ? rotate(t, *block.rope, step) : t;
  };
  Tensor q = block.q(x), gate;
  if (block.gated) {
    const Tensor both = q.reshape({rows, block.heads, 2, block.head_dim});
    const Slice all;
    gate = both.at(all, all, 1).reshape({rows, -1});
    q = both.at(all, all, 0);
  }
  q = heads(q.reshape({rows, -1}), block.heads, block.q_norm);
  const std::span<Tensor> both(block.window ? state.window : state.cache);
  const CacheRange& range = block.window ? step.window : step.full;
  const std::span<Tensor> keys = both.first(both.size() / 2), values = both.last(both.size() / 2);
  write_cache(keys, range, heads(block.k(x), block.kv_heads, block.k_norm));
  write_cache(values, range, block.v(x).reshape({rows, block.kv_heads, -1}).transpose(0, 1));

  const Tensor mixed =
      attend(q, keys, values, block.value_dim, range, {block.scale, block.softcap, block.window, block.sinks})
          .transpose(0, 1)
          .reshape({rows, -1});
  return block.output(block.gated ? mixed * gate.sigmoid() : mixed);
}

}  // namespace lathe
