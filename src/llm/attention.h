// Attention over a cache of keys and values: multi-head, grouped, sliding-window, with or without biases,
// norms of queries and keys, soft caps, sinks and gates, by which tensors the file has.
#pragma once
#include "llm/config.h"
#include "llm/norm.h"
#include "llm/rope.h"
#include "llm/state.h"
#include "llm/weights.h"
#include "tensor/tensor.h"

#include <memory>
#include <optional>

namespace lathe {

struct Attention {
  int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  int64_t window = 0;  // 0: all positions
  double scale = 1, softcap = 0;
  Linear q, k, v, output;
  std::optional<Norm> q_norm, k_norm;  // per head, or over the whole projection where they are longer
  bool norm_heads = false;
  std::optional<Tensor> sinks;  // float32 (heads): a logit of an extra column with value zero
  bool gated = false;           // q holds [query | gate] for each head; the output is multiplied by σ(gate)
  std::shared_ptr<const RopeTable> rope;  // none: positions do not turn
};

Attention make_attention(const BlockContext& context, int64_t layer);
LayerState make_state(const Attention& block, const StateOptions& options);
Tensor forward(const Attention& block, const Tensor& x, const Step& step, LayerState& state);

}  // namespace lathe
