// Rotary position embeddings.
#pragma once
#include "llm/config.h"
#include "llm/state.h"
#include "llm/weights.h"
#include "tensor/tensor.h"

#include <span>
#include <vector>

namespace lathe {

// Cosines and sines of all positions, float32 (positions, dims / 2) each, in memory.
struct RopeTable {
  RopeConfig config;
  Tensor cos, sin;
};

// θ_i of one position, dims / 2 of them, and the magnitude on cos and sin; `factors` divides θ_i.
struct RopeFrequencies {
  std::vector<double> theta;
  double magnitude = 1;
};
RopeFrequencies rope_frequencies(const RopeConfig& config, std::span<const float> factors);

// With the factor tensors of the file: rope_freqs, rope_factors_long or _short, by the context in use.
RopeTable make_rope(const Weights& weights, const RopeConfig& config, int64_t context, int64_t positions);

// The first `dims` numbers of each head of x (heads, rows, head dim), row r at position start + r.
Tensor rotate(const Tensor& x, const RopeTable& table, const Step& step);

}  // namespace lathe
