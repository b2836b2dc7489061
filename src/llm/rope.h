// Rotary position embeddings.
#pragma once
#include "llm/config.h"
#include "llm/state.h"
#include "llm/weights.h"
#include "tensor/tensor.h"

#include <memory>
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

// Makes each table once, with the factor tensors of the file: rope_freqs, or rope_factors_long or _short by
// the context in use. `positions` is how many a table has: the context and the padding of the last call.
class RopeTables {
 public:
  RopeTables(const Weights& weights, int64_t context, int64_t positions)
      : weights_(weights), context_(context), positions_(positions) {}
  // Null where nothing turns.
  std::shared_ptr<const RopeTable> table(const RopeConfig& config);
  int64_t positions() const { return positions_; }

 private:
  const Weights& weights_;
  int64_t context_, positions_;
  std::vector<std::shared_ptr<const RopeTable>> tables_;
};

// What a block is made from.
struct BlockContext {
  const Weights& weights;
  const ModelConfig& config;
  RopeTables& ropes;
};

// The first `dims` numbers of each head of x (heads, rows, head dim), row r at position start + r.
Tensor rotate(const Tensor& x, const RopeTable& table, const Step& step);

}  // namespace lathe
