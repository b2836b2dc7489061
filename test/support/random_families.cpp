#include <functional>
#include <stdexcept>

#include "support/random_model.h"

namespace lathe::test {
namespace {

struct Sizes {
  int64_t layers = 2, dim = 64, heads = 4, kv_heads = 2, head = 16, hidden = 96, vocabulary = 320,
          context = 256;
};

// Writes down keys and tensors; keys get the architecture's prefix, tensors of a block theirs.
class Builder {
 public:
  Builder(std::string architecture, Sizes sizes) : z(sizes), architecture_(std::move(architecture)) {
    spec_.metadata["general.architecture"] = architecture_;
    spec_.metadata["general.name"] = "random " + architecture_;
    key("context_length", z.context), key("embedding_length", z.dim), key("block_count", z.layers);
    key("attention.head_count", z.heads);
    vocabulary();
    add("token_embd.weight", {z.vocabulary, z.dim}, Fill::Table);
    add("output_norm.weight", {z.dim}, Fill::Norm);
  }
  const Sizes z;

  void key(const std::string& name, MetadataValue value) {
    spec_.metadata[architecture_ + "." + name] = std::move(value);
  }
  void add(std::string name, std::vector<int64_t> shape, Fill fill) {
    spec_.tensors.push_back({std::move(name), std::move(shape), fill});
  }
  void block(int64_t layer) { prefix_ = "blk." + std::to_string(layer) + "."; }
  void matrix(const std::string& name, int64_t out, int64_t in) {
    add(prefix_ + name + ".weight", {out, in}, Fill::Matrix);
  }
  void stack(const std::string& name, int64_t count, int64_t out, int64_t in) {
    add(prefix_ + name + ".weight", {count, out, in}, Fill::Matrix);
  }
  void vector(const std::string& name, std::vector<int64_t> shape, Fill fill) {
    add(prefix_ + name, std::move(shape), fill);
  }
  void norm(const std::string& name, int64_t size, bool centred = false) {
    vector(name + ".weight", {size}, Fill::Norm);
    if (centred) vector(name + ".bias", {size}, Fill::Small);
  }
  void bias(const std::string& name, std::vector<int64_t> shape) {
    vector(name + ".bias", std::move(shape), Fill::Small);
  }
  ModelSpec take() { return std::move(spec_); }

