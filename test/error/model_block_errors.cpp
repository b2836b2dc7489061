// What is said of model files that cannot be run: the file, and the key with its value or the tensor.
#include "llm/model.h"

#include <functional>

#include "support/model_file.h"
#include "support/test.h"

using namespace lathe;

namespace {

using Change = std::function<void(test::ModelSpec&)>;

std::string error_of(const char* family, const Change& change) {
  test::ModelSpec spec = test::random_model_spec(family);
  change(spec);
  const std::string bytes = test::random_gguf(spec, 1, GgmlType::F32).to_bytes();
  const auto file =
      std::make_shared<const GgufFile>(GgufFile::parse(std::as_bytes(std::span(bytes)), "m.gguf").or_throw());
  return test::user_error([&] { const Model model(file, "", 64, 64); }).what();
}

Change key(const char* name, test::MetadataValue value) {
  return [=](test::ModelSpec& s) { s.metadata[name] = value; };
}
Change without_key(const char* name) {
  return [=](test::ModelSpec& s) { REQUIRE(s.metadata.erase(name) == 1); };
}
Change without(const char* tensor) {
  return [=](test::ModelSpec& s) {
    REQUIRE(std::erase_if(s.tensors, [&](const test::TensorSpec& t) { return t.name == tensor; }) == 1);
  };
}
Change shaped(const char* tensor, std::vector<int64_t> shape) {
  return [=](test::ModelSpec& s) {
    for (test::TensorSpec& t : s.tensors)
      if (t.name == tensor) t.shape = shape;
  };
}

void check(const char* family, const Change& change, std::initializer_list<const char*> parts) {
  const std::string text = error_of(family, change);
  CAPTURE(text);
  CHECK(test::contains(text, "m.gguf"));
  for (const char* part : parts) {
    CAPTURE(part);
    CHECK(test::contains(text, part));
  }
}

}  // namespace

TEST_CASE("architectures and keys") {
  check("llama", key("general.architecture", std::string("t5")), {"general.architecture", "t5", "qwen3moe"});
  check("llama", without_key("llama.embedding_length"), {"llama.embedding_length"});
  check("llama", key("llama.rope.scaling.type", std::string("magic")),
        {"llama.rope.scaling.type", "magic", "yarn"});
  check("llama", key("llama.attention.max_alibi_bias", 8.0), {"llama.attention.max_alibi_bias", "8"});
  check("kimi-linear", key("kimi-linear.kda.gate_lower_bound", -5.0), {"kimi-linear.kda.gate_lower_bound"});
  check("llama", key("llama.attention.head_count_kv", int64_t{3}), {"llama.attention.head_count_kv"});
}

TEST_CASE("experts") {
  check("qwen3moe", key("qwen3moe.expert_gating_func", int64_t{9}), {"qwen3moe.expert_gating_func", "9"});
  check("qwen3moe", key("qwen3moe.expert_used_count", int64_t{9}),
        {"qwen3moe.expert_used_count", "9", "8 experts"});
  check("deepseek2", key("deepseek2.expert_group_count", int64_t{3}), {"deepseek2.expert_group_count"});
  check("qwen3moe", without_key("qwen3moe.expert_count"), {"qwen3moe.expert_count"});
  check("qwen3moe", without("blk.1.ffn_up_exps.weight"), {"blk.1.ffn_up_exps.weight", "missing"});
  check("qwen3moe", shaped("blk.1.ffn_down_exps.weight", {8, 32, 64}),
        {"blk.1.ffn_down_exps.weight", "(8, 32, 64)", "(8, 64, 32)"});
}

TEST_CASE("latent attention") {
  check("deepseek2", key("deepseek2.attention.kv_lora_rank", int64_t{64}),
        {"blk.0.attn_kv_a_mqa.weight has 40 rows", "deepseek2.attention.kv_lora_rank = 64"});
  check("deepseek2", without("blk.0.attn_v_b.weight"), {"blk.0.attn_v_b.weight"});
  check("deepseek2", key("deepseek2.attention.q_lora_rank", int64_t{32}), {"blk.0.attn_q_a"});
}

TEST_CASE("recurrent blocks") {
  check("qwen35", key("qwen35.ssm.group_count", int64_t{3}), {"layer 0", "qwen35.ssm.group_count = 3"});
  check("qwen35", without("blk.1.ssm_dt.bias"), {"blk.1.ssm_dt.bias"});
  check("kimi-linear", key("kimi-linear.kda.head_dim", int64_t{24}),
        {"layer 0", "kimi-linear.kda.head_dim = 24", "64 rows of blk.0.attn_q.weight"});
  check("mamba", key("mamba.ssm.state_size", int64_t{0}), {"layer 0", "mamba.ssm.state_size = 0"});
  check("mamba2", key("mamba2.ssm.time_step_rank", int64_t{7}), {"layer 0", "mamba2.ssm.time_step_rank = 7"});
  check("mamba2", without("blk.2.ssm_norm.weight"), {"blk.2.ssm_norm.weight"});
}
