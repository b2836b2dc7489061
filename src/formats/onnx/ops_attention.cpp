// Attention in its forms, and what surrounds it.
#include "formats/onnx/call.h"
#include "formats/onnx/session.h"

#include <algorithm>
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

double default_scale(const Tensor& q) { return 1 / std::sqrt(static_cast<double>(q.size(-1).value())); }

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
    if (const int64_t given = bias->size(-1).value(); given < keys)
      bias = bias->pad({0, keys - given}, PadMode::Constant, kMinusInfinity);
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
  const double scale = std::sqrt(c.attr_real("scale", default_scale(q)));
  const DType d = q.dtype();
  const Tensor raw = q.mul(scale).cast(d).matmul(keys.transpose(-2, -1).mul(scale).cast(d));
  const double cap = c.attr_real("softcap", 0);
  const Tensor capped = cap > 0 ? raw.div(cap).tanh().mul(cap).cast(d) : raw;
  const auto bias = attention_bias(c, d, q.size(2).value(), keys.size(2).value(), past);
  const Tensor scores = bias ? capped.add(*bias) : capped;
  const Tensor weights = scores.cast(c.attr_dtype("softmax_precision", scores.dtype())).softmax(-1).cast(d);
  const Tensor y = weights.matmul(values);
  const Tensor stages[] = {raw, capped, scores, weights};
  const int64_t stage = c.attr_int("qk_matmul_output_mode", 0);
  if (stage < 0 || stage > 3) value_error("qk_matmul_output_mode is {}", stage);
  return {is_flat ? merge_heads(y) : y, k, v, stages[stage]};
}

// Scores and weights pass through graphs of the model's own.
Tensor flex_attention(const Call& c) {
  const Tensor &q = c[0], k = repeat_heads(c[1], c[0].size(1)), v = repeat_heads(c[2], c[0].size(1));
  const double scale = std::sqrt(c.attr_real("scale", default_scale(q)));
  const DType d = q.dtype(), wide = join(d, DType::Float32);
  const auto modified = [&](std::string_view name, const Tensor& x) {
    if (!c.attribute(name)) return x;
    return c.scope().run(c.attr_graph(name), {Value(x)}).at(0).tensor();
  };
  const Tensor scores = q.mul(scale).cast(d).matmul(k.mul(scale).cast(d).transpose(-2, -1)).cast(wide);
  const Tensor weights = modified("prob_mod", modified("score_mod", scores).softmax(-1));
  return weights.cast(d).matmul(v);
}

// Pairs of elements turned by an angle of their position (Su et al. 2021): x (batch, heads, length, size),
// the tables (batch, length, half of what is turned). Pairs are neighbours, or an element of the first half
// and its partner in the second; what the tables do not reach stays.
Tensor rotated(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool neighbours) {
  const int64_t half = cosines.size(-1).value(), turned = 2 * half;
  const Tensor cosine = cosines.unsqueeze(1), sine = sines.unsqueeze(1),
               part = x.at(ellipsis, Slice{none, turned});
  const Tensor a = neighbours ? part.at(ellipsis, Slice{0, none, 2}) : part.at(ellipsis, Slice{none, half});
  const Tensor b = neighbours ? part.at(ellipsis, Slice{1, none, 2}) : part.at(ellipsis, Slice{half, none});
  const Tensor real = a.mul(cosine).sub(b.mul(sine)), imaginary = a.mul(sine).add(b.mul(cosine));
  const Tensor y = neighbours ? Tensor::stack({real, imaginary}, -1).reshape(part.shape())
                              : Tensor::cat({real, imaginary}, -1);
  return turned < x.size(-1).value() ? Tensor::cat({y, x.at(ellipsis, Slice{turned, none})}, -1) : y;
}