 private:
  void vocabulary() {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<int64_t> types = {2, 3, 3};
    std::vector<double> scores(3, 0.0);
    constexpr const char* kHex = "0123456789ABCDEF";
    for (int i = 0; i < 256; i++)
      tokens.push_back(std::string("<0x") + kHex[i / 16] + kHex[i % 16] + ">"), types.push_back(6),
          scores.push_back(0);
    for (int64_t i = 0; static_cast<int64_t>(tokens.size()) < z.vocabulary; i++)
      tokens.push_back("\u2581w" + std::to_string(i)), types.push_back(1),
          scores.push_back(-static_cast<double>(i));
    spec_.metadata["tokenizer.ggml.model"] = "llama";
    spec_.metadata["tokenizer.ggml.tokens"] = std::move(tokens);
    spec_.metadata["tokenizer.ggml.scores"] = std::move(scores);
    spec_.metadata["tokenizer.ggml.token_type"] = std::move(types);
    spec_.metadata["tokenizer.ggml.bos_token_id"] = int64_t{1};
    spec_.metadata["tokenizer.ggml.eos_token_id"] = int64_t{2};
    spec_.metadata["tokenizer.ggml.unknown_token_id"] = int64_t{0};
  }
  std::string architecture_, prefix_;
  ModelSpec spec_;
};

void dense(Builder& b, int64_t hidden, bool gate = true) {
  if (gate) b.matrix("ffn_gate", hidden, b.z.dim);
  b.matrix("ffn_up", hidden, b.z.dim), b.matrix("ffn_down", b.z.dim, hidden);
}

void experts(Builder& b, int64_t count, int64_t hidden, int64_t shared = 0, bool shared_gate = false) {
  b.matrix("ffn_gate_inp", count, b.z.dim);
  b.stack("ffn_gate_exps", count, hidden, b.z.dim), b.stack("ffn_up_exps", count, hidden, b.z.dim);
  b.stack("ffn_down_exps", count, b.z.dim, hidden);
  if (shared == 0) return;
  b.matrix("ffn_gate_shexp", shared, b.z.dim), b.matrix("ffn_up_shexp", shared, b.z.dim);
  b.matrix("ffn_down_shexp", b.z.dim, shared);
  if (shared_gate) b.vector("ffn_gate_inp_shexp.weight", {b.z.dim}, Fill::Table);
}
void expert_keys(Builder& b, int count, int used, int64_t hidden) {
  b.key("expert_count", count), b.key("expert_used_count", used);
  b.key("expert_feed_forward_length", hidden);
}

void attention_keys(Builder& b) {
  b.key("attention.head_count_kv", b.z.kv_heads), b.key("feed_forward_length", b.z.hidden);
  b.key("attention.key_length", b.z.head), b.key("attention.value_length", b.z.head);
  b.key("rope.dimension_count", b.z.head), b.key("rope.freq_base", 10000.0);
  b.key("attention.layer_norm_rms_epsilon", 1e-5);
}

enum class HeadNorm : uint8_t { None, Each, Whole };
struct AttentionForm {
  bool bias = false, gate = false, output_bias = false;
  HeadNorm norm = HeadNorm::None;
};
void attention(Builder& b, const AttentionForm& form = {}) {
  const int64_t q = b.z.heads * b.z.head, kv = b.z.kv_heads * b.z.head;
  b.matrix("attn_q", form.gate ? 2 * q : q, b.z.dim);
  b.matrix("attn_k", kv, b.z.dim), b.matrix("attn_v", kv, b.z.dim), b.matrix("attn_output", b.z.dim, q);
  if (form.bias) b.bias("attn_q", {q}), b.bias("attn_k", {kv}), b.bias("attn_v", {kv});
  if (form.output_bias) b.bias("attn_output", {b.z.dim});
  if (form.norm == HeadNorm::None) return;
  b.norm("attn_q_norm", form.norm == HeadNorm::Each ? b.z.head : q);
  b.norm("attn_k_norm", form.norm == HeadNorm::Each ? b.z.head : kv);
}

// Layers of attention and a dense FFN, with norms before them.
Builder plain(const std::string& architecture, const AttentionForm& form = {}, const Sizes& sizes = {}) {
  Builder b(architecture, sizes);
  attention_keys(b);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim), attention(b, form), b.norm("ffn_norm", b.z.dim), dense(b, b.z.hidden);
  }
  return b;
}
Builder plain_experts(const std::string& architecture, const AttentionForm& form = {}) {
  Builder b(architecture, {});
  attention_keys(b), expert_keys(b, 8, 3, 32);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim), attention(b, form), b.norm("ffn_norm", b.z.dim), experts(b, 8, 32);
  }
  return b;
}

void yarn(Builder& b, double factor, int original) {
  b.key("rope.scaling.type", std::string("yarn")), b.key("rope.scaling.factor", factor);
  b.key("rope.scaling.original_context_length", original);
}

ModelSpec llama3() {
  Builder b = plain("llama");
  b.add("rope_freqs.weight", {b.z.head / 2}, Fill::Frequency);
  return b.take();
}
ModelSpec llama_linear() {
  Builder b = plain("llama");
  b.key("rope.scaling.type", std::string("linear")), b.key("rope.scaling.factor", 4.0);
  return b.take();
}
ModelSpec llama_yarn() {
  Builder b = plain("llama");
  yarn(b, 4, 64);
  return b.take();
}
ModelSpec mistral() {
  Builder b = plain("llama");
  b.key("attention.sliding_window", 8);
  return b.take();
}

ModelSpec gemma(const std::string& architecture, bool third) {
  Builder b(architecture, {.layers = third ? 7 : 4});
  attention_keys(b), b.key("attention.sliding_window", 8);
  if (third) {
    b.key("rope.freq_base", 1e6), b.key("rope.freq_base_swa", 10000.0);
    b.key("rope.scaling.type", std::string("linear")), b.key("rope.scaling.factor", 8.0);
  } else {
    b.key("attn_logit_softcapping", 5.0), b.key("final_logit_softcapping", 3.0);
  }
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim), attention(b, {.norm = third ? HeadNorm::Each : HeadNorm::None});
    b.norm("post_attention_norm", b.z.dim), b.norm("ffn_norm", b.z.dim), dense(b, b.z.hidden);
    b.norm("post_ffw_norm", b.z.dim);
  }
  return b.take();
}

