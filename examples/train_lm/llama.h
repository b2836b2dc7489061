// A model in the shape of Llama: RMS norms before every part, rotary positions, grouped-query attention,
// SwiGLU, and an embedding that is the output matrix, too.
#pragma once
#include <lathe/lathe.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace train_lm {

namespace nn = lathe::nn;
using lathe::Tensor;

struct Sizes {
  int64_t vocabulary, length, dim, layers, heads, kv_heads, hidden;
  double norm_eps = 1e-5, rope_base = 10000;
};

// Turns neighbouring features of x (…, length, head dim) as pairs by angles whose cos and sin are (length,
// head dim/2).
inline Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor pairs = x.unflatten(-1, {-1, 2});
  const Tensor a = pairs.at(lathe::ellipsis, 0), b = pairs.at(lathe::ellipsis, 1);
  return Tensor::stack({a * cos - b * sin, a * sin + b * cos}, -1).flatten(-2);
}

// Names of layers are those of GGUF files.
struct Block {
  explicit Block(const Sizes& s)
      : heads(s.heads),
        kv_heads(s.kv_heads),
        attn_norm(s.dim, s.norm_eps),
        ffn_norm(s.dim, s.norm_eps),
        attn_q(s.dim, s.dim, false),
        attn_k(s.dim, s.dim / s.heads * s.kv_heads, false),
        attn_v(s.dim, s.dim / s.heads * s.kv_heads, false),
        attn_output(s.dim, s.dim, false),
        ffn_gate(s.dim, s.hidden, false),
        ffn_up(s.dim, s.hidden, false),
        ffn_down(s.hidden, s.dim, false) {
    // What a block adds starts small, the smaller the more blocks there are.
    const double scale = 1 / std::sqrt(2.0 * static_cast<double>(s.layers));
    for (nn::Linear* last : {&attn_output, &ffn_down}) last->weight = (last->weight * scale).contiguous();
  }
  Tensor operator()(const Tensor& x, const Tensor& cos, const Tensor& sin) const {
    const auto split = [](const Tensor& t, int64_t n) { return t.unflatten(-1, {n, -1}).transpose(1, 2); };
    const Tensor h = attn_norm(x);
    const Tensor q = rotate(split(attn_q(h), heads), cos, sin),
                 k = rotate(split(attn_k(h), kv_heads), cos, sin);
    const Tensor mixed = q.scaled_dot_product_attention(k, split(attn_v(h), kv_heads), std::nullopt,
                                                        {.is_causal = true, .enable_gqa = true});
    const Tensor y = x + attn_output(mixed.transpose(1, 2).flatten(-2));
    const Tensor u = ffn_norm(y);
    return y + ffn_down(ffn_gate(u).silu() * ffn_up(u));
  }
  void each(auto&& visit) const {
    visit("attn_norm", attn_norm), visit("ffn_norm", ffn_norm);
    visit("attn_q", attn_q), visit("attn_k", attn_k), visit("attn_v", attn_v),
        visit("attn_output", attn_output);
    visit("ffn_gate", ffn_gate), visit("ffn_up", ffn_up), visit("ffn_down", ffn_down);
  }
  int64_t heads, kv_heads;
  nn::RMSNorm attn_norm, ffn_norm;
  nn::Linear attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down;
};

struct Llama {
  explicit Llama(const Sizes& s) : token_embd(s.vocabulary, s.dim), output_norm(s.dim, s.norm_eps) {
    token_embd.weight = Tensor::normal({s.vocabulary, s.dim}, 0, 0.02);
    for (int64_t i = 0; i < s.layers; i++) blk.emplace_back(s);
    const int64_t pairs = s.dim / s.heads / 2;
    std::vector<float> angles;
    for (int64_t position = 0; position < s.length; position++)
      for (int64_t i = 0; i < pairs; i++)
        angles.push_back(
            static_cast<float>(static_cast<double>(position) *
                               std::pow(s.rope_base, -static_cast<double>(i) / static_cast<double>(pairs))));
    const Tensor angle = Tensor::from(angles, lathe::Shape{s.length, pairs});
    cos = angle.cos().realize(), sin = angle.sin().realize();
  }
  // (batch, length) tokens to (batch, length, vocabulary) logits of the next ones.
  Tensor operator()(const Tensor& tokens) const {
    Tensor x = token_embd(tokens);
    for (const Block& block : blk) x = block(x, cos.detach(), sin.detach());
    return output_norm(x).linear(token_embd.weight.transpose());
  }
  // The mean of -ln(probability) of the tokens `next`, shape () .
  Tensor loss(const Tensor& tokens, const Tensor& next) const {
    return (*this)(tokens).flatten(0, 1).sparse_categorical_crossentropy(next.flatten());
  }
  void each(auto&& visit) const {
    visit("token_embd", token_embd), visit("blk", blk), visit("output_norm", output_norm);
  }
  nn::Embedding token_embd;
  std::vector<Block> blk;
  nn::RMSNorm output_norm;
  Tensor cos, sin;
};

}  // namespace train_lm
