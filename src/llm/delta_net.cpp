#include "llm/delta_net.h"

#include "base/error.h"
#include "llm/decay_scan.h"

#include <cmath>

namespace lathe {
namespace {

Tensor chained(const std::vector<Linear>& matrices, Tensor x) {
  for (const Linear& m : matrices) x = m(x);
  return x;
}

Tensor unit(const Tensor& x) { return x * (x.square().sum(-1, true) + 1e-6).rsqrt(); }

[[noreturn]] void bad_sizes(const BlockContext& context, int64_t layer, const std::string& text) {
  value_error("{}: layer {}: {}", context.weights.file().name(), layer, text);
}

}  // namespace

DeltaNet make_gated_delta_net(const BlockContext& context, int64_t layer) {
  const ModelConfig& config = context.config;
  const RecurrentConfig& r = config.recurrent;
  const Weights& weights = context.weights;
  const std::string at = fmt::format("blk.{}.", layer), key = config.architecture + ".ssm.";
  if (r.conv_kernel < 2 || r.state_size < 1 || r.groups < 1 || r.time_step_rank < 1 ||
      r.time_step_rank % r.groups || r.inner_size < 1 || r.inner_size % r.time_step_rank)
    bad_sizes(
        context, layer,
        fmt::format("{0}conv_kernel = {1}, {0}state_size = {2}, {0}group_count = {3}, {0}time_step_rank = "
                    "{4}, {0}inner_size = {5} make no gated delta net",
                    key, r.conv_kernel, r.state_size, r.groups, r.time_step_rank, r.inner_size));
  DeltaNet d{.key_heads = r.groups,
             .heads = r.time_step_rank,
             .key_dim = r.state_size,
             .value_dim = r.inner_size / r.time_step_rank,
             .grouped_heads = r.grouped_heads};
  const int64_t channels = r.inner_size + 2 * r.groups * r.state_size;
  d.qkv = {weights.linear(at + "attn_qkv", channels, config.dim)};
  d.convolution = weights.values(at + "ssm_conv1d.weight", {channels, r.conv_kernel});
  d.decay = {weights.linear(at + "ssm_alpha", d.heads, config.dim)};
  d.decay_bias = weights.values(at + "ssm_dt.bias", {d.heads});
  d.decay_scale = weights.values(at + "ssm_a", {d.heads});
  d.beta = weights.linear(at + "ssm_beta", d.heads, config.dim);
  d.gate = {weights.linear(at + "attn_gate", r.inner_size, config.dim)};
  d.norm = {weights.values(at + "ssm_norm.weight", {d.value_dim}), std::nullopt, config.norm_eps, false};
  d.output = weights.linear(at + "ssm_out", config.dim, r.inner_size);
  return d;
}

DeltaNet make_kimi_delta(const BlockContext& context, int64_t layer) {
  const ModelConfig& config = context.config;
  const Weights& weights = context.weights;
  const std::string at = fmt::format("blk.{}.", layer);
  const int64_t dim = config.recurrent.kda_head_dim, kernel = config.recurrent.conv_kernel;
  const int64_t inner = weights.rows(at + "attn_q.weight");
  if (dim < 1 || kernel < 2 || inner < 1 || inner % dim)
    bad_sizes(
        context, layer,
        fmt::format("{0}.kda.head_dim = {1} and {0}.ssm.conv_kernel = {2} do not go with the {3} rows of "
                    "{4}attn_q.weight",
                    config.architecture, dim, kernel, inner, at));
  const int64_t heads = inner / dim;
  DeltaNet d{.key_heads = heads, .heads = heads, .key_dim = dim, .value_dim = dim};
  std::vector<Tensor> convolutions;
  for (const char* name : {"q", "k", "v"}) {
    d.qkv.push_back(weights.linear(at + "attn_" + name, inner, config.dim));
    convolutions.push_back(weights.values(at + "ssm_conv1d_" + name + ".weight", {inner, kernel}));
  }
  d.convolution = Tensor::cat(convolutions).contiguous().realize();
  // Both have a narrow middle.
  const auto through = [&](const std::string& name) {
    const int64_t middle = weights.rows(at + name + "_a.weight");
    return std::vector{weights.linear(at + name + "_a", middle, config.dim),
                       weights.linear(at + name + "_b", inner, middle)};
  };
  d.decay = through("ssm_f"), d.gate = through("ssm_g"), d.sigmoid_gate = true;
  d.decay_bias = weights.values(at + "ssm_dt.bias", {inner});
  d.decay_scale = weights.values(at + "ssm_a", {heads});
  d.beta = weights.linear(at + "ssm_beta", heads, config.dim);
  d.norm = {weights.values(at + "ssm_norm.weight", {dim}), std::nullopt, config.norm_eps, false};
  d.output = weights.linear(at + "attn_output", config.dim, inner);
  return d;
}

LayerState make_state(const DeltaNet& block, const StateOptions& options) {
  const int64_t channels = block.convolution.size(0).value(), kernel = block.convolution.size(1).value();
  return {.recurrent = {
              make_zeros({kernel - 1, channels}, DType::Float32, options.device),
              make_zeros({block.heads, block.value_dim, block.key_dim}, DType::Float32, options.device)}};
}

Tensor forward(const DeltaNet& block, const Tensor& x, const Step& step, LayerState& state) {
  const int64_t rows = step.rows, keys = block.key_heads * block.key_dim;
  std::vector<Tensor> parts;
  for (const Linear& m : block.qkv) parts.push_back(m(x));
  const Tensor channels = causal_convolution(parts.size() == 1 ? parts[0] : Tensor::cat(parts, -1),
                                             block.convolution, std::nullopt, step, state.recurrent[0])
                              .silu();
  // Key heads (rows, heads, key_dim), normed, each for the value heads that use it.
  const int64_t times = block.heads / block.key_heads;
  const auto key_heads = [&](int64_t begin) {
    Tensor t = unit(channels.at(Slice{}, Slice{begin, begin + keys}).unflatten(-1, {block.key_heads, -1}));
    if (times == 1) return t;
    t = t.unsqueeze(block.grouped_heads ? 2 : 1);
    return t
        .expand(block.grouped_heads ? Shape{rows, block.key_heads, times, block.key_dim}
                                    : Shape{rows, times, block.key_heads, block.key_dim})
        .flatten(1, 2);
  };
  const Tensor fade =
      (chained(block.decay, x) + block.decay_bias).softplus().unflatten(-1, {block.heads, -1});
  const ScanInput in{.q = key_heads(0) * (1 / std::sqrt(static_cast<double>(block.key_dim))),
                     .k = key_heads(keys),
                     .v = channels.at(Slice{}, Slice{2 * keys, none}).unflatten(-1, {block.heads, -1}),
                     .log_decay = fade * block.decay_scale.unsqueeze(-1),
                     .beta = block.beta(x).sigmoid()};
  const Tensor o = block.norm(decay_scan(in, step, state.recurrent[1])).flatten(1);
  const Tensor gate = chained(block.gate, x);
  return block.output(o * (block.sigmoid_gate ? gate.sigmoid() : gate.silu()));
}

}  // namespace lathe