// Which layers have a window as a list, and a base for those that the file states.
ModelSpec gemma3_list() {
  ModelSpec s = gemma("gemma3", true);
  s.metadata["gemma3.attention.sliding_window_pattern"] =
      std::vector<bool>{true, false, true, true, false, true, false};
  s.metadata["gemma3.rope.freq_base_swa"] = 5000.0, s.metadata["gemma3.attention.scale"] = 0.2;
  return s;
}

// Norms only after the sub-layers; `third`: windows on three of four layers, which YaRN leaves alone.
ModelSpec olmo(const std::string& architecture, bool third) {
  Builder b(architecture, {.layers = third ? 4 : 2});
  attention_keys(b);
  if (third) b.key("attention.sliding_window", 8), yarn(b, 4, 64);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    attention(b, {.norm = HeadNorm::Whole}), b.norm("post_attention_norm", b.z.dim);
    dense(b, b.z.hidden), b.norm("post_ffw_norm", b.z.dim);
  }
  return b.take();
}

ModelSpec granite() {
  Builder b = plain("granite");
  b.key("attention.scale", 0.1), b.key("embedding_scale", 3.0), b.key("residual_scale", 0.5);
  b.key("logit_scale", 4.0);
  return b.take();
}

ModelSpec glm4() {
  Builder b("glm4", {});
  attention_keys(b), b.key("rope.dimension_count", b.z.head / 2);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim), attention(b, {.bias = true}), b.norm("post_attention_norm", b.z.dim);
    b.norm("ffn_norm", b.z.dim), b.matrix("ffn_up", 2 * b.z.hidden, b.z.dim);
    b.matrix("ffn_down", b.z.dim, b.z.hidden), b.norm("post_ffw_norm", b.z.dim);
  }
  return b.take();
}

ModelSpec phi3(int64_t original_context) {
  Builder b("phi3", {});
  attention_keys(b);
  b.key("rope.scaling.original_context_length", original_context), b.key("rope.scaling.attn_factor", 1.1);
  b.key("rope.dimension_count", 12);
  b.add("rope_factors_long.weight", {6}, Fill::Frequency),
      b.add("rope_factors_short.weight", {6}, Fill::Frequency);
  b.add("output.weight", {b.z.vocabulary, b.z.dim}, Fill::Matrix);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim), b.norm("ffn_norm", b.z.dim);
    b.matrix("attn_qkv", (b.z.heads + 2 * b.z.kv_heads) * b.z.head, b.z.dim);
    b.matrix("attn_output", b.z.dim, b.z.heads * b.z.head);
    b.matrix("ffn_up", 2 * b.z.hidden, b.z.dim), b.matrix("ffn_down", b.z.dim, b.z.hidden);
  }
  return b.take();
}

ModelSpec gpt2() {
  Builder b("gpt2", {.kv_heads = 4});
  b.key("feed_forward_length", b.z.hidden), b.key("attention.layer_norm_epsilon", 1e-5);
  b.add("position_embd.weight", {b.z.context, b.z.dim}, Fill::Table);
  b.add("output_norm.bias", {b.z.dim}, Fill::Small);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim, true), b.norm("ffn_norm", b.z.dim, true);
    b.matrix("attn_qkv", 3 * b.z.dim, b.z.dim), b.bias("attn_qkv", {3 * b.z.dim});
    b.matrix("attn_output", b.z.dim, b.z.dim), b.bias("attn_output", {b.z.dim});
    dense(b, b.z.hidden, false), b.bias("ffn_up", {b.z.hidden}), b.bias("ffn_down", {b.z.dim});
  }
  return b.take();
}