Tensor rotary_embedding(const Call& c) {
  const Tensor x = split_heads(c[0], c.attr_int("num_heads", 0));
  const int64_t given = c.attr_int("rotary_embedding_dim", 0), turned = given ? given : x.size(-1).value();
  const auto table = [&](size_t i) {
    return (c.has(3) ? c[i].at(c[3]) : c[i]).at(ellipsis, Slice{none, turned / 2});
  };
  const Tensor y = rotated(x, table(1), table(2), c.attr_flag("interleaved"));
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
  const double scale = c.attr_real("scale", default_scale(q));
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

// ---- com.microsoft

// softmax(q k / sqrt(size) + bias) v, over (batch, heads, length, size).
Tensor attend(const Call& c, const Tensor& q, const Tensor& k, const Tensor& v,
              const std::optional<Tensor>& bias) {
  const double given = c.attr_real("scale", 0), cap = c.attr_real("softcap", 0);
  const double scale = given > 0 ? given : default_scale(q);
  const DType d = q.dtype();
  Tensor scores = q.matmul(repeat_heads(k, q.size(1)).transpose(-2, -1)).mul(scale).cast(d);
  if (cap > 0) scores = scores.div(cap).tanh().mul(cap).cast(d);
  if (bias) scores = scores.add(bias->cast(d));
  return scores.softmax(-1).cast(d).matmul(repeat_heads(v, q.size(1)));
}

// What is added to the scores: input `bias`, and what hides keys. Input `mask` has one length, or a truth
// value for each key or each pair, for every batch.
std::optional<Tensor> score_bias(const Call& c, size_t mask, size_t bias, const Tensor& q, int64_t keys,
                                 int64_t past) {
  const DType d = q.dtype();
  const SInt batch = q.size(0);
  std::optional<Tensor> out = c.optional(bias);
  const auto hide = [&](const Tensor& allowed) {
    const Tensor more = allowed.where(Tensor(0.0, d), Tensor(c.attr_real("mask_filter_value", -10000), d));
    out = out ? out->add(more) : more;
  };
  if (c.has(mask) && c[mask].ndim() == 1 && c[mask].numel() == batch)
    hide(positions(keys).lt(c[mask].reshape({batch, SInt(1), SInt(1), SInt(1)})));
  else if (c.has(mask) && (c[mask].ndim() == 2 || c[mask].ndim() == 3))
    hide(c[mask].ne(0).reshape({batch, SInt(1), SInt(-1), SInt(keys)}));
  else if (c.has(mask))
    value_error("a mask of {} is not supported", c.value(mask).to_string());
  if (c.attr_flag("unidirectional"))
    hide(positions(q.size(2).value()).unsqueeze(-1).add(Tensor(past)).ge(positions(keys)));
  return out;
}

// Inputs: query, key, value, bias of the three, key padding mask, bias of the scores, past key and value.
Values multi_head_attention(const Call& c) {
  const int64_t heads = c.attr_int("num_heads");
  if (c[0].ndim() != 3 || !c.has(1) || !c.has(2))
    value_error("packed queries, keys and values are not supported");
  int64_t begin = 0;
  const auto projected = [&](size_t i) {
    Tensor x = c[i];
    const int64_t width = x.ndim() == 4 ? x.size(1).value() * x.size(3).value() : x.size(2).value();
    if (c.has(3) && x.ndim() == 3) x = x.add(c[3].at(Slice{begin, begin + width}));
    begin += width;
    return split_heads(x, heads);
  };
  const Tensor q = projected(0);
  Tensor k = projected(1), v = projected(2);
  const int64_t past = c.has(6) ? c[6].size(2).value() : 0;
  if (c.has(6)) k = Tensor::cat({c[6], k}, 2);
  if (c.has(7)) v = Tensor::cat({c[7], v}, 2);
  return {merge_heads(attend(c, q, k, v, score_bias(c, 4, 5, q, k.size(2).value(), past))), k, v};
}

// Inputs: x, the projections to query, key and value side by side and their bias, mask, past keys and values
// stacked, bias of the scores.
Values projected_attention(const Call& c) {
  const int64_t heads = c.attr_int("num_heads"), third = c[1].size(1).value() / 3;
  const auto parts =
      c.plus(2, c[0].matmul(c[1])).split(c.attr_ints("qkv_hidden_sizes", {third, third, third}), -1);
  if (c.attr_flag("do_rotary") || c.attr_flag("past_present_share_buffer") || parts.size() != 3)
    value_error("rotary embedding, shared buffers and parts other than three are not supported");
  const Tensor q = split_heads(parts[0], heads);
  Tensor k = split_heads(parts[1], heads), v = split_heads(parts[2], heads);
  const int64_t past = c.has(4) ? c[4].size(3).value() : 0;
  if (c.has(4)) {
    k = Tensor::cat({c[4].at(0), k}, 2);
    v = Tensor::cat({c[4].at(1), v}, 2);
  }
  Values out{merge_heads(attend(c, q, k, v, score_bias(c, 3, 5, q, k.size(2).value(), past)))};
  if (c.wants(1)) out.emplace_back(Tensor::stack({k, v}));
  return out;
}

// Inputs: x, the positions of all or that of the first, and the tables.
Tensor rotary_embedding_at(const Call& c) {
  const int64_t given = c.attr_int("num_heads", 0), width = 2 * c[2].size(-1).value();
  const Tensor x = split_heads(c[0], given ? given : c[0].size(-1).value() / std::max<int64_t>(width, 1));
  const Tensor at = c[1].ndim() == 1 ? positions(x.size(2).value()).add(c[1]).unsqueeze(0) : c[1];
  const Tensor y = rotated(x, c[2].at(at), c[3].at(at), c.attr_flag("interleaved"));
  const Tensor scaled = c.attribute("scale") ? y.mul(c.attr_real("scale")).cast(x.dtype()) : y;
  return c[0].ndim() == 3 ? merge_heads(scaled) : scaled;
}

// Inputs: query, key, value, past key and value, the last position of each batch, the total length, and the
// tables of the rotary embedding.
Values group_query_attention(const Call& c) {
  const int64_t heads = c.attr_int("num_heads"), kv_heads = c.attr_int("kv_num_heads");
  Tensor q = c[0], k, v;
  if (c.has(1)) {
    k = split_heads(c[1], kv_heads);
    v = split_heads(c[2], kv_heads);
  } else {
    // Query, key and value stand side by side.
    const int64_t size = q.size(-1).value() / (heads + 2 * kv_heads), first = heads * size,
                  second = first + kv_heads * size;
    k = split_heads(q.at(ellipsis, Slice{first, second}), kv_heads);
    v = split_heads(q.at(ellipsis, Slice{second, none}), kv_heads);
    q = q.at(ellipsis, Slice{none, first});
  }
  q = split_heads(q, heads);
  const int64_t past = c.has(3) ? c[3].size(2).value() : 0, length = q.size(2).value(), keys = past + length;
  const Tensor at = positions(length).add(Tensor(past));
  if (c.attr_flag("do_rotary")) {
    const auto turn = [&](const Tensor& x) {
      return rotated(x, c[7].at(at).unsqueeze(0), c[8].at(at).unsqueeze(0),
                     c.attr_flag("rotary_interleaved"));
    };
    q = turn(q);
    k = turn(k);
  }
  if (c.has(3)) k = Tensor::cat({c[3], k}, 2);
  if (c.has(4)) v = Tensor::cat({c[4], v}, 2);
  const Tensor query = at.unsqueeze(-1), key = positions(keys);
  Tensor allowed = query.ge(key).bitwise_and(
      key.le(c[5].cast(DType::Int64).reshape({SInt(-1), SInt(1), SInt(1), SInt(1)})));
  if (const int64_t window = c.attr_int("local_window_size", -1); window > 0)
    allowed = allowed.bitwise_and(query.sub(key).lt(Tensor(window)));
  return {merge_heads(attend(c, q, k, v, as_bias(allowed, q.dtype()))), k, v};
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

constexpr OpRow kRows[] = {
    {"Attention", of<attention>},
    {"CausalConvWithState", of<causal_conv_with_state>},
    {"FlexAttention", of<flex_attention>, "ai.onnx.preview"},
    {"LinearAttention", of<linear_attention>},
    {"RotaryEmbedding", of<rotary_embedding>},
    {"Attention", of<projected_attention>, kMicrosoft},
    {"GroupQueryAttention", of<group_query_attention>, kMicrosoft},
    {"MultiHeadAttention", of<multi_head_attention>, kMicrosoft},
    {"RotaryEmbedding", of<rotary_embedding_at>, kMicrosoft},
};

}  // namespace

std::span<const OpRow> attention_ops() { return kRows; }

}  // namespace lathe::onnx
