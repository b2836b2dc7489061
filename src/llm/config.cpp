#include "llm/config.h"

#include "base/error.h"
#include "formats/gguf/metadata.h"
#include "llm/model_families_table.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace lathe {
namespace {

using Pairing = RopeConfig::Pairing;

class Reader {
 public:
  Reader(const GgufMetadata& metadata, const std::function<bool(const std::string&)>& has_tensor)
      : metadata_(metadata), has_tensor_(has_tensor) {}
  ModelConfig read();

 private:
  std::string key(std::string_view name) const { return config_.architecture + "." + std::string(name); }
  [[noreturn]] void refuse(const std::string& full_key, const std::string& text) const {
    const GgufValue* value = metadata_.value(full_key);
    value_error("{}: {} = {}: {}", metadata_.where(), full_key, value ? value->to_text() : "(missing)", text);
  }
  std::optional<int64_t> number(std::string_view name) const { return metadata_.find<int64_t>(key(name)); }
  // A size: at least `least`, and small enough that products of three of them are no overflow.
  int64_t size(std::string_view name, std::optional<int64_t> otherwise, int64_t least = 1) const {
    const std::optional<int64_t> n = number(name);
    if (!n && otherwise) return *otherwise;
    if (!n) refuse(key(name), "the model needs this key");
    if (*n < least || *n > kMost) refuse(key(name), fmt::format("expected {} to {}", least, kMost));
    return *n;
  }
  double real(std::string_view name, double otherwise) const {
    const double x = metadata_.find<double>(key(name)).value_or(otherwise);
    if (!std::isfinite(x)) refuse(key(name), "expected a finite number");
    return x;
  }
  // One number for all layers, or an array with one a layer.
  std::vector<int64_t> per_layer(std::string_view name, int64_t layers,
                                 std::optional<int64_t> otherwise) const;
  bool has(int64_t layer, std::string_view tensor) const {
    return has_tensor_(fmt::format("blk.{}.{}", layer, tensor));
  }

  void check_supported() const;
  void read_sizes();
  void read_experts();
  void read_recurrent();
  RopeConfig read_rope() const;
  void read_layers();
  Mixer mixer(int64_t layer) const;
  std::vector<bool> windowed(int64_t layers) const;