struct LatentForm {
  int64_t q_rank = 0;
  bool combined = false;  // attn_kv_b, as older files have it
};
constexpr int64_t kLatentRank = 32, kTurned = 8, kPlain = 16, kLatentValue = 16;
void latent_keys(Builder& b, const LatentForm& form) {
  const int64_t head = kPlain + kTurned;
  b.key("attention.kv_lora_rank", kLatentRank);
  if (form.q_rank > 0) b.key("attention.q_lora_rank", form.q_rank);
  b.key("attention.key_length", form.combined ? head : kLatentRank + kTurned);
  b.key("attention.value_length", form.combined ? kLatentValue : kLatentRank);
  if (!form.combined)
    b.key("attention.key_length_mla", head), b.key("attention.value_length_mla", kLatentValue);
  b.key("attention.layer_norm_rms_epsilon", 1e-5);
}
void latent(Builder& b, const LatentForm& form) {
  const int64_t q = b.z.heads * (kPlain + kTurned);
  if (form.q_rank > 0) {
    b.matrix("attn_q_a", form.q_rank, b.z.dim), b.norm("attn_q_a_norm", form.q_rank);
    b.matrix("attn_q_b", q, form.q_rank);
  } else {
    b.matrix("attn_q", q, b.z.dim);
  }
  b.matrix("attn_kv_a_mqa", kLatentRank + kTurned, b.z.dim), b.norm("attn_kv_a_norm", kLatentRank);
  if (form.combined) {
    b.matrix("attn_kv_b", b.z.heads * (kPlain + kLatentValue), kLatentRank);
  } else {
    b.stack("attn_k_b", b.z.heads, kLatentRank, kPlain);
    b.stack("attn_v_b", b.z.heads, kLatentValue, kLatentRank);
  }
  b.matrix("attn_output", b.z.dim, b.z.heads * kLatentValue);
}

// `large`: as DeepSeek-V3 (a rank of queries, sigmoid scores in groups, a bias for the choice, YaRN).
ModelSpec deepseek2(bool large, bool combined) {
  const LatentForm form{.q_rank = large ? 48 : 0, .combined = combined};
  Builder b("deepseek2", {.layers = 3});
  b.key("attention.head_count_kv", combined ? b.z.heads : int64_t{1});
  b.key("feed_forward_length", b.z.hidden);
  b.key("rope.dimension_count", kTurned), b.key("rope.freq_base", 10000.0);
  latent_keys(b, form), expert_keys(b, 8, 3, 32);
  b.key("leading_dense_block_count", 1), b.key("expert_shared_count", 2);
  b.key("expert_weights_scale", large ? 2.5 : 1.0);
  if (large) {
    b.key("expert_gating_func", 2), b.key("expert_weights_norm", true);
    b.key("expert_group_count", 4), b.key("expert_group_used_count", 2);
    yarn(b, 4, 64), b.key("rope.scaling.yarn_log_multiplier", 0.1);
  }
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim), latent(b, form), b.norm("ffn_norm", b.z.dim);
    if (i == 0) {
      dense(b, b.z.hidden);
      continue;
    }
    experts(b, 8, 32, 64);
    if (large) b.bias("exp_probs_b", {8});
  }
  return b.take();
}

// The last block predicts a token more and is not part of the model.
ModelSpec glm4moe() {
  Builder b("glm4moe", {.layers = 4});
  attention_keys(b), expert_keys(b, 8, 3, 32);
  b.key("nextn_predict_layers", 1), b.key("leading_dense_block_count", 1);
  b.key("rope.dimension_count", b.z.head / 2), b.key("expert_shared_count", 1);
  b.key("expert_gating_func", 2), b.key("expert_weights_norm", true), b.key("expert_weights_scale", 1.5);
  b.add("output.weight", {b.z.vocabulary, b.z.dim}, Fill::Matrix);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim), attention(b, {.bias = true, .norm = HeadNorm::Each});
    b.norm("post_attention_norm", b.z.dim);
    if (i == 0) {
      dense(b, b.z.hidden);
      continue;
    }
    experts(b, 8, 32, 32), b.bias("exp_probs_b", {8});
    if (i + 1 == b.z.layers) b.matrix("nextn.eh_proj", b.z.dim, 2 * b.z.dim), b.norm("nextn.enorm", b.z.dim);
  }
  return b.take();
}

ModelSpec gpt_oss() {
  Builder b("gpt-oss", {});
  attention_keys(b), expert_keys(b, 8, 3, 32);
  b.key("attention.sliding_window", 8), b.key("rope.freq_base", 150000.0), yarn(b, 32, 64);
  b.add("output.weight", {b.z.vocabulary, b.z.dim}, Fill::Matrix);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim), attention(b, {.bias = true, .output_bias = true});
    b.vector("attn_sinks.weight", {b.z.heads}, Fill::Table), b.norm("post_attention_norm", b.z.dim);
    experts(b, 8, 32), b.bias("ffn_gate_inp", {8});
    b.bias("ffn_gate_exps", {8, 32}), b.bias("ffn_up_exps", {8, 32}), b.bias("ffn_down_exps", {8, b.z.dim});
  }
  return b.take();
}

