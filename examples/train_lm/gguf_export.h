// A trained model as a GGUF file.
#pragma once
#include "corpus.h"
#include "formats/gguf/quantize.h"
#include "formats/gguf/writer.h"
#include "llama.h"
#include "llm/tokenizer/vocabulary.h"

#include <fmt/core.h>

#include <string>
#include <vector>

namespace train_lm {

struct Results {
  int64_t steps, tokens;
  double loss, baseline;  // nats a token of the held-out text
};

inline void describe(lathe::GgufMetadata& keys, const Sizes& s, const Results& results) {
  keys.set("general.architecture", "llama");
  keys.set("general.name", "lathe small");
  keys.set("general.license", "mit");
  keys.set("general.description",
           fmt::format(
               "Trained by examples/train_lm of lathe on public-domain books and plays: {} steps, {} tokens, "
               "held-out loss {:.4f} nats a token (counts of four tokens: {:.4f}). It continues texts in the "
               "style of these books; it knows nothing and follows no instructions.",
               results.steps, results.tokens, results.loss, results.baseline));
  keys.set("general.file_type", uint32_t{7});
  keys.set("general.quantization_version", uint32_t{2});
  const auto number = [&](std::string_view key, int64_t value) {
    keys.set("llama." + std::string(key), static_cast<uint32_t>(value));
  };
  number("block_count", s.layers), number("context_length", s.length), number("embedding_length", s.dim);
  number("feed_forward_length", s.hidden), number("vocab_size", s.vocabulary);
  number("attention.head_count", s.heads), number("attention.head_count_kv", s.kv_heads);
  number("rope.dimension_count", s.dim / s.heads);
  keys.set("llama.rope.freq_base", static_cast<float>(s.rope_base));
  keys.set("llama.attention.layer_norm_rms_epsilon", static_cast<float>(s.norm_eps));
}

inline void describe(lathe::GgufMetadata& keys, const lathe::Vocabulary& v) {
  const auto key = [](std::string_view name) { return "tokenizer.ggml." + std::string(name); };
  keys.set(key("model"), v.model), keys.set(key("pre"), v.pre);
  keys.set(key("tokens"), v.tokens), keys.set(key("merges"), v.merges);
  std::vector<int32_t> types;
  for (const lathe::TokenType t : v.types) types.push_back(static_cast<int32_t>(t));
  keys.set(key("token_type"), types);
  keys.set(key("bos_token_id"), static_cast<uint32_t>(v.bos));
  keys.set(key("eos_token_id"), static_cast<uint32_t>(v.eos));
  keys.set(key("padding_token_id"), static_cast<uint32_t>(v.padding));
  keys.set(key("add_bos_token"), v.add_bos.value_or(false));
  keys.set("tokenizer.chat_template",
           "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
           "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
           "}}{% endif %}");
}

// Matrices as Q8_0, vectors as float32. The file appears whole or not at all.
inline void export_gguf(const Llama& model, const Sizes& s, const lathe::Vocabulary& vocabulary,
                        const Results& results, const std::string& path) {
  lathe::GgufWriter writer;
  describe(writer.metadata(), s, results);
  describe(writer.metadata(), vocabulary);
  nn::visit_tensors(model, "", [&](const std::string& name, const Tensor& t) {
    std::vector<int64_t> shape;
    for (const auto& size : t.shape()) shape.push_back(size.value());
    const std::vector<float> values = t.to_vector<float>();
    if (shape.size() == 2)
      writer.add(name, shape, lathe::GgmlType::Q8_0,
                 lathe::quantize(values, shape.back(), lathe::GgmlType::Q8_0));
    else
      writer.add(name, shape, values);
  });
  writer.write(path);
}

}  // namespace train_lm
