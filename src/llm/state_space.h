// State space models: Mamba (Gu and Dao, 2023), which fades by channel and state, and Mamba 2 (Dao and Gu,
// 2024), which fades by head.
#pragma once
#include "llm/config.h"
#include "llm/rope.h"
#include "llm/state.h"
#include "llm/weights.h"
#include "tensor/tensor.h"

#include <optional>

namespace lathe {

struct StateSpace {
  int64_t inner = 0, states = 0, groups = 1, heads = 0;  // heads: of Mamba 1 as many as channels
  Linear input = {};                                     // Mamba 1: [x | z]; Mamba 2: [z | x, B, C | dt]
  Tensor convolution = {};                               // float32 (channels, kernel)
  std::optional<Tensor> convolution_bias = {};
  std::optional<Linear> x = {}, dt = {};  // Mamba 1: to [dt | B | C], and from the rank of dt to channels
  std::optional<Tensor> dt_bias = {};     // Mamba 2: float32 (heads)
  Tensor a = {}, d = {};                  // float32: (inner, states) and (inner); (heads, 1) and (heads)
  std::optional<Tensor> norm = {};        // Mamba 2: float32 (groups, inner / groups)
  double norm_eps = 1e-5;
  Linear output = {};
  bool is_second() const { return !x; }
};

StateSpace make_mamba(const BlockContext& context, int64_t layer);
StateSpace make_mamba2(const BlockContext& context, int64_t layer);
LayerState make_state(const StateSpace& block, const StateOptions& options);
Tensor forward(const StateSpace& block, const Tensor& x, const Step& step, LayerState& state);

}  // namespace lathe