void kda(Builder& b) {
  const int64_t inner = b.z.heads * b.z.head;
  for (const char* name : {"q", "k", "v"}) {
    b.matrix(std::string("attn_") + name, inner, b.z.dim);
    b.vector(std::string("ssm_conv1d_") + name + ".weight", {inner, 1, 4}, Fill::Matrix);
  }
  for (const char* name : {"f", "g"}) {
    b.matrix(std::string("ssm_") + name + "_a", b.z.head, b.z.dim);
    b.matrix(std::string("ssm_") + name + "_b", inner, b.z.head);
  }
  b.matrix("ssm_beta", b.z.heads, b.z.dim), b.bias("ssm_dt", {inner});
  b.vector("ssm_a", {b.z.heads, 1}, Fill::Decay), b.norm("ssm_norm", b.z.head);
  b.matrix("attn_output", b.z.dim, inner);
}

ModelSpec kimi_linear() {
  Builder b("kimi-linear", {.layers = 4});
  b.key("attention.head_count_kv", std::vector<int64_t>{0, 0, 0, b.z.heads});
  b.key("feed_forward_length", b.z.hidden), b.key("rope.dimension_count", 9);  // some files have it wrong
  latent_keys(b, {}), expert_keys(b, 8, 3, 32);
  b.key("kda.head_dim", b.z.head), b.key("ssm.conv_kernel", 4);
  b.key("leading_dense_block_count", 1), b.key("expert_shared_count", 1);
  b.key("expert_gating_func", 2), b.key("expert_weights_scale", 2.446);
  b.add("output.weight", {b.z.vocabulary, b.z.dim}, Fill::Matrix);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim);
    if (i == 3)
      latent(b, {});
    else
      kda(b);
    b.norm("ffn_norm", b.z.dim);
    if (i == 0)
      dense(b, b.z.hidden);
    else
      experts(b, 8, 32, 32), b.bias("exp_probs_b", {8});
  }
  return b.take();
}

ModelSpec qwen35(const std::string& architecture, bool moe) {
  Builder b(architecture, {.layers = 4});
  attention_keys(b), b.key("rope.dimension_count", b.z.head / 2), b.key("full_attention_interval", 4);
  constexpr int64_t kState = 16, kGroups = 2, kHeads = 4, kInner = 64,
                    kChannels = kInner + 2 * kGroups * kState;
  b.key("ssm.conv_kernel", 4), b.key("ssm.state_size", kState), b.key("ssm.group_count", kGroups);
  b.key("ssm.time_step_rank", kHeads), b.key("ssm.inner_size", kInner);
  if (moe) expert_keys(b, 8, 3, 32), b.key("expert_shared_feed_forward_length", 32);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim);
    if (i % 4 == 3) {
      attention(b, {.gate = true, .norm = HeadNorm::Each});
    } else {
      b.matrix("attn_qkv", kChannels, b.z.dim), b.matrix("attn_gate", kInner, b.z.dim);
      b.matrix("ssm_alpha", kHeads, b.z.dim), b.matrix("ssm_beta", kHeads, b.z.dim);
      b.vector("ssm_conv1d.weight", {kChannels, 4}, Fill::Matrix), b.bias("ssm_dt", {kHeads});
      b.vector("ssm_a", {kHeads}, Fill::Decay), b.norm("ssm_norm", kInner / kHeads);
      b.matrix("ssm_out", b.z.dim, kInner);
    }
    b.norm("post_attention_norm", b.z.dim);
    if (moe)
      experts(b, 8, 32, 32, true);
    else
      dense(b, b.z.hidden);
  }
  return b.take();
}

