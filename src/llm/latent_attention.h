// Attention over latent vectors that all heads share (MLA), in its absorbed form: queries are taken to the
// latent space, so that only the latent vector and the turned part of a key are cached.
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

struct LatentAttention {
  int64_t heads = 0, rank = 0, plain = 0, turned = 0;  // a query is [plain | turned]
  double scale = 1;
  std::optional<Linear> q_down = {};  // with q_norm: to the rank of queries
  std::optional<Norm> q_norm = {};
  Linear q = {}, kv_down = {}, output = {};  // kv_down: to [rank | turned]
  Norm kv_norm = {};
  PackedMatrix k = {}, v = {};                 // (heads, rank, plain), (heads, value dim, rank)
  bool k_is_transposed = false;                // (heads, plain, rank): from files with one matrix for both
  std::shared_ptr<const RopeTable> rope = {};  // none: positions do not turn
};

LatentAttention make_latent_attention(const BlockContext& context, int64_t layer);
LayerState make_state(const LatentAttention& block, const StateOptions& options);
Tensor forward(const LatentAttention& block, const Tensor& x, const Step& step, LayerState& state);

}  // namespace lathe
