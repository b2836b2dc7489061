// The networks that are timed, as the runners of other libraries define them.
#pragma once
#include "nn/layers.h"
#include "uop/variable.h"

#include <cmath>

namespace bench {

namespace nn = lathe::nn;
using lathe::Slice, lathe::Tensor, lathe::Variable;

// Two pairs of convolutions, each followed by normalisation and pooling. (batch, 1, 28, 28) to (batch, 10).
struct DigitsNet {
  nn::Conv2d conv1{1, 32, 5}, conv2{32, 32, 5}, conv3{32, 64, 3}, conv4{64, 64, 3};
  nn::BatchNorm norm1{32}, norm2{64};
  nn::Linear head{576, 10};

  Tensor operator()(const Tensor& images) const {
    const Tensor half = norm1(conv2(conv1(images).relu()).relu()).max_pool2d();
    return head(norm2(conv4(conv3(half).relu()).relu()).max_pool2d().flatten(1));
  }
  void each(auto&& visit) const {
    visit("conv1", conv1), visit("conv2", conv2), visit("norm1", norm1);
    visit("conv3", conv3), visit("conv4", conv4), visit("norm2", norm2);
    visit("head", head);
  }
};

// A convolution without bias and its batch norm, which keeps the size at stride 1.
struct ConvNorm {
  ConvNorm(int64_t in, int64_t out, int64_t kernel, int64_t stride)
      : conv(in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}), norm(out) {}
  Tensor operator()(const Tensor& x) const { return norm(conv(x)); }
  void each(auto&& visit) const { visit("conv", conv), visit("norm", norm); }
  nn::Conv2d conv;
  nn::BatchNorm norm;
};

struct ResidualBlock {
  ResidualBlock(int64_t in, int64_t out, int64_t stride) : first(in, out, 3, stride), second(out, out, 3, 1) {
    if (stride != 1 || in != out) down.emplace(in, out, 1, stride);
  }
  Tensor operator()(const Tensor& x) const {
    return (second(first(x).relu()) + (down ? (*down)(x) : x)).relu();
  }
  void each(auto&& visit) const { visit("first", first), visit("second", second), visit("down", down); }
  ConvNorm first, second;
  std::optional<ConvNorm> down;
};

// (batch, 3, height, width) to (batch, 1000).
struct ResNet18 {
  Tensor operator()(const Tensor& images) const {
    Tensor x = stem(images).relu().max_pool2d({3, 3}, {.stride = 2, .padding = 1});
    for (const ResidualBlock& block : blocks) x = block(x);
    return head(x.mean({2, 3}));
  }
  void each(auto&& visit) const { visit("stem", stem), visit("blocks", blocks), visit("head", head); }
  ConvNorm stem{3, 64, 7, 2};
  std::vector<ResidualBlock> blocks{{64, 64, 1},   {64, 64, 1},   {64, 128, 2},  {128, 128, 1},
                                    {128, 256, 2}, {256, 256, 1}, {256, 512, 2}, {512, 512, 1}};
  nn::Linear head{512, 1000};
};

// A transformer block that normalises first, with causal attention and four times the features inside. x and
// the result are (batch, tokens, features).
struct Block {
  Block(int64_t dim, int64_t heads)
      : heads(heads),
        norm1(dim),
        norm2(dim),
        qkv(dim, 3 * dim),
        out(dim, dim),
        up(dim, 4 * dim),
        down(4 * dim, dim) {}
  Tensor operator()(const Tensor& x) const {
    const lathe::SInt batch = x.size(0), tokens = x.size(1);
    const Tensor parts = qkv(norm1(x)).reshape({batch, tokens, 3, heads, -1}).permute({2, 0, 3, 1, 4});
    const Tensor seen =
        parts.at(0).scaled_dot_product_attention(parts.at(1), parts.at(2), std::nullopt, {.is_causal = true});
    const Tensor y = x + out(seen.transpose(1, 2).reshape(x.shape()));
    return y + down(up(norm2(y)).gelu("none"));
  }
  void each(auto&& visit) const {
    visit("norm1", norm1), visit("norm2", norm2), visit("qkv", qkv), visit("out", out), visit("up", up),
        visit("down", down);
  }
  int64_t heads;
  nn::LayerNorm norm1, norm2;
  nn::Linear qkv, out, up, down;
};

