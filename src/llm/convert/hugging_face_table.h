// Families and tensors as Hugging Face and GGUF name them.
#pragma once

#include <cstdint>
#include <string_view>

namespace lathe {

// What the families have that their configuration does not tell.
struct HuggingFaceFamily {
  std::string_view class_name;  // in `architectures` of config.json
  std::string_view name;        // in GGUF
  bool permutes = false;        // rows of q and k for RoPE over neighbours
  bool is_gemma = false;  // norms are stored less 1, and there are some behind attention and feed-forward
  int64_t window_pattern = 0;   // each n-th layer has no sliding window; 0: all have the window
  bool has_head_norms = false;  // of q and k
  std::string_view defaults;    // that transformers has for what a configuration leaves out
};
inline constexpr std::string_view kGemma3 =
    R"({"hidden_size":2304,"intermediate_size":9216,"num_hidden_layers":26,"num_attention_heads":8,)"
    R"("num_key_value_heads":4,"head_dim":256,"max_position_embeddings":131072,"rope_theta":1e6,)"
    R"("rope_local_base_freq":1e4,"sliding_window":4096,"query_pre_attn_scalar":256})";
inline constexpr HuggingFaceFamily kHuggingFaceFamilies[] = {
    {"LlamaForCausalLM", "llama", true, false, 0, false, R"({"max_position_embeddings":2048})"},
    {"MistralForCausalLM", "llama", true, false, 0, false,
     R"({"num_key_value_heads":8,"max_position_embeddings":131072,"sliding_window":4096})"},
    {"Qwen2ForCausalLM", "qwen2", false, false, 0, false, R"({"max_position_embeddings":32768})"},
    {"Qwen3ForCausalLM", "qwen3", false, false, 0, true,
     R"({"max_position_embeddings":32768,"head_dim":128})"},
    {"GemmaForCausalLM", "gemma", false, true, 0, false,
     R"({"max_position_embeddings":8192,"head_dim":256})"},
    {"Gemma2ForCausalLM", "gemma2", false, true, 2, false,
     R"({"num_attention_heads":8,"num_key_value_heads":4,"head_dim":256,"max_position_embeddings":8192,)"
     R"("sliding_window":4096,"query_pre_attn_scalar":256,"attn_logit_softcapping":50.0,)"
     R"("final_logit_softcapping":30.0})"},
    {"Gemma3ForCausalLM", "gemma3", false, true, 6, true, kGemma3},
    {"Gemma3ForConditionalGeneration", "gemma3", false, true, 6, true, kGemma3},
};

struct TensorName {
  std::string_view theirs, ours;
};
inline constexpr TensorName kWholeNames[] = {{"model.embed_tokens.weight", "token_embd.weight"},
                                             {"model.norm.weight", "output_norm.weight"},
                                             {"lm_head.weight", "output.weight"}};
inline constexpr TensorName kLayerNames[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
};
// Of gemma 2 and 3, before those above.
inline constexpr TensorName kGemmaNames[] = {{"post_attention_layernorm", "post_attention_norm"},
                                             {"pre_feedforward_layernorm", "ffn_norm"},
                                             {"post_feedforward_layernorm", "post_ffw_norm"}};

}  // namespace lathe
