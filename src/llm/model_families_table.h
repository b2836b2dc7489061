// What is known of the architectures beside what their files tell.
#pragma once

#include "llm/config.h"

#include <cstdint>
#include <string_view>

namespace lathe {

// What neither keys nor tensors of a file tell.
struct ModelFamily {
  std::string_view name;
  RopeConfig::Pairing pairing = RopeConfig::Pairing::HalfSplit;
  Activation activation = Activation::Silu;
  int64_t window_pattern = 0;    // 0: every layer has the window; n: each n-th has none
  bool plain_windows = false;    // layers with the window turn unscaled
  double window_base = 0;        // and at this base where no key says so; 0: at that of the others
  int64_t unturned_step = 0;     // each so many layers one does not turn; 0: all turn
  bool scale_embedding = false;  // by √dim
  bool normalize_experts = false;
  Gating gating = Gating::Softmax;
  double attention_softcap = 0, final_softcap = 0;
  int64_t wide_query_layers = 0;  // with so many layers queries are scaled by 1/√(dim / heads)
  bool divide_logits = false;     // A.logit_scale divides
  bool grouped_heads = false;     // gated delta net: value heads stand in groups
};

// Pairings as llama.cpp has them.
inline constexpr ModelFamily kModelFamilies[] = {
    {.name = "llama", .pairing = RopeConfig::Pairing::Interleaved, .normalize_experts = true},
    {.name = "mistral3", .pairing = RopeConfig::Pairing::Interleaved},
    {.name = "qwen2"},
    {.name = "qwen2moe"},
    {.name = "qwen3"},
    {.name = "qwen3moe", .normalize_experts = true},
    {.name = "qwen35"},
    {.name = "qwen35moe", .normalize_experts = true},
    {.name = "qwen3next", .normalize_experts = true, .grouped_heads = true},
    {.name = "olmo2"},
    {.name = "olmo3", .window_pattern = 4, .plain_windows = true},
    {.name = "olmoe"},
    {.name = "phi3"},
    {.name = "gpt2", .pairing = RopeConfig::Pairing::None, .activation = Activation::Gelu},
    {.name = "gemma", .activation = Activation::Gelu, .scale_embedding = true},
    {.name = "gemma2",
     .activation = Activation::Gelu,
     .window_pattern = 2,
     .scale_embedding = true,
     .attention_softcap = 50,
     .final_softcap = 30,
     .wide_query_layers = 46},
    {.name = "gemma3",
     .activation = Activation::Gelu,
     .window_pattern = 6,
     .plain_windows = true,
     .window_base = 10000,
     .scale_embedding = true,
     .wide_query_layers = 62},
    {.name = "gpt-oss",
     .activation = Activation::ClampedSwiglu,
     .window_pattern = 2,
     .gating = Gating::SelectedSoftmax},
    {.name = "glm4", .pairing = RopeConfig::Pairing::Interleaved},
    {.name = "glm4moe"},
    {.name = "granite", .pairing = RopeConfig::Pairing::Interleaved, .divide_logits = true},
    {.name = "smollm3", .pairing = RopeConfig::Pairing::Interleaved, .unturned_step = 4},
    {.name = "deepseek2", .pairing = RopeConfig::Pairing::Interleaved},
    {.name = "kimi-linear", .pairing = RopeConfig::Pairing::None, .normalize_experts = true},
    {.name = "mamba", .pairing = RopeConfig::Pairing::None},
    {.name = "mamba2", .pairing = RopeConfig::Pairing::None},
};

// Keys that change what a model computes and that no block here takes into account, unless they are 0.
inline constexpr std::string_view kUnsupportedKeys[] = {
    "attention.max_alibi_bias",   "attention.clamp_kqv",
    "attention.shared_kv_layers", "embedding_length_per_layer_input",
    "expert_latent_length",       "attention.temperature_scale",
    "kda.gate_lower_bound"};

}  // namespace lathe
