#include "llm/state_space.h"

#include "base/error.h"
#include "llm/decay_scan.h"

namespace lathe {
namespace {

// What both have. `heads`: of `channels` through the convolution.
StateSpace make_common(const BlockContext& context, int64_t layer, int64_t heads, int64_t groups,
                       int64_t channels, int64_t rows) {
  const RecurrentConfig& r = context.config.recurrent;
  const Weights& weights = context.weights;
  const std::string at = fmt::format("blk.{}.", layer);
  StateSpace s{.inner = r.inner_size, .states = r.state_size, .groups = groups, .heads = heads};
  s.input = weights.linear(at + "ssm_in", rows, context.config.dim);
  s.convolution = weights.values(at + "ssm_conv1d.weight", {channels, r.conv_kernel});
  s.convolution_bias = weights.optional_values(at + "ssm_conv1d.bias", {channels});
  s.d = weights.values(at + "ssm_d", {heads});
  s.norm_eps = context.config.norm_eps;
  s.output = weights.linear(at + "ssm_out", context.config.dim, s.inner);
  return s;
}

void check(const BlockContext& context, int64_t layer, int64_t heads, int64_t groups) {
  const RecurrentConfig& r = context.config.recurrent;
  if (r.conv_kernel >= 2 && r.state_size >= 1 && r.inner_size >= 1 && heads >= 1 && r.time_step_rank >= 1 &&
      r.inner_size % heads == 0 && groups >= 1 && heads % groups == 0)
    return;
  value_error(
      "{0}: layer {1}: {2}.ssm.conv_kernel = {3}, {2}.ssm.state_size = {4}, {2}.ssm.inner_size = {5}, "
      "{2}.ssm.time_step_rank = {6}, {2}.ssm.group_count = {7} make no state space model",
      context.weights.file().name(), layer, context.config.architecture, r.conv_kernel, r.state_size,
      r.inner_size, r.time_step_rank, r.groups);
}

}  // namespace

StateSpace make_mamba(const BlockContext& context, int64_t layer) {
  const RecurrentConfig& r = context.config.recurrent;
  const std::string at = fmt::format("blk.{}.", layer);
  check(context, layer, r.inner_size, 1);
  StateSpace s = make_common(context, layer, r.inner_size, 1, r.inner_size, 2 * r.inner_size);
  s.x = context.weights.linear(at + "ssm_x", r.time_step_rank + 2 * s.states, s.inner);
  s.dt = context.weights.linear(at + "ssm_dt", s.inner, r.time_step_rank);
  s.a = context.weights.values(at + "ssm_a", {s.inner, s.states});
  return s;
}

StateSpace make_mamba2(const BlockContext& context, int64_t layer) {
  const RecurrentConfig& r = context.config.recurrent;
  const std::string at = fmt::format("blk.{}.", layer);
  check(context, layer, r.time_step_rank, r.groups);
  const int64_t channels = r.inner_size + 2 * r.groups * r.state_size, heads = r.time_step_rank;
  StateSpace s = make_common(context, layer, heads, r.groups, channels, r.inner_size + channels + heads);
  s.dt_bias = context.weights.values(at + "ssm_dt.bias", {heads});
  s.a = context.weights.values(at + "ssm_a", {heads, 1});
  s.norm = context.weights.values(at + "ssm_norm.weight", {r.groups, r.inner_size / r.groups});
  return s;
}

LayerState make_state(const StateSpace& block, const StateOptions& options) {
  const int64_t channels = block.convolution.size(0).value(), kernel = block.convolution.size(1).value();
  return {.recurrent = {make_zeros({kernel - 1, channels}, DType::Float32, options.device),
                        make_zeros({block.heads, block.inner / block.heads, block.states}, DType::Float32,
                                   options.device)}};
}

Tensor forward(const StateSpace& block, const Tensor& x, const Step& step, LayerState& state) {
  const int64_t rows = step.rows, inner = block.inner, n = block.states, heads = block.heads,
                groups = block.groups;
  const Slice all;
  const auto part = [&](const Tensor& t, int64_t begin, int64_t size) {
    return t.at(all, Slice{begin, begin + size});
  };
  const Tensor in = block.input(x);
  const bool second = block.is_second();
  const int64_t channels = block.convolution.size(0).value();
  const Tensor z = part(in, second ? 0 : inner, inner);
  const Tensor mixed = causal_convolution(part(in, second ? inner : 0, channels), block.convolution,
                                          block.convolution_bias, step, state.recurrent[0])
                           .silu();
  // B and C (rows, heads, states), of one head where all share them, and the steps dt (rows, heads).
  Tensor b, c, dt;
  if (second) {
    const auto of_heads = [&](int64_t begin) {
      return part(mixed, begin, groups * n)
          .reshape({rows, groups, 1, n})
          .expand({rows, groups, heads / groups, n})
          .flatten(1, 2);
    };
    b = of_heads(inner), c = of_heads(inner + groups * n);
    dt = (part(in, inner + channels, heads) + *block.dt_bias).softplus();
  } else {
    const Tensor all_of = (*block.x)(mixed);
    const int64_t rank = block.dt->weight.columns;
    b = part(all_of, rank, n).unsqueeze(1), c = part(all_of, rank + n, n).unsqueeze(1);
    dt = (*block.dt)(part(all_of, 0, rank)).softplus();
  }
  const Tensor values = part(mixed, 0, inner).unflatten(-1, {heads, -1}), step_of = dt.unsqueeze(-1);
  const ScanInput scan{
      .q = c, .k = b, .v = values * step_of, .log_decay = step_of * block.a, .beta = std::nullopt};
  // Products of chunks hold a number for each channel and state where these fade on their own: short chunks.
  const Tensor o = decay_scan(scan, step, state.recurrent[1], second ? 32 : 8);
  Tensor y = (o + values * block.d.unsqueeze(-1)).flatten(1) * z.silu();
  if (block.norm) {
    const Tensor grouped = y.unflatten(-1, {groups, -1});
    y = (grouped * (grouped.square().mean(-1, true) + block.norm_eps).rsqrt() * *block.norm).flatten(1);
  }
  return block.output(y);
}

}  // namespace lathe
