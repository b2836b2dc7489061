// Attention in its forms, and what surrounds it.
#include "formats/onnx/call.h"
#include "formats/onnx/session.h"

#include <cmath>
#include <limits>

namespace lathe::onnx {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// (batch, length, heads * size) as (batch, heads, length, size).
Tensor split_heads(const Tensor& x, int64_t heads) {
  if (x.ndim() == 4) return x;
  return x.reshape({x.size(0), x.size(1), SInt(heads), SInt(-1)}).transpose(1, 2);
}
Tensor merge_heads(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// As many key or value heads as there are query heads.
Tensor repeat_heads(const Tensor& x, const SInt& heads) {
  const int64_t own = x.size(1).value();
  if (own == 0 || heads.value() % own) value_error("{} query heads for {} heads", heads.value(), own);
  return own == heads.value() ? x : x.repeat_interleave(heads.value() / own, 1);
}

Tensor positions(int64_t n) { return Tensor::arange(0, n, 1, {DType::Int64}); }

// 0 where a query may look, -inf where it may not.
Tensor as_bias(const Tensor& allowed, DType d) {
  return allowed.where(Tensor(0.0, d), Tensor(kMinusInfinity, d));
}

// What is added to the scores of `queries` over `keys`, of which `past` came from before.
std::optional<Tensor> attention_bias(const Call& c, DType d, int64_t queries, int64_t keys, int64_t past) {
  std::optional<Tensor> bias;
  if (c.has(3)) {
    bias = is_bool(c[3].dtype()) ? as_bias(c[3], d) : c[3].cast(d);
    // A mask may end before the keys do; nobody looks at the rest.
    if (const int64_t given = bias->size(-1).value(); given < keys) {
      AxisPairs pads(bias->shape().size(), AxisPair(0, 0));
      pads.back() = {SInt(0), SInt(keys - given)};
      bias = bias->pad(pads, PadMode::Constant, kMinusInfinity);
    }
  }
  const auto also = [&](const Tensor& allowed) {
    const Tensor more = as_bias(allowed, d);
    bias = bias ? bias->add(more) : more;
  };
  if (c.attr_flag("is_causal")) also(positions(queries).unsqueeze(-1).add(Tensor(past)).ge(positions(keys)));
  if (c.has(6)) also(positions(keys).lt(c[6].reshape({c[6].size(0), SInt(1), SInt(1), SInt(1)})));
  return bias;
}

Values attention(const Call& c) {
  const bool is_flat = c[0].ndim() == 3;
  const Tensor q = split_heads(c[0], c.attr_int("q_num_heads", 0));
  Tensor k = split_heads(c[1], c.attr_int("kv_num_heads", 0)),
         v = split_heads(c[2], c.attr_int("kv_num_heads", 0));
  const int64_t past = c.has(4) ? c[4].size(2).value() : 0;
  if (c.has(4)) k = Tensor::cat({c[4], k}, 2);
  if (c.has(5)) v = Tensor::cat({c[5], v}, 2);
  const Tensor keys = repeat_heads(k, q.size(1)), values = repeat_heads(v, q.size(1));
  const double scale =
      std::sqrt(c.attr_real("scale", 1 / std::sqrt(static_cast<double>(q.size(-1).value()))));
  const DType d = q.dtype();
  const Tensor raw = q.mul(scale).cast(d).matmul(keys.transpose(-2, -1).mul(scale).cast(d));
  const double cap = c.attr_real("softcap", 0);
  const Tensor capped = cap > 0 ? raw.div(cap).tanh().mul(cap).cast(d) : raw;
  const auto bias = attention_bias(c, d, q.size(2).value(), keys.size(2).value(), past);
  const Tensor scores = bias ? capped.add(*bias) : capped;
  const ElementInfo* computed = element_info(static_cast<ElementType>(c.attr_int("softmax_precision", 0)));
  const Tensor weights = (computed ? scores.cast(computed->dtype) : scores).softmax(-1).cast(d);
  const Tensor y = weights.matmul(values);
  const Tensor stages[] = {raw, capped, scores, weights};
  const int64_t stage = c.attr_int("qk_matmul_output_mode", 0);
  if (stage < 0 || stage > 3) value_error("qk_matmul_output_mode is {}", stage);
  return {is_flat ? merge_heads(y) : y, k, v, stages[stage]};
}

// Scores and weights pass through graphs of the model's own.
Tensor flex_attention(const Call& c) {
  const Tensor &q = c[0], k = repeat_heads(c[1], c[0].size(1)), v = repeat_heads(c[2], c[0].size(1));
  const double scale =
      std::sqrt(c.attr_real("scale", 1 / std::sqrt(static_cast<double>(q.size(-1).value()))));
  const DType d = q.dtype(), wide = join(d, DType::Float32);
  const auto modified = [&](std::string_view name, const Tensor& x) {
    if (!c.attribute(name)) return x;
    return c.scope().run(c.attr_graph(name), {Value(x)}).at(0).tensor();
  };
  const Tensor scores = q.mul(scale).cast(d).matmul(k.mul(scale).cast(d).transpose(-2, -1)).cast(wide);
  const Tensor weights = modified("prob_mod", modified("score_mod", scores).softmax(-1));
  return weights.cast(d).matmul(v);
}

// Pairs of elements turned by an angle of their position (Su et al. 2021). Pairs are neighbours, or an
// element of the first half and its partner in the second.
Tensor rotary_embedding(const Call& c) {
  const Tensor x = split_heads(c[0], c.attr_int("num_heads", 0));  // (batch, heads, length, size)
  const int64_t size = x.size(-1).value();
  const int64_t given = c.attr_int("rotary_embedding_dim", 0), turned = given ? given : size;
  const auto angles = [&](size_t i) {
    const Tensor table = c.has(3) ? c[i].at(c[3]) : c[i];  // (batch, length, turned / 2)
    return table.at(ellipsis, Slice{none, turned / 2}).unsqueeze(1);
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const bool neighbours = c.attr_flag("interleaved");
  const Tensor part = x.at(ellipsis, Slice{none, turned});
  const Tensor a =
      neighbours ? part.at(ellipsis, Slice{0, none, 2}) : part.at(ellipsis, Slice{none, turned / 2});
  const Tensor b =
      neighbours ? part.at(ellipsis, Slice{1, none, 2}) : part.at(ellipsis, Slice{turned / 2, none});
  const Tensor real = a.mul(cosine).sub(b.mul(sine)), imaginary = a.mul(sine).add(b.mul(cosine));
  Tensor y = neighbours ? Tensor::stack({real, imaginary}, -1).reshape(part.shape())
                        : Tensor::cat({real, imaginary}, -1);
  if (turned < size) y = Tensor::cat({y, x.at(ellipsis, Slice{turned, none})}, -1);
  return c[0].ndim() == 3 ? merge_heads(y) : y;
}

// A state of outer products of keys and values, read by queries: each step may let it decay and may write
// only what the state does not hold yet (the delta rule).
Values linear_attention(const Call& c) {
  const int64_t q_heads = c.attr_int("q_num_heads"), heads = c.attr_int("kv_num_heads");
  const std::string rule = c.attr_text("update_rule", "gated_delta");
  const bool decays = rule.starts_with("gated"), corrects = rule.ends_with("delta");
  const auto per_step = [](const Tensor& x, int64_t n) {  // (length, batch, heads, size), in float32
    return x.reshape({x.size(0), x.size(1), SInt(n), SInt(-1)}).transpose(0, 1).cast(DType::Float32);
  };
  const Tensor q = per_step(c[0], q_heads), k = per_step(c[1], heads), v = per_step(c[2], heads);
  const double scale = c.attr_real("scale", 1 / std::sqrt(static_cast<double>(q.size(-1).value())));
  Tensor state = c.has(3) ? c[3].cast(DType::Float32)
                          : Tensor::constant_of({q.size(1), SInt(heads), k.size(-1), v.size(-1)}, 0.0);
  std::vector<Tensor> outputs;
  for (int64_t t = 0; t < q.size(0).value(); t++) {
    const Tensor key = k.at(t).unsqueeze(-1);
    Tensor write = v.at(t).unsqueeze(-2);
    if (decays) state = state.mul(per_step(c[4], heads).at(t).exp().unsqueeze(-1));
    if (corrects) {
      const Tensor rate = per_step(c[5], c[5].size(-1).value()).at(t).unsqueeze(-1);
      write = write.sub(key.transpose(-2, -1).matmul(state)).mul(rate);
    }
    state = state.add(key.mul(write));
    outputs.push_back(
        q.at(t).unsqueeze(-2).matmul(repeat_heads(state, SInt(q_heads))).mul(scale).squeeze(-2));
  }
  const Tensor y = Tensor::stack(outputs, 1).reshape({q.size(1), q.size(0), SInt(-1)});
  return {y.cast(c[0].dtype()), state.cast(c[0].dtype())};
}

Values causal_conv_with_state(const Call& c) {
  const Tensor &x = c[0], &w = c[1];
  const int64_t kept = w.size(-1).value() - 1, length = x.size(-1).value();
  const Tensor padded = c.has(3) ? Tensor::cat({c[3], x}, -1) : x.pad(Padding{kept, 0});
  Tensor y = padded.conv2d(w, c.optional(2), {.groups = x.size(1).value()});
  const std::string activation = c.attr_text("activation", "none");
  if (activation == "silu" || activation == "swish") y = y.cast(DType::Float32).silu().cast(x.dtype());
  return {y, padded.at(ellipsis, Slice{length, none})};
}

}  // namespace

std::span<const OpRow> attention_ops() {
  static const OpRow rows[] = {
      {"Attention", of<attention>},
      {"CausalConvWithState", of<causal_conv_with_state>},
      {"FlexAttention", of<flex_attention>, "ai.onnx.preview"},
      {"LinearAttention", of<linear_attention>},
      {"RotaryEmbedding", of<rotary_embedding>},
  };
  return rows;
}

}  // namespace lathe::onnx