ModelSpec mamba(bool second) {
  Builder b(second ? "mamba2" : "mamba", {.layers = 3, .heads = 0});
  constexpr int64_t kInner = 128, kState = 16, kGroups = 2, kHeads = 8, kRank = 32;
  const int64_t channels = second ? kInner + 2 * kGroups * kState : kInner;
  b.key("feed_forward_length", 0), b.key("attention.layer_norm_rms_epsilon", 1e-5);
  b.key("ssm.conv_kernel", 4), b.key("ssm.inner_size", kInner), b.key("ssm.state_size", kState);
  b.key("ssm.time_step_rank", second ? kHeads : kRank);
  if (second) b.key("ssm.group_count", kGroups);
  for (int64_t i = 0; i < b.z.layers; i++) {
    b.block(i);
    b.norm("attn_norm", b.z.dim);
    b.matrix("ssm_in", second ? kInner + channels + kHeads : 2 * kInner, b.z.dim);
    b.vector("ssm_conv1d.weight", {channels, 4}, Fill::Matrix), b.bias("ssm_conv1d", {channels});
    if (second) {
      b.bias("ssm_dt", {kHeads}), b.vector("ssm_a", {kHeads, 1}, Fill::Decay);
      b.vector("ssm_d", {kHeads, 1}, Fill::Norm);
      b.vector("ssm_norm.weight", {kGroups, kInner / kGroups}, Fill::Norm);
    } else {
      b.matrix("ssm_x", kRank + 2 * kState, kInner), b.matrix("ssm_dt", kInner, kRank);
      b.bias("ssm_dt", {kInner}), b.vector("ssm_a", {kInner, kState}, Fill::Decay);
      b.vector("ssm_d", {kInner}, Fill::Norm);
    }
    b.matrix("ssm_out", b.z.dim, kInner);
  }
  return b.take();
}

const std::map<std::string_view, std::function<ModelSpec()>>& families() {
  static const std::map<std::string_view, std::function<ModelSpec()>> all = {
      {"llama", [] { return plain("llama").take(); }},
      {"llama3", llama3},
      {"llama-linear", llama_linear},
      {"llama-yarn", llama_yarn},
      {"mistral", mistral},
      {"mixtral", [] { return plain_experts("llama").take(); }},
      {"qwen2", [] { return plain("qwen2", {.bias = true}).take(); }},
      {"qwen3", [] { return plain("qwen3", {.norm = HeadNorm::Each}).take(); }},
      {"qwen3moe", [] { return plain_experts("qwen3moe", {.norm = HeadNorm::Each}).take(); }},
      {"olmoe", [] { return plain_experts("olmoe", {.norm = HeadNorm::Whole}).take(); }},
      {"gemma2", [] { return gemma("gemma2", false); }},
      {"gemma3", [] { return gemma("gemma3", true); }},
      {"phi3", [] { return phi3(16); }},
      {"phi3-short", [] { return phi3(128); }},
      {"gpt2", gpt2},
      {"deepseek2", [] { return deepseek2(true, false); }},
      {"deepseek2-lite", [] { return deepseek2(false, false); }},
      {"deepseek2-combined", [] { return deepseek2(true, true); }},
      {"glm4moe", glm4moe},
      {"gpt-oss", gpt_oss},
      {"kimi-linear", kimi_linear},
      {"qwen35", [] { return qwen35("qwen35", false); }},
      {"qwen35moe", [] { return qwen35("qwen35moe", true); }},
      {"qwen3next", [] { return qwen35("qwen3next", true); }},
      {"gemma", [] { return plain("gemma").take(); }},
      {"gemma3-list", gemma3_list},
      {"olmo2", [] { return olmo("olmo2", false); }},
      {"olmo3", [] { return olmo("olmo3", true); }},
      {"granite", granite},
      {"glm4", glm4},
      {"smollm3", [] { return plain("smollm3", {}, {.layers = 4}).take(); }},
      {"mamba", [] { return mamba(false); }},
      {"mamba2", [] { return mamba(true); }},
  };
  return all;
}

}  // namespace

std::vector<std::string> random_families() {
  std::vector<std::string> names;
  for (const auto& [name, make] : families()) names.emplace_back(name);
  return names;
}

ModelSpec random_model_spec(std::string_view family) {
  const auto found = families().find(family);
  if (found == families().end()) throw std::invalid_argument("no family is called " + std::string(family));
  return found->second();
}

ModelSpec llama_191m_spec() {
  Builder b = plain("llama", {}, {8, 1024, 16, 8, 64, 4096, 32000, 4096});
  b.add("output.weight", {b.z.vocabulary, b.z.dim}, Fill::Matrix);
  return b.take();
}

}  // namespace lathe::test
