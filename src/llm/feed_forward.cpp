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

FeedForward make_feed_forward(const BlockContext& context, int64_t layer, int64_t hidden,
                              std::string_view suffix) {
  const Weights& weights = context.weights;
  const int64_t dim = context.config.dim;
  const auto name = [&](const char* part) { return fmt::format("blk.{}.ffn_{}{}", layer, part, suffix); };
  FeedForward out;
  out.activation = context.config.activation;
  out.down = weights.linear(name("down"), dim, hidden);
  if (weights.has(name("gate") + ".weight")) {
    out.gate = weights.linear(name("gate"), hidden, dim);
    out.up = weights.linear(name("up"), hidden, dim);
  } else if (weights.rows(name("up") + ".weight") == 2 * hidden) {  // the gate's rows, then those of up
    out.gate = weights.linear_rows(name("up"), 0, hidden, dim, 2 * hidden);
    out.up = weights.linear_rows(name("up"), hidden, hidden, dim, 2 * hidden);
  } else {
    out.up = weights.linear(name("up"), hidden, dim);
  }
  return out;
}

Tensor forward(const FeedForward& block, const Tensor& x) {
  // Sums of products over packed weights share no loop: the gate is in memory before `up` is done.
  return block.down(block.gate ? activate(block.activation, (*block.gate)(x).contiguous(), block.up(x))
                               : activate(block.activation, block.up(x)));
}

}  // namespace lathe
