// Feed-forward blocks of which each token uses a few.
#pragma once
#include "llm/config.h"
#include "llm/feed_forward.h"
#include "llm/weights.h"
#include "tensor/tensor.h"

#include <optional>

namespace lathe {

struct MixtureOfExperts {
  ExpertConfig config = {};
  Activation activation = Activation::Silu;
  Linear router = {};                          // (experts)
  std::optional<Tensor> correction = {};       // float32 (experts): added to scores for the choice only
  PackedMatrix gate = {}, up = {}, down = {};  // (experts, rows, columns)
  std::optional<Tensor> gate_bias = {}, up_bias = {}, down_bias = {};  // float32 (experts, rows)
  std::optional<FeedForward> shared = {};                              // every token's
  std::optional<Tensor> shared_gate = {};  // float32 (dim): σ(x · gate) multiplies it
};

// Which experts the rows go to, by the scores (rows, experts) of the router and what is added for the choice.
// Of equal ones the lower index goes first.
struct Route {
  Tensor experts;  // int32 (rows, used)
  Tensor weights;  // float32 (rows, used)
};
Route route(const ExpertConfig& config, const Tensor& logits, const std::optional<Tensor>& correction);

MixtureOfExperts make_mixture_of_experts(const BlockContext& context, int64_t layer);
// Reads the packed rows of the experts that are used, and no others.
Tensor forward(const MixtureOfExperts& block, const Tensor& x);

}  // namespace lathe
