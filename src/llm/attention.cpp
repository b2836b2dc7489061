#include "llm/attention.h"

#include "base/error.h"

#include <limits>

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

// Rows of a cache: floats of some width as they are, or int8 blocks and their scales.
constexpr int64_t kBlock = 32;

void write_cache(Tensor* cache, bool is_packed, const Step& step, const Tensor& x) {
  const Slice all, here{step.start, step.start + step.rows};
  if (!is_packed) {
    cache[0].set({all, here}, x.cast(cache[0].dtype()));
    return;
  }
  const Tensor blocks = x.unflatten(-1, {-1, kBlock});
  const Tensor scales = (blocks.abs().max(-1, true) / 127).half();
  const Tensor inverse = (scales == 0).where(0, scales.to_float().reciprocal());
  cache[0].set({all, here}, (blocks * inverse).round().cast(DType::Int8).flatten(-2));
  cache[1].set({all, here}, scales.squeeze(-1));
}

Tensor read_cache(const Tensor* cache, bool is_packed, const Slice& positions) {
  const Slice all;
  const Tensor data = cache[0].at(all, positions).to_float();
  if (!is_packed) return data;
  return (data.unflatten(-1, {-1, kBlock}) * cache[1].at(all, positions).to_float().unsqueeze(-1))
      .flatten(-2);
}

// Which keys the rows of a call see: (rows, keys).
Tensor visible(const Attention& block, const Step& step, int64_t capacity, const SInt& keys) {
  const Tensor key = Tensor::arange(capacity, {.dtype = DType::Int32}).at(Slice{0, keys});
  const Tensor query =
      Tensor(step.start.uop()) + Tensor::arange(step.rows, {.dtype = DType::Int32}).unsqueeze(-1);
  const Tensor causal = key <= query;
  return block.window ? causal & (key > query - block.window) : causal;
}

// Softmax with one more column, of the sinks, that has no value.
Tensor softmax_with_sinks(const Tensor& scores, const Tensor& sinks) {
  const Tensor top = scores.max(-1, true).maximum(sinks);
  const Tensor weights = (scores - top).exp();
  return weights / (weights.sum(-1, true) + (sinks - top).exp());
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
  const bool is_packed = options.kv_type == KvType::Q8_0;
  for (const int64_t width : {block.head_dim, block.value_dim}) {
    if (is_packed && width % kBlock)
      value_error("a q8_0 cache needs heads of a multiple of {} numbers, the model has {}; use f16", kBlock,
                  width);
    const DType dtype = is_packed                        ? DType::Int8
                        : options.kv_type == KvType::F16 ? DType::Float16
                                                         : DType::Float32;
    out.cache.push_back(make_zeros({block.kv_heads, options.capacity, width}, dtype, options.device));
    if (is_packed)
      out.cache.push_back(
          make_zeros({block.kv_heads, options.capacity, width / kBlock}, DType::Float16, options.device));
  }
  return out;
}

Tensor forward(const Attention& block, const Tensor& x, const Step& step, LayerState& state) {
  const int64_t rows = step.rows, group = block.heads / block.kv_heads;
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
  const bool is_packed = state.cache.size() == 4;
  Tensor *keys = &state.cache[0], *values = &state.cache[is_packed ? 2 : 1];
  write_cache(keys, is_packed, step, heads(block.k(x), block.kv_heads, block.k_norm));
  write_cache(values, is_packed, step, block.v(x).reshape({rows, block.kv_heads, -1}).transpose(0, 1));

  const int64_t capacity = keys->size(1).value();
  const SInt seen = step.start + rows;
  const Slice past{0, seen};
  const Tensor k = read_cache(keys, is_packed, past).unsqueeze(1),
               v = read_cache(values, is_packed, past).unsqueeze(1);
  Tensor scores = q.reshape({block.kv_heads, group, rows, -1}).matmul(k.transpose(-2, -1)) * block.scale;
  if (block.softcap != 0) scores = (scores / block.softcap).tanh() * block.softcap;
  if (rows > 1 || block.window)
    scores = visible(block, step, capacity, seen).where(scores, -std::numeric_limits<double>::infinity());
  const Tensor weights = block.sinks
                             ? softmax_with_sinks(scores, block.sinks->reshape({block.kv_heads, group, 1, 1}))
                             : scores.softmax(-1);
  const Tensor mixed = weights.matmul(v).reshape({block.heads, rows, -1}).transpose(0, 1).reshape({rows, -1});
  return block.output(block.gated ? mixed * gate.sigmoid() : mixed);
}

}  // namespace lathe