  static constexpr int64_t kMost = int64_t{1} << 20;
  const GgufMetadata& metadata_;
  const std::function<bool(const std::string&)>& has_tensor_;
  const ModelFamily* family_ = nullptr;
  ModelConfig config_;
};

std::vector<int64_t> Reader::per_layer(std::string_view name, int64_t layers,
                                       std::optional<int64_t> otherwise) const {
  const GgufValue* value = metadata_.value(key(name));
  if (!value || !value->is_array())
    return std::vector<int64_t>(static_cast<size_t>(layers), size(name, otherwise, 0));
  std::vector<int64_t> all = metadata_.at<std::vector<int64_t>>(key(name));
  if (static_cast<int64_t>(all.size()) < layers)
    refuse(key(name), fmt::format("expected one number for each of {} layers", layers));
  for (const int64_t n : all)
    if (n < 0 || n > kMost) refuse(key(name), fmt::format("expected numbers from 0 to {}", kMost));
  all.resize(static_cast<size_t>(layers));
  return all;
}

void Reader::check_supported() const {
  for (const std::string_view name : kUnsupportedKeys) {
    const GgufValue* value = metadata_.value(key(name));
    if (!value) continue;
    if (value->is_array() || metadata_.find<double>(key(name)).value_or(1) != 0)
      refuse(key(name), "models with this are not supported");
  }
  if (!metadata_.get_or<bool>(key("attention.causal"), true))
    refuse(key("attention.causal"), "encoders are not supported");
  if (metadata_.get_or<bool>(key("use_parallel_residual"), false))
    refuse(key("use_parallel_residual"), "parallel residual streams are not supported");
}

void Reader::read_sizes() {
  config_.dim = size("embedding_length", std::nullopt);
  const std::vector<std::string>* tokens = metadata_.find<std::vector<std::string>>("tokenizer.ggml.tokens");
  config_.vocabulary = tokens ? static_cast<int64_t>(tokens->size()) : size("vocab_size", std::nullopt);
  if (config_.vocabulary < 1) refuse("tokenizer.ggml.tokens", "the vocabulary is empty");
  config_.context = size("context_length", std::nullopt);
  const int64_t layers = size("block_count", std::nullopt);
  const bool no_heads = has(0, "ssm_in.weight");  // mamba has no such keys, or zeros
  const std::vector<int64_t> heads =
      per_layer("attention.head_count", layers, no_heads ? std::optional<int64_t>(0) : std::nullopt);
  config_.heads = *std::max_element(heads.begin(), heads.end());
  if (config_.heads < 1 && !no_heads) refuse(key("attention.head_count"), "expected at least 1");
  for (const int64_t n : heads)
    if (n != config_.heads && n != 0) refuse(key("attention.head_count"), "layers differ: not supported");
  const int64_t even = config_.heads ? config_.dim / config_.heads : 0;
  if (config_.heads && !number("attention.key_length_mla") && !number("attention.key_length") &&
      config_.dim % config_.heads)
    refuse(key("attention.head_count"),
           fmt::format("{} does not divide {}", config_.heads, key("embedding_length")));
  config_.head_dim = size("attention.key_length_mla", size("attention.key_length", even, 0), 0);
  config_.value_dim =
      size("attention.value_length_mla", size("attention.value_length", config_.head_dim, 0), 0);
  const std::vector<int64_t> hidden = per_layer("feed_forward_length", layers, 0);
  config_.hidden = *std::max_element(hidden.begin(), hidden.end());
  config_.layer_norm = metadata_.has(key("attention.layer_norm_epsilon"));
  config_.norm_eps =
      real(config_.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 1e-5);
  config_.learned_positions = has_tensor_("position_embd.weight");
  config_.activation = family_->activation;
  config_.attention_softcap = real("attn_logit_softcapping", family_->attention_softcap);
  config_.final_softcap = real("final_logit_softcapping", family_->final_softcap);
  config_.embedding_scale =
      real("embedding_scale",
           family_->scale_embedding ? static_cast<float>(std::sqrt(static_cast<double>(config_.dim))) : 1.0);
  config_.residual_scale = real("residual_scale", 1);
  config_.logit_scale = real("logit_scale", 1);
  if (family_->divide_logits && config_.logit_scale != 0) config_.logit_scale = 1 / config_.logit_scale;
  const int64_t width = layers == family_->wide_query_layers ? even : config_.head_dim;
  config_.attention_scale = real("attention.scale", width ? 1 / std::sqrt(static_cast<double>(width)) : 0);
}

void Reader::read_experts() {
  ExpertConfig& e = config_.experts;
  e.count = size("expert_count", 0, 0);
  if (!e.count) return;
  e.used = size("expert_used_count", std::nullopt);
  if (e.used > e.count) refuse(key("expert_used_count"), fmt::format("there are {} experts", e.count));
  e.hidden = size("expert_feed_forward_length", config_.hidden);
  e.shared_hidden =
      size("expert_shared_feed_forward_length", size("expert_shared_count", 0, 0) * e.hidden, 0);
  e.leading_dense = size("leading_dense_block_count", 0, 0);
  e.groups = size("expert_group_count", 1, 0);
  e.groups_used = size("expert_group_used_count", e.groups, 0);
  if (e.groups > 1 && (e.count % e.groups || e.groups_used < 1 || e.groups_used > e.groups))
    refuse(key("expert_group_count"),
           fmt::format("{} experts in groups of which {} are used", e.count, e.groups_used));
  if (e.groups > 1 && e.count / e.groups * e.groups_used < e.used)
    refuse(key("expert_group_used_count"), fmt::format("the groups have fewer than {} experts", e.used));
  e.normalize = metadata_.get_or<bool>(key("expert_weights_norm"), family_->normalize_experts);
  e.scale = real("expert_weights_scale", 1);
  if (e.scale == 0) e.scale = 1;
  const int64_t gating = size("expert_gating_func", static_cast<int64_t>(family_->gating), 0);
  if (gating > 4) refuse(key("expert_gating_func"), "expected 1 to 4");
  e.gating = static_cast<Gating>(std::max<int64_t>(gating, 1));
  if (e.groups < 1) e.groups = e.groups_used = 1;
}

void Reader::read_recurrent() {
  config_.latent = {size("attention.kv_lora_rank", 0, 0), size("attention.q_lora_rank", 0, 0)};
  RecurrentConfig& r = config_.recurrent;
  r.conv_kernel = size("ssm.conv_kernel", 0, 0);
  r.state_size = size("ssm.state_size", 0, 0);
  r.groups = size("ssm.group_count", 0, 0);
  r.time_step_rank = size("ssm.time_step_rank", 0, 0);
  r.inner_size = size("ssm.inner_size", 0, 0);
  r.kda_head_dim = size("kda.head_dim", 0, 0);
  r.grouped_heads = family_->grouped_heads;
}

RopeConfig Reader::read_rope() const {
  RopeConfig r;
  r.pairing = config_.learned_positions ? Pairing::None : family_->pairing;
  r.dims = size("rope.dimension_count", config_.head_dim, 0);
  if (r.pairing == Pairing::None) return r;
  if (r.dims % 2 || r.dims > config_.head_dim)
    refuse(key("rope.dimension_count"), fmt::format("expected an even number up to {}", config_.head_dim));
  r.base = real("rope.freq_base", 10000);
  if (r.base <= 0) refuse(key("rope.freq_base"), "expected a positive number");
  const std::string type = metadata_.find<std::string>(key("rope.scaling.type"))
                               ? *metadata_.find<std::string>(key("rope.scaling.type"))
                               : "none";
  r.factor = real("rope.scaling.factor", real("rope.scale_linear", 1));
  if (r.factor == 0) r.factor = 1;
  if (r.factor < 0) refuse(key("rope.scaling.factor"), "expected a positive number");
  r.original_context = size("rope.scaling.original_context_length", config_.context);
  r.attention_factor = real("rope.scaling.attn_factor", 1);
  r.log_multiplier = real("rope.scaling.yarn_log_multiplier", 0);
  r.beta_fast = real("rope.scaling.yarn_beta_fast", 32);
  r.beta_slow = real("rope.scaling.yarn_beta_slow", 1);
  if (type == "none")
    r.factor = metadata_.has(key("rope.scaling.type")) ? 1 : r.factor;
  else if (type != "linear" && type != "yarn" && type != "longrope")
    refuse(key("rope.scaling.type"), "expected none, linear, yarn or longrope");
  using Scaling = RopeConfig::Scaling;
  r.scaling = type == "yarn"       ? Scaling::Yarn
              : type == "longrope" ? Scaling::Long
              : r.factor != 1      ? Scaling::Linear
                                   : Scaling::None;
  if (has_tensor_("rope_factors_long.weight")) r.scaling = Scaling::Long;
  return r;
}

Mixer Reader::mixer(int64_t layer) const {
  if (has(layer, "ssm_f_a.weight")) return Mixer::KimiDelta;
  if (has(layer, "attn_kv_a_mqa.weight")) return Mixer::Latent;
  if (has(layer, "ssm_in.weight")) return has(layer, "ssm_x.weight") ? Mixer::Mamba : Mixer::Mamba2;
  if (has(layer, "ssm_conv1d.weight")) return Mixer::DeltaNet;
  if (has(layer, "attn_q.weight") || has(layer, "attn_qkv.weight")) return Mixer::Attention;
  value_error(
      "{}: layer {} has none of the tensors blk.{}.attn_q, attn_qkv, attn_kv_a_mqa, ssm_in, ssm_conv1d",
      metadata_.where(), layer, layer);
}

// Which layers have the sliding window: a pattern of n is n - 1 layers with it and one without.
std::vector<bool> Reader::windowed(int64_t layers) const {
  std::vector<bool> out(static_cast<size_t>(layers), true);
  const GgufValue* pattern = metadata_.value(key("attention.sliding_window_pattern"));
  if (pattern && pattern->is_array()) {
    const std::vector<int64_t> each = per_layer("attention.sliding_window_pattern", layers, 0);
    for (size_t i = 0; i < out.size(); i++) out[i] = each[i] != 0;
    return out;
  }
  const int64_t n = size("attention.sliding_window_pattern", family_->window_pattern, 0);
  for (int64_t i = 0; n > 0 && i < layers; i++) out[static_cast<size_t>(i)] = i % n < n - 1;
  return out;
}

void Reader::read_layers() {
  const int64_t all = size("block_count", std::nullopt), dropped = size("nextn_predict_layers", 0, 0);
  if (dropped >= all) refuse(key("nextn_predict_layers"), fmt::format("there are {} layers", all));
  const int64_t layers = all - dropped, seen = number("attention.sliding_window").value_or(0);
  if (seen < 0) refuse(key("attention.sliding_window"), "expected 0 or more");
  const int64_t window = std::min(seen, kMost);  // files say with huge ones that there is none
  const std::vector<int64_t> kv = per_layer("attention.head_count_kv", layers, config_.heads);
  const std::vector<bool> local = windowed(layers);
  const RopeConfig rope = read_rope();
  for (int64_t i = 0; i < layers; i++) {
    const size_t at = static_cast<size_t>(i);
    LayerConfig layer{.mixer = mixer(i), .kv_heads = kv[at], .rope = rope};
    if (layer.mixer == Mixer::Attention && (layer.kv_heads < 1 || config_.heads % layer.kv_heads ||
                                            config_.head_dim < 1 || config_.value_dim < 1))
      refuse(key("attention.head_count_kv"), fmt::format("layer {} has {} query heads", i, config_.heads));
    if (window && local[at]) {
      layer.window = window;
      layer.rope.base = real("rope.freq_base_swa", family_->window_base ? family_->window_base : rope.base);
      if (family_->plain_windows) {
        layer.rope.scaling = RopeConfig::Scaling::None;
        layer.rope.factor = 1;
        layer.rope.local = true;
      }
    }
    if (family_->unturned_step && (i + 1) % family_->unturned_step == 0) layer.rope.pairing = Pairing::None;
    layer.experts = has(i, "ffn_gate_inp.weight");
    if (layer.experts && !config_.experts.count)
      refuse(key("expert_count"), fmt::format("layer {} has a router", i));
    config_.layers.push_back(layer);
  }
}

ModelConfig Reader::read() {
  config_.architecture = metadata_.at<std::string>("general.architecture");
  const std::string* name = metadata_.find<std::string>("general.name");
  config_.name = name ? *name : config_.architecture;
  for (const ModelFamily& f : kModelFamilies)
    if (f.name == config_.architecture) family_ = &f;
  if (!family_) {
    std::string known;
    for (const ModelFamily& f : kModelFamilies) known += (known.empty() ? "" : ", ") + std::string(f.name);
    refuse("general.architecture", "not supported; supported are " + known);
  }
  check_supported();
  read_sizes();
  read_experts();
  read_recurrent();
  read_layers();
  return std::move(config_);
}

}  // namespace

int64_t ModelConfig::window() const {
  int64_t out = 0;
  for (const LayerConfig& layer : layers)
    if (layer.mixer == Mixer::Attention) out = std::max(out, layer.window);
  return out;
}

ModelConfig read_model_config(const GgufMetadata& metadata,
                              const std::function<bool(const std::string&)>& has_tensor) {
  return Reader(metadata, has_tensor).read();
}

}  // namespace lathe
