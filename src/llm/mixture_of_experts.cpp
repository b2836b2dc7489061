#include "llm/mixture_of_experts.h"

#include "base/error.h"

#include <limits>

namespace lathe {
namespace {

// How many of the last axis are better, or equal and before: 0 for the best, each number once.
Tensor ranks(const Tensor& x) {
  const int64_t n = x.size(-1).value();
  const Tensor position = Tensor::arange(n, {.dtype = DType::Int32});
  const Tensor other = x.unsqueeze(-2), own = x.unsqueeze(-1);
  const Tensor before = position.unsqueeze(-2) < position.unsqueeze(-1);
  return ((other > own) | ((other == own) & before)).to_int().sum(-1);
}

// -∞ for the experts outside of the groups whose two best scores have the largest sums.
Tensor limited_to_groups(const ExpertConfig& config, const Tensor& choice) {
  const int64_t size = config.count / config.groups;
  const Tensor grouped = choice.unflatten(-1, {config.groups, size});
  const Tensor best = (ranks(grouped) < std::min<int64_t>(2, size)).where(grouped, 0).sum(-1);
  const Tensor kept = (ranks(best) < config.groups_used).unsqueeze(-1);
  return kept.where(grouped, -std::numeric_limits<double>::infinity()).flatten(-2);
}

Tensor scores_of(Gating gating, const Tensor& logits) {
  switch (gating) {
    case Gating::Softmax: return logits.softmax(-1);
    case Gating::Sigmoid: return logits.sigmoid();
    case Gating::SqrtSoftplus: return logits.softplus().sqrt();
    case Gating::SelectedSoftmax: break;
  }
  return logits;
}

// x (rows, 1 or used, columns) by the matrices of the experts: (rows, used, matrix rows).
Tensor multiply_routed(const Tensor& x, const PackedMatrix& w, const std::optional<Tensor>& bias,
                       const Tensor& experts) {
  // Each product is a kernel of its own: two of them in one would not both go along their rows.
  const Tensor y = multiply(x.unsqueeze(-2), select(w, experts)).squeeze(-2).contiguous();
  return bias ? y + bias->at(experts) : y;
}

}  // namespace

Route route(const ExpertConfig& config, const Tensor& logits, const std::optional<Tensor>& correction) {
  const Tensor scores = scores_of(config.gating, logits);
  Tensor choice = correction ? scores + *correction : scores;
  if (config.groups > 1) choice = limited_to_groups(config, choice);
  const Tensor rank = ranks(choice.contiguous()).contiguous().unsqueeze(-2);  // (rows, 1, experts)
  const Tensor place = Tensor::arange(config.used, {.dtype = DType::Int32}).unsqueeze(-1);
  const Tensor chosen = rank == place;  // (rows, used, experts)
  const Tensor number = Tensor::arange(config.count, {.dtype = DType::Int32});
  const Tensor experts = chosen.where(number, 0).sum(-1);
  Tensor weights = chosen.where(scores.unsqueeze(-2), 0).sum(-1);
  if (config.gating == Gating::SelectedSoftmax)
    weights = weights.softmax(-1);
  else if (config.normalize)
    weights = weights / (weights.sum(-1, true) + 1e-20);
  // With bounds that are known, gathers need no gate.
  return {experts.contiguous().clamp(0, config.count - 1), weights * config.scale};
}

MixtureOfExperts make_mixture_of_experts(const BlockContext& context, int64_t layer) {
  const Weights& weights = context.weights;
  const ModelConfig& config = context.config;
  const ExpertConfig& e = config.experts;
  const std::string at = fmt::format("blk.{}.", layer);
  const auto bias = [&](const char* name, int64_t rows) {
    return weights.optional_values(at + name + ".bias", {e.count, rows});
  };
  MixtureOfExperts out{.config = e, .activation = config.activation};
  out.router = weights.linear(at + "ffn_gate_inp", e.count, config.dim);
  out.correction = weights.optional_values(at + "exp_probs_b.bias", {e.count});
  out.gate = weights.experts(at + "ffn_gate_exps.weight", e.count, e.hidden, config.dim);
  out.up = weights.experts(at + "ffn_up_exps.weight", e.count, e.hidden, config.dim);
  out.down = weights.experts(at + "ffn_down_exps.weight", e.count, config.dim, e.hidden);
  out.gate_bias = bias("ffn_gate_exps", e.hidden), out.up_bias = bias("ffn_up_exps", e.hidden);
  out.down_bias = bias("ffn_down_exps", config.dim);
  if (!weights.has(at + "ffn_up_shexp.weight")) return out;
  out.shared = make_feed_forward(context, layer, weights.rows(at + "ffn_up_shexp.weight"), "_shexp");
  out.shared_gate = weights.optional_values(at + "ffn_gate_inp_shexp.weight", {config.dim});
  return out;
}

Tensor forward(const MixtureOfExperts& block, const Tensor& x) {
  const Route to = route(block.config, block.router(x), block.correction);
  const Tensor row = x.unsqueeze(1);  // (rows, 1, dim)
  const Tensor hidden =
      activate(block.activation, multiply_routed(row, block.gate, block.gate_bias, to.experts),
               multiply_routed(row, block.up, block.up_bias, to.experts));
  const Tensor y = multiply_routed(hidden, block.down, block.down_bias, to.experts);
  const Tensor sum = (y * to.weights.unsqueeze(-1)).sum(1);
  if (!block.shared) return sum;
  const Tensor shared = forward(*block.shared, x);
  if (!block.shared_gate) return sum + shared;
  return sum + shared * (x * *block.shared_gate).sum(-1, true).sigmoid();
}

}  // namespace lathe
