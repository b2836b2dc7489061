#include "llm/feed_forward.h"

#include "base/error.h"

namespace lathe {

Tensor activate(Activation activation, const Tensor& x) {
  return activation == Activation::Gelu ? x.gelu() : x.silu();
}

Tensor activate(Activation activation, const Tensor& gate, const Tensor& up) {
  if (activation != Activation::ClampedSwiglu) return activate(activation, gate) * up;
  constexpr double kLimit = 7, kSlope = 1.702;
  const Tensor g = gate.minimum(kLimit);
  return g * (g * kSlope).sigmoid() * (up.clamp(-kLimit, kLimit) + 1);
}

FeedForward make_feed_forward(const BlockContext& context, int64_t layer) {
  const Weights& weights = context.weights;
  const ModelConfig& config = context.config;
  const int64_t hidden = config.hidden;
  const std::string at = fmt::format("blk.{}.", layer);
  FeedForward out;
  out.activation = config.activation;
  out.down = weights.linear(at + "ffn_down", config.dim, hidden);
  if (weights.has(at + "ffn_gate.weight")) {
    out.gate = weights.linear(at + "ffn_gate", hidden, config.dim);
    out.up = weights.linear(at + "ffn_up", hidden, config.dim);
  } else if (weights.rows(at + "ffn_up.weight") == 2 * hidden) {  // the gate's rows, then those of up
    out.gate = weights.linear_rows(at + "ffn_up", 0, hidden, config.dim, 2 * hidden);
    out.up = weights.linear_rows(at + "ffn_up", hidden, hidden, config.dim, 2 * hidden);
  } else {
    out.up = weights.linear(at + "ffn_up", hidden, config.dim);
  }
  return out;
}

Tensor forward(const FeedForward& block, const Tensor& x) {
  // Sums of products over packed weights share no loop: the gate is in memory before `up` is done.
  return block.down(block.gate ? activate(block.activation, (*block.gate)(x).contiguous(), block.up(x))
                               : activate(block.activation, block.up(x)));
}

}  // namespace lathe
