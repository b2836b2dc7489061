// The dense feed-forward block.
#pragma once
#include "llm/config.h"
#include "llm/rope.h"
#include "llm/weights.h"
#include "tensor/tensor.h"

#include <optional>
#include <string_view>

namespace lathe {

// down(activation(gate x) ⊙ up x), or down(activation(up x)) without a gate.
struct FeedForward {
  Activation activation = Activation::Silu;
  std::optional<Linear> gate;
  Linear up, down;
};

// activation(gate) ⊙ up of equal shapes.
Tensor activate(Activation activation, const Tensor& gate, const Tensor& up);
Tensor activate(Activation activation, const Tensor& x);

// Of the tensors ffn_gate, ffn_up and ffn_down, or those with a suffix behind these names.
FeedForward make_feed_forward(const BlockContext& context, int64_t layer, int64_t hidden,
                              std::string_view suffix = "");
Tensor forward(const FeedForward& block, const Tensor& x);

}  // namespace lathe
