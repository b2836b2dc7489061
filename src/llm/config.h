// What a language model is made of, read from the metadata of its file and from which tensors it has.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lathe {

class GgufMetadata;

// How positions turn pairs of numbers of a head.
struct RopeConfig {
  enum class Pairing : uint8_t { None, Interleaved, HalfSplit };  // (2i, 2i+1), (i, i + dims/2)
  enum class Scaling : uint8_t { None, Linear, Yarn, Long };
  Pairing pairing = Pairing::None;
  Scaling scaling = Scaling::None;
  int64_t dims = 0;  // of a head that are turned
  double base = 10000;
  double factor = 1;
  int64_t original_context = 0;
  double attention_factor = 1;  // on cos and sin
  double log_multiplier = 0;    // YaRN of DeepSeek: 0.1 × mscale_all_dim; 0 where the file has none
  double beta_fast = 32, beta_slow = 1;
  bool local = false;  // of a layer with a sliding window and a base of its own
  bool operator==(const RopeConfig&) const = default;
};

// What takes information from one position to others.
enum class Mixer : uint8_t { Attention, Latent, DeltaNet, KimiDelta, Mamba, Mamba2 };
enum class Activation : uint8_t { Silu, Gelu, ClampedSwiglu };  // gelu in the tanh form; gpt-oss's
enum class Gating : uint8_t { Softmax = 1, Sigmoid = 2, SelectedSoftmax = 3, SqrtSoftplus = 4 };

struct LayerConfig {
  Mixer mixer = Mixer::Attention;
  int64_t kv_heads = 0;
  int64_t window = 0;  // a query sees so many positions, its own included; 0: all
  RopeConfig rope;
  bool experts = false;  // mixture of experts instead of a dense feed-forward block
};

struct ExpertConfig {
  int64_t count = 0, used = 0, hidden = 0, shared_hidden = 0, leading_dense = 0;
  int64_t groups = 1, groups_used = 1;
  bool normalize = false;  // weights of the chosen divided by their sum
  double scale = 1;
  Gating gating = Gating::Softmax;
};

// Multi-head latent attention.
struct LatentConfig {
  int64_t kv_rank = 0, q_rank = 0;  // q_rank 0: one matrix for queries
};

// Recurrent blocks: A.ssm.* and A.kda.head_dim.
struct RecurrentConfig {
  int64_t conv_kernel = 0, state_size = 0, groups = 0, time_step_rank = 0, inner_size = 0, kda_head_dim = 0;
  bool grouped_heads = false;  // value head h uses key head h div (Hv / Kh) instead of h mod Kh
};

struct ModelConfig {
  std::string architecture, name;
  int64_t vocabulary = 0, dim = 0, heads = 0, head_dim = 0, value_dim = 0, hidden = 0;
  int64_t context = 0;  // positions the model was made for
  double norm_eps = 1e-5;
  bool layer_norm = false;         // instead of RMS norm
  bool learned_positions = false;  // position_embd.weight
  Activation activation = Activation::Silu;
  double attention_scale = 0;                       // on q·k
  double attention_softcap = 0, final_softcap = 0;  // cap·tanh(x / cap); 0: none
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  std::vector<LayerConfig> layers;
  ExpertConfig experts;
  LatentConfig latent;
  RecurrentConfig recurrent;

  int64_t window() const;  // the largest of a layer; 0: none has one
};

// UserError (Value) naming the key and its value for a key that is missing, malformed or asks for what is not
// supported, and for an unknown architecture. `has_tensor` tells which tensors the file has.
ModelConfig read_model_config(const GgufMetadata& metadata,
                              const std::function<bool(const std::string&)>& has_tensor);

}  // namespace lathe
