// Mixers with a state of fixed size under the delta rule: gated delta nets (one decay a head) and Kimi delta
// attention (one a channel of keys). By Yang et al., "Gated Delta Networks", and Kimi Team, "Kimi Linear".
#pragma once
#include "llm/config.h"
#include "llm/norm.h"
#include "llm/rope.h"
#include "llm/state.h"
#include "llm/weights.h"
#include "tensor/tensor.h"

#include <vector>

namespace lathe {

struct DeltaNet {
  int64_t key_heads = 0, heads = 0, key_dim = 0, value_dim = 0;
  bool grouped_heads = false;    // value head h uses key head h div (heads / key_heads), not h mod key_heads
  std::vector<Linear> qkv = {};  // one matrix, or one for each of q, k, v
  Tensor convolution = {};       // float32 (channels, kernel), channels as [q | k | v]
  std::vector<Linear> decay = {};            // applied one after the other: (heads) or (heads × key_dim)
  Tensor decay_bias = {}, decay_scale = {};  // float32 (heads or heads × key_dim), (heads)
  Linear beta = {};                          // (heads)
  std::vector<Linear> gate = {};             // one after the other: (heads × value_dim)
  bool sigmoid_gate = false;                 // instead of silu
  Norm norm = {};                            // over value_dim
  Linear output = {};
};

DeltaNet make_gated_delta_net(const BlockContext& context, int64_t layer);
DeltaNet make_kimi_delta(const BlockContext& context, int64_t layer);
LayerState make_state(const DeltaNet& block, const StateOptions& options);
Tensor forward(const DeltaNet& block, const Tensor& x, const Step& step, LayerState& state);

}  // namespace lathe