struct LlamaShape {
  int64_t dim = 2048, heads = 32, kv_heads = 8, hidden = 8192, layers = 16, vocabulary = 32000, context = 256;
};

// One layer of a LLaMA: rotary positions, grouped heads, a gated network.
struct LlamaBlock {
  explicit LlamaBlock(const LlamaShape& s)
      : heads(s.heads),
        kv_heads(s.kv_heads),
        q(s.dim, s.dim, false),
        k(s.dim, s.dim / s.heads * s.kv_heads, false),
        v(s.dim, s.dim / s.heads * s.kv_heads, false),
        out(s.dim, s.dim, false),
        gate(s.dim, s.hidden, false),
        up(s.dim, s.hidden, false),
        down(s.hidden, s.dim, false),
        norm1(s.dim),
        norm2(s.dim) {}

  // x (1, tokens, dim), the first of them at position 0.
  Tensor operator()(const Tensor& x) const {
    const Tensor y = norm1(x), positions = Tensor::arange(x.size(1).value());
    return mix(x, rotated(parted(q(y), heads), positions), rotated(parted(k(y), kv_heads), positions),
               parted(v(y), kv_heads), true);
  }
  // One token (1, 1, dim) at `position` after what the caches (1, kv_heads, context, head) hold.
  Tensor step(const Tensor& x, Tensor keys, Tensor values, const Variable& position) const {
    const Tensor y = norm1(x), at = Tensor(position.uop());
    const Slice all, here{position, position + 1}, before{0, position + 1};
    keys.set({all, all, here}, rotated(parted(k(y), kv_heads), at));
    values.set({all, all, here}, parted(v(y), kv_heads));
    return mix(x, rotated(parted(q(y), heads), at), keys.at(all, all, before), values.at(all, all, before),
               false);
  }
  void each(auto&& visit) const {
    visit("q", q), visit("k", k), visit("v", v), visit("out", out), visit("gate", gate), visit("up", up);
    visit("down", down), visit("norm1", norm1), visit("norm2", norm2);
  }

  int64_t heads, kv_heads;
  nn::Linear q, k, v, out, gate, up, down;
  nn::RMSNorm norm1, norm2;

 private:
  static Tensor parted(const Tensor& x, int64_t n) {
    return x.reshape({x.size(0), x.size(1), n, -1}).transpose(1, 2);
  }
  // Pairs of the first and second half of a head turned by angles that grow with the position.
  static Tensor rotated(const Tensor& x, const Tensor& positions) {
    const int64_t half = x.size(-1).value() / 2;
    const Tensor speed =
        (Tensor::arange(half) * (-std::log2(10000.0) / static_cast<double>(half))).exp2().reshape({1, half});
    const Tensor angle = positions.reshape({-1, 1}) * speed;
    const std::vector<Tensor> part = x.chunk(2, -1);
    return Tensor::cat(
        {part[0] * angle.cos() - part[1] * angle.sin(), part[0] * angle.sin() + part[1] * angle.cos()}, -1);
  }
  Tensor mix(const Tensor& x, const Tensor& queries, const Tensor& keys, const Tensor& values,
             bool is_causal) const {
    const Tensor seen = queries.scaled_dot_product_attention(keys, values, std::nullopt,
                                                             {.is_causal = is_causal, .enable_gqa = true});
    const Tensor y = x + out(seen.transpose(1, 2).reshape(x.shape()));
    const Tensor z = norm2(y);
    return y + down(gate(z).silu() * up(z));
  }
};

}  // namespace bench
