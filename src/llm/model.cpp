#include "llm/model.h"

#include "base/error.h"

namespace lathe {
namespace {

Norm make_norm(const Weights& weights, const ModelConfig& config, const std::string& name) {
  return {weights.values(name + ".weight", {config.dim}),
          weights.optional_values(name + ".bias", {config.dim}), config.norm_eps, config.layer_norm};
}
std::optional<Norm> optional_norm(const Weights& weights, const ModelConfig& config,
                                  const std::string& name) {
  if (!weights.has(name + ".weight")) return std::nullopt;
  return make_norm(weights, config, name);
}

MixerBlock make_mixer(const BlockContext& context, int64_t layer) {
  switch (context.config.layers[static_cast<size_t>(layer)].mixer) {
    case Mixer::Attention: return make_attention(context, layer);
    case Mixer::Latent: return make_latent_attention(context, layer);
    case Mixer::DeltaNet: return make_gated_delta_net(context, layer);
    case Mixer::KimiDelta: return make_kimi_delta(context, layer);
    case Mixer::Mamba: return make_mamba(context, layer);
    case Mixer::Mamba2: return make_mamba2(context, layer);
  }
  CHECK(false, "a mixer of no kind");
  return {};
}

FeedForwardBlock make_ffn(const BlockContext& context, int64_t layer) {
  if (context.config.layers[static_cast<size_t>(layer)].experts)
    return make_mixture_of_experts(context, layer);
  if (!context.weights.has(fmt::format("blk.{}.ffn_down.weight", layer))) return std::monostate();
  return make_feed_forward(context, layer, context.config.hidden);
}

Layer make_layer(const BlockContext& context, int64_t layer) {
  const Weights& weights = context.weights;
  const std::string at = fmt::format("blk.{}.", layer);
  const auto norm = [&](const char* name) { return optional_norm(weights, context.config, at + name); };
  Layer out{.mixer_norm = norm("attn_norm"),
            .mixer_post_norm = std::nullopt,
            .ffn_norm = norm("ffn_norm"),
            .ffn_post_norm = norm("post_ffw_norm"),
            .mixer = make_mixer(context, layer),
            .ffn = make_ffn(context, layer)};
  // With a norm before the mixer and none called ffn_norm it is the one before the feed-forward block.
  const std::optional<Norm> middle = norm("post_attention_norm");
  (middle && out.mixer_norm && !out.ffn_norm ? out.ffn_norm : out.mixer_post_norm) = middle;
  return out;
}

Tensor normed(const std::optional<Norm>& norm, const Tensor& x) { return norm ? (*norm)(x) : x; }

}  // namespace

ModelConfig read_model_config(const GgufFile& file) {
  return read_model_config(file.metadata(),
                           [&](const std::string& name) { return file.find(name) != nullptr; });
}

Model::Model(std::shared_ptr<const GgufFile> file, const std::string& device, int64_t context,
             int64_t positions)
    : weights_(std::move(file), device) {
  config_ = read_model_config(weights_.file());
  RopeTables ropes(weights_, context, positions);
  const BlockContext blocks{weights_, config_, ropes};
  embedding_ = weights_.matrix("token_embd.weight", config_.vocabulary, config_.dim);
  if (config_.learned_positions) {
    const int64_t learned = weights_.rows("position_embd.weight");
    if (learned < context)
      value_error("{}: position_embd.weight has {} positions, the context has {}", weights_.file().name(),
                  learned, context);
    const Tensor values = weights_.values("position_embd.weight", {learned, config_.dim});
    positions_ = values.at(Slice{0, context}).pad_to({positions, -1}).contiguous().realize();
  }
  for (int64_t i = 0; i < static_cast<int64_t>(config_.layers.size()); i++)
    layers_.push_back(make_layer(blocks, i));
  output_norm_ = make_norm(weights_, config_, "output_norm");
  output_ = weights_.has("output.weight") ? weights_.linear("output", config_.vocabulary, config_.dim)
                                          : Linear{embedding_, std::nullopt};
}

ModelState Model::make_state(const StateOptions& options) const {
  ModelState out;
  for (const Layer& layer : layers_)
    out.push_back(
        std::visit([&](const auto& block) { return lathe::make_state(block, options); }, layer.mixer));
  return out;
}

int64_t Model::bytes() const {
  int64_t total = 0;
  for (const GgufTensor& t : file().tensors()) total += static_cast<int64_t>(t.bytes);
  return total;
}

int64_t Model::bytes_per_token() const {
  int64_t total = 0;
  for (const GgufTensor& t : file().tensors()) {
    int64_t bytes = static_cast<int64_t>(t.bytes);
    if (t.name == "token_embd.weight" && file().find("output.weight")) bytes /= config_.vocabulary;
    if (config_.experts.count && t.name.find("_exps.") != std::string::npos)
      bytes = bytes / config_.experts.count * config_.experts.used;
    total += bytes;
  }
  return total;
}

Tensor Model::forward(const Tensor& tokens, const Step& step, ModelState& state, Logits logits) const {
  Tensor x = unpack(select(embedding_, tokens));
  if (config_.embedding_scale != 1) x = x * config_.embedding_scale;
  if (positions_) x = x + positions_->at(Slice{step.start, step.start + step.rows});
  const auto add = [&](const std::optional<Norm>& norm, const Tensor& y) {
    const Tensor z = normed(norm, y);
    x = x + (config_.residual_scale == 1 ? z : z * config_.residual_scale);
  };
  for (size_t i = 0; i < layers_.size(); i++) {
    const Layer& layer = layers_[i];
    add(layer.mixer_post_norm, std::visit(
                                   [&](const auto& block) {
                                     return lathe::forward(block, normed(layer.mixer_norm, x), step,
                                                           state[i]);
                                   },
                                   layer.mixer));
    std::visit(
        [&](const auto& block) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(block)>, std::monostate>)
            add(layer.ffn_post_norm, lathe::forward(block, normed(layer.ffn_norm, x)));
        },
        layer.ffn);
  }
  if (logits == Logits::Last && step.rows > 1) x = x.at(Slice{step.count - 1, step.count});
  Tensor y = output_(output_norm_(x));
  if (config_.logit_scale != 1) y = y * config_.logit_scale;
  if (config_.final_softcap != 0) y = (y / config_.final_softcap).tanh() * config_.final_softcap;
  return logits == Logits::Last ? y.reshape({config_.vocabulary}) : y;
}

}  // namespace lathe
