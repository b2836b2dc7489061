// What language models refuse: which key or tensor, its value, and what was expected.
#include "llm/model.h"

#include <functional>

#include "support/model_file.h"
#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// What loading says of a family's file after a change.
std::string refusal(const std::string& family, const std::function<void(ModelSpec&)>& change) {
  ModelSpec spec = random_model_spec(family);
  change(spec);
  const std::string bytes = random_gguf(spec, 1, GgmlType::F32).to_bytes();
  const auto file = std::make_shared<const GgufFile>(
      GgufFile::parse(std::as_bytes(std::span(bytes)), "tiny.gguf").or_throw());
  return user_error([&] { Model(file, "", 32, 32); }).what();
}
void check_key(const std::string& family, const std::string& key, const MetadataValue& value,
               std::string_view text) {
  const std::string got = refusal(family, [&](ModelSpec& spec) { spec.metadata[key] = value; });
  INFO("got: ", got);
  CHECK(contains(got, key + " = "));
  CHECK(contains(got, text));
  CHECK(contains(got, "tiny.gguf"));
}
TensorSpec& tensor(ModelSpec& spec, std::string_view name) {
  for (TensorSpec& t : spec.tensors)
    if (t.name == name) return t;
  FAIL("no tensor ", std::string(name));
  return spec.tensors[0];
}

}  // namespace

TEST_CASE("keys of models") {
  using std::string;
  check_key("llama", "general.architecture", string("rwkv9"), "rwkv9: not supported; supported are llama");
  check_key("llama", "llama.embedding_length", int64_t{0}, "0: expected 1 to");
  check_key("llama", "llama.block_count", int64_t{1} << 31, "expected 1 to");
  check_key("gpt2", "gpt2.attention.head_count", int64_t{5}, "5: 5 does not divide gpt2.embedding_length");
  check_key("llama", "llama.attention.head_count_kv", int64_t{3}, "3: layer 0 has 4 query heads");
  check_key("llama", "llama.rope.dimension_count", int64_t{7}, "7: expected an even number up to");
  check_key("llama", "llama.rope.freq_base", -1.0, "expected a positive number");
  check_key("llama", "llama.rope.scaling.type", string("ntk"),
            "ntk: expected none, linear, yarn or longrope");
  check_key("llama", "llama.attention.causal", false, "encoders are not supported");
  check_key("llama", "llama.attention.max_alibi_bias", 8.0, "models with this are not supported");
  check_key("qwen3moe", "qwen3moe.expert_gating_func", int64_t{9}, "9: expected 1 to 4");
  check_key("qwen3moe", "qwen3moe.expert_used_count", int64_t{99}, "99: there are");
  check_key("gemma3", "gemma3.attention.sliding_window_pattern", std::vector<bool>{true},
            "expected one number for each of");
  const std::string missing =
      refusal("llama", [](ModelSpec& spec) { spec.metadata.erase("llama.block_count"); });
  CHECK(contains(missing, "llama.block_count = (missing): the model needs this key"));
  const std::string typed =
      refusal("llama", [](ModelSpec& spec) { spec.metadata["llama.block_count"] = std::string("two"); });
  CHECK(contains(typed, "llama.block_count"));
}

TEST_CASE("tensors of models") {
  const auto renamed = [](const char* from, const char* to) {
    return [=](ModelSpec& spec) { tensor(spec, from).name = to; };
  };
  CHECK(contains(refusal("llama", renamed("output_norm.weight", "norm.weight")),
                 "tiny.gguf: the model needs tensor output_norm.weight, which is missing"));
  CHECK(contains(refusal("llama", renamed("blk.1.attn_q.weight", "blk.1.q.weight")),
                 "layer 1 has none of the tensors blk.1.attn_q"));
  CHECK(
      contains(refusal("llama", [](ModelSpec& spec) { tensor(spec, "blk.0.ffn_down.weight").shape[0] += 1; }),
               "tensor blk.0.ffn_down.weight has shape ("));
}
