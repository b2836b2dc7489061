#include "llm/convert/convert.h"

#include "base/mmap.h"
#include "formats/gguf/gguf.h"
#include "formats/safetensors.h"
#include "llm/tokenizer/tokenizer.h"
#include "tensor/tensor.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "support/data.h"
#include "support/test.h"

using namespace lathe;
using Json = nlohmann::json;

namespace {

constexpr int64_t kDim = 32, kHidden = 48, kHeads = 4, kKvHeads = 2, kHeadDim = 8, kTokens = 300;

Json small_config(const std::string& class_name) {
  return {{"architectures", {class_name}}, {"hidden_size", kDim},           {"intermediate_size", kHidden},
          {"num_hidden_layers", 2},        {"num_attention_heads", kHeads}, {"num_key_value_heads", kKvHeads},
          {"max_position_embeddings", 64}, {"rms_norm_eps", 1e-5},          {"rope_theta", 500000.0},
          {"vocab_size", kTokens},         {"tie_word_embeddings", false}};
}

Tensor random_tensor(const Shape& shape, std::mt19937& random) {
  int64_t count = 1;
  for (const SInt& n : shape) count *= n.value();
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = static_cast<float>(random() % 2001) / 1000 - 1;
  return Tensor::from(x, shape);
}

enum class Kind { Llama, Gemma3 };

NamedTensors small_tensors(Kind kind = Kind::Llama) {
  std::mt19937 random(3);
  NamedTensors out;
  const auto add = [&](const std::string& name, const Shape& shape) {
    out.emplace_back(name, random_tensor(shape, random));
  };
  add("model.embed_tokens.weight", {kTokens, kDim});
  add("model.norm.weight", {kDim});
  add("lm_head.weight", {kTokens, kDim});
  for (int layer = 0; layer < 2; layer++) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    add(at + "self_attn.q_proj.weight", {kHeads * kHeadDim, kDim});
    add(at + "self_attn.k_proj.weight", {kKvHeads * kHeadDim, kDim});
    add(at + "self_attn.v_proj.weight", {kKvHeads * kHeadDim, kDim});
    add(at + "self_attn.o_proj.weight", {kDim, kHeads * kHeadDim});
    add(at + "mlp.gate_proj.weight", {kHidden, kDim});
    add(at + "mlp.up_proj.weight", {kHidden, kDim});
    add(at + "mlp.down_proj.weight", {kDim, kHidden});
    add(at + "input_layernorm.weight", {kDim});
    add(at + "post_attention_layernorm.weight", {kDim});
    if (kind != Kind::Gemma3) continue;
    add(at + "self_attn.q_norm.weight", {kHeadDim});
    add(at + "self_attn.k_norm.weight", {kHeadDim});
    add(at + "pre_feedforward_layernorm.weight", {kDim});
    add(at + "post_feedforward_layernorm.weight", {kDim});
  }
  return out;
}

// Byte BPE with the tokens of all bytes, two merges and a control token.
Json byte_tokenizer() {
  Json vocabulary = Json::object();
  int id = 0;
  // The printable characters of bytes, in the order of code points.
  for (int b = 33; b < 127; b++) vocabulary[std::string(1, static_cast<char>(b))] = id++;
  const auto put = [&](int c) {
    vocabulary[std::string{static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))}] = id++;
  };
  for (int c = 161; c < 324; c++)
    if (c != 173) put(c);
  vocabulary["hi"] = id++;
  vocabulary["\u0120hi"] = id++;
  return {{"added_tokens",
           {{{"id", id}, {"content", "<|end|>"}, {"special", true}},
            {{"id", id + 1}, {"content", "<tool>"}, {"special", false}}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"},
               {"pattern",
                {{"Regex",
                  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                  "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}}},
              {{"type", "ByteLevel"}, {"use_regex", false}}}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<|end|>"}}}}, {{"Sequence", {{"id", "A"}}}}}}}},
          {"model",
           {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"h i", Json::array({"\u0120", "hi"})}}}}};
}

// The same model as SentencePiece: characters, byte tokens and merges.
Json character_tokenizer() {
  Json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  int id = 3;
  for (int b = 0; b < 256; b++) vocabulary[fmt::format("<0x{:02X}>", b)] = id++;
  for (const char* piece : {"\u2581", "h", "i", "t", "hi", "\u2581hi", "it"}) vocabulary[piece] = id++;
  return {{"added_tokens",
           {{{"id", 0}, {"content", "<unk>"}, {"special", true}},
            {{"id", 1}, {"content", "<s>"}, {"special", true}},
            {{"id", 2}, {"content", "</s>"}, {"special", true}}}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers", {{{"type", "Prepend"}, {"prepend", "\u2581"}}, {{"type", "Replace"}}}}}},
          {"pre_tokenizer", nullptr},
          {"model",
           {{"type", "BPE"},
            {"byte_fallback", true},
            {"unk_token", "<unk>"},
            {"vocab", vocabulary},
            {"merges", {"i t", "h i", "\u2581 hi"}}}}};
}

class Checkpoint {
 public:
  Checkpoint(const Json& config, const NamedTensors& tensors, const Json& tokenizer) {
    safe_save(tensors, dir_.file("model.safetensors"));
    put("config.json", config);
    put("tokenizer.json", tokenizer);
  }
  void put(const char* name, const Json& json) { write_file_atomically(dir_.file(name), json.dump()); }
  std::string folder() const { return dir_.path().string(); }
  std::string file(const char* name) const { return dir_.file(name); }
  GgufFile convert(const ConvertOptions& options = {}) {
    const auto bytes = std::make_shared<const std::string>(convert_model(folder(), options).to_bytes());
    return GgufFile::parse(std::as_bytes(std::span(*bytes)), "converted", bytes).value();
  }
  std::string problem() {
    return test::user_error([&] { convert(); }).what();
  }

 private:
  test::TempDir dir_;
};

std::vector<float> values(const NamedTensors& tensors, const std::string& name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.first == name; });
  REQUIRE(found != tensors.end());
  return found->second.to_vector<float>();
}

}  // namespace

TEST_CASE("a llama checkpoint") {
  const NamedTensors tensors = small_tensors();
  Json config = small_config("LlamaForCausalLM");
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  Checkpoint c(config, tensors, byte_tokenizer());
  c.put("tokenizer_config.json",
        {{"eos_token", {{"content", "<|end|>"}}}, {"chat_template", "{{ messages }}"}});
  const GgufFile file = c.convert();
  const GgufMetadata& m = file.metadata();
  CHECK(m.at<std::string>("general.architecture") == "llama");
  CHECK(m.at<int64_t>("llama.block_count") == 2);
  CHECK(m.at<int64_t>("llama.attention.head_count_kv") == kKvHeads);
  CHECK(m.at<int64_t>("llama.rope.dimension_count") == kHeadDim);
  CHECK(m.at<double>("llama.rope.freq_base") == 500000);
  CHECK(m.at<std::string>("tokenizer.chat_template") == "{{ messages }}");
  CHECK(file.tensors().size() == 3 + 2 * 9 + 1);
  for (const auto& [theirs, ours] : std::initializer_list<std::pair<const char*, const char*>>{
           {"model.embed_tokens.weight", "token_embd.weight"},
           {"lm_head.weight", "output.weight"},
           {"model.layers.1.self_attn.v_proj.weight", "blk.1.attn_v.weight"},
           {"model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight"},
           {"model.layers.1.post_attention_layernorm.weight", "blk.1.ffn_norm.weight"}})
    CHECK(file.tensor(ours).to_vector<float>() == values(tensors, theirs));
  // Row 2i of a head is its row i, row 2i + 1 the one half a head further.
  for (const auto& [part, heads] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"q", kHeads}, {"k", kKvHeads}}) {
    const auto got = file.tensor(fmt::format("blk.1.attn_{}.weight", part)).to_vector<float>();
    const auto want = values(tensors, fmt::format("model.layers.1.self_attn.{}_proj.weight", part));
    for (int64_t row = 0; row < heads * kHeadDim; row++) {
      const int64_t in_head = row % kHeadDim, from = row - in_head + in_head / 2 + in_head % 2 * kHeadDim / 2;
      for (int64_t i = 0; i < kDim; i++)
        REQUIRE(got[static_cast<size_t>(row * kDim + i)] == want[static_cast<size_t>(from * kDim + i)]);
    }
  }
  // 500000^(-2i/8) of a turn each position, 8192 positions: 1304, 49, 1.84 and 0.07 turns.
  const auto factors = file.tensor("rope_freqs.weight").to_vector<float>();
  CHECK(factors[0] == 1);
  CHECK(factors[1] == 1);
  const double turns = 8192 / (2 * 3.14159265358979 * std::sqrt(500000.0)), smooth = (turns - 1) / 3;
  CHECK(factors[2] == doctest::Approx(1 / ((1 - smooth) / 8 + smooth)));
  CHECK(factors[3] == 8);

  const Tokenizer t = Tokenizer::from_gguf(m);
  CHECK(t.size() == kTokens);
  CHECK(m.at<std::string>("tokenizer.ggml.pre") == "llama-bpe");
  CHECK(!t.adds_eos());
  CHECK(m.at<bool>("tokenizer.ggml.add_bos_token"));
  CHECK(t.is_end_of_generation(258));
  CHECK(t.encode("hi hi<|end|>", {.add_special = false, .parse_special = true}) ==
        std::vector<int32_t>{256, 257, 258});
  CHECK(t.type(259) == TokenType::UserDefined);
  CHECK(t.type(299) == TokenType::Unused);

  const GgufFile packed = c.convert({.type = GgmlType::Q8_0});
  CHECK(packed.at("blk.0.attn_q.weight").type == GgmlType::Q8_0);
  CHECK(packed.at("blk.0.ffn_down.weight").type == GgmlType::F16);  // rows of 48
  CHECK(packed.at("blk.0.ffn_norm.weight").type == GgmlType::F32);
  const auto x = packed.tensor("blk.0.attn_q.weight").to_vector<float>(),
             y = file.tensor("blk.0.attn_q.weight").to_vector<float>();
  for (size_t i = 0; i < x.size(); i++) REQUIRE(std::abs(x[i] - y[i]) <= 0.005);
}

TEST_CASE("qwen, mistral and gemma checkpoints") {
  {
    NamedTensors tensors = small_tensors();
    for (auto& [name, t] : tensors) t = t.bfloat16();
    tensors.emplace_back("model.layers.0.self_attn.q_proj.bias",
                         Tensor::from(std::vector<float>(kDim, 0.5f)));
    Json config = small_config("Qwen2ForCausalLM");
    config["sliding_window"] = 32768;
    config["use_sliding_window"] = false;
    config["tie_word_embeddings"] = true;
    Checkpoint c(config, tensors, byte_tokenizer());
    const GgufFile file = c.convert({.pre = "qwen2"});
    CHECK(file.metadata().at<std::string>("general.architecture") == "qwen2");
    CHECK(file.metadata().at<std::string>("tokenizer.ggml.pre") == "qwen2");
    CHECK(!file.metadata().has("qwen2.attention.sliding_window"));
    CHECK(!file.find("output.weight"));
    CHECK(file.at("blk.0.attn_q.weight").type == GgmlType::BF16);
    CHECK(file.tensor("blk.0.attn_q.weight").to_vector<float>() ==
          values(tensors, "model.layers.0.self_attn.q_proj.weight"));
    CHECK(file.tensor("blk.0.attn_q.bias").to_vector<float>() == std::vector<float>(kDim, 0.5f));
  }
  {
    Json config = small_config("MistralForCausalLM");
    config["sliding_window"] = 16;
    Checkpoint c(config, small_tensors(), character_tokenizer());
    const GgufFile file = c.convert();
    CHECK(file.metadata().at<std::string>("general.architecture") == "llama");
    CHECK(file.metadata().at<int64_t>("llama.attention.sliding_window") == 16);
    const Tokenizer t = Tokenizer::from_gguf(file.metadata());
    const auto ids = [&](const char* text) {
      return t.encode(text, {.add_special = false, .parse_special = false});
    };
    CHECK(ids("hi") == std::vector<int32_t>{264});             // "▁hi"
    CHECK(ids("hit") == std::vector<int32_t>{259, 260, 265});  // "it" goes before "hi"
    CHECK(ids("\n") == std::vector<int32_t>{259, 3 + 10});
    CHECK(t.decode(ids("hit\nhi")) == "hit\nhi");
  }
  {
    Json text = small_config("Gemma3ForCausalLM");
    text.erase("architectures");
    text.erase("tie_word_embeddings");
    text["sliding_window"] = 8;
    text["query_pre_attn_scalar"] = 16;
    text["rope_local_base_freq"] = 10000;
    text["hidden_activation"] = "gelu_pytorch_tanh";
    text["layer_types"] = {"sliding_attention", "full_attention"};
    text["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
    const NamedTensors tensors = small_tensors(Kind::Gemma3);
    NamedTensors renamed = {{"vision_tower.x", Tensor::from({1.0f})}};
    for (const auto& [name, t] : tensors) renamed.emplace_back("language_model." + name, t);
    Checkpoint c({{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", text}}, renamed,
                 character_tokenizer());
    const GgufFile file = c.convert();
    const GgufMetadata& m = file.metadata();
    CHECK(m.at<std::string>("general.architecture") == "gemma3");
    CHECK(m.at<double>("gemma3.attention.scale") == 0.25);
    CHECK(m.at<std::string>("gemma3.rope.scaling.type") == "linear");
    CHECK(m.at<double>("gemma3.rope.freq_base_swa") == 10000);
    CHECK(*m.find<std::vector<int64_t>>("gemma3.attention.sliding_window_pattern") ==
          std::vector<int64_t>{1, 0});
    CHECK(!file.find("output.weight"));
    for (const auto& [theirs, ours] : std::initializer_list<std::pair<const char*, const char*>>{
             {"model.layers.1.post_attention_layernorm.weight", "blk.1.post_attention_norm.weight"},
             {"model.layers.1.pre_feedforward_layernorm.weight", "blk.1.ffn_norm.weight"},
             {"model.layers.1.post_feedforward_layernorm.weight", "blk.1.post_ffw_norm.weight"},
             {"model.norm.weight", "output_norm.weight"}}) {
      std::vector<float> want = values(tensors, theirs);
      for (float& v : want) v += 1;
      CHECK(file.tensor(ours).to_vector<float>() == want);
    }
    CHECK(file.tensor("blk.1.attn_k.weight").to_vector<float>() ==
          values(tensors, "model.layers.1.self_attn.k_proj.weight"));
  }
}

TEST_CASE("what a configuration leaves out is what transformers takes for it") {
  Json text = {{"hidden_size", kDim},
               {"intermediate_size", kHidden},
               {"num_hidden_layers", 2},
               {"head_dim", 4},
               {"sliding_window", 8}};
  NamedTensors tensors;
  for (const auto& [name, t] : small_tensors(Kind::Gemma3)) tensors.emplace_back("language_model." + name, t);
  Checkpoint gemma({{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", text}}, tensors,
                   character_tokenizer());
  const GgufFile file = gemma.convert();
  const GgufMetadata& m = file.metadata();
  CHECK(m.at<int64_t>("gemma3.attention.head_count") == 8);
  CHECK(m.at<int64_t>("gemma3.attention.head_count_kv") == 4);
  CHECK(m.at<int64_t>("gemma3.context_length") == 131072);
  CHECK(m.at<int64_t>("gemma3.attention.sliding_window") == 8);
  CHECK(m.at<double>("gemma3.rope.freq_base") == 1e6);
  CHECK(m.at<double>("gemma3.rope.freq_base_swa") == 1e4);
  CHECK(m.at<double>("gemma3.attention.layer_norm_rms_epsilon") == doctest::Approx(1e-6));
  CHECK(m.at<double>("gemma3.attention.scale") == 1.0 / 16);
  Json mistral = small_config("MistralForCausalLM");
  Checkpoint c(mistral, small_tensors(), character_tokenizer());
  CHECK(c.convert().metadata().at<int64_t>("llama.attention.sliding_window") == 4096);
  mistral["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"attention_factor", 0.5}};
  c.put("config.json", mistral);
  CHECK(c.convert().metadata().at<double>("llama.rope.scaling.attn_factor") ==
        doctest::Approx(0.5 / (1 + 0.1 * std::log(4.0))));
  mistral["sliding_window"] = nullptr;
  c.put("config.json", mistral);
  CHECK(!c.convert().metadata().has("llama.attention.sliding_window"));
}

TEST_CASE("an added token without a row of the embedding is left out") {
  Json tokenizer = byte_tokenizer();
  tokenizer["added_tokens"].push_back({{"id", kTokens}, {"content", "<image>"}, {"special", true}});
  Checkpoint c(small_config("LlamaForCausalLM"), small_tensors(), tokenizer);
  const Tokenizer t = Tokenizer::from_gguf(c.convert().metadata());
  CHECK(t.size() == kTokens);
  CHECK(!t.find("<image>"));
  CHECK(t.find("<tool>"));
}

TEST_CASE("checkpoints that cannot be converted") {
  using test::contains;
  const NamedTensors tensors = small_tensors();
  const Json config = small_config("LlamaForCausalLM");
  Checkpoint c(config, tensors, byte_tokenizer());
  const auto with = [&](const char* key, const Json& value) {
    Json changed = config;
    changed[key] = value;
    c.put("config.json", changed);
    return c.problem();
  };
  CHECK(contains(with("architectures", {"FalconForCausalLM"}),
                 "config.json: key `architectures` cannot be converted; what can is LlamaForCausalLM"));
  CHECK(contains(with("hidden_size", "big"), "key `hidden_size` is of another type: \"big\""));
  CHECK(contains(with("hidden_size", nullptr), "key `hidden_size` is missing"));
  CHECK(contains(with("hidden_act", "relu"), "key `hidden_act` is not what this family has: \"relu\""));
  CHECK(contains(with("rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}),
                 "rope_scaling: key `type` is a scaling of RoPE that cannot be converted"));
  CHECK(contains(with("num_key_value_heads", 3), "does not divide the number of heads"));
  write_file_atomically(c.file("config.json"), "{");
  CHECK(contains(c.problem(), "config.json: this is no JSON"));
  write_file_atomically(c.file("config.json"), std::string(100'000, '['));
  CHECK(contains(c.problem(), "config.json: values are nested more than 100 deep"));
  c.put("config.json", config);

  const auto with_tokenizer = [&](const Json::json_pointer& at, const Json& value) {
    Json changed = byte_tokenizer();
    changed[at] = value;
    c.put("tokenizer.json", changed);
    return c.problem();
  };
  using At = Json::json_pointer;
  CHECK(contains(with_tokenizer(At("/model/type"), "Unigram"),
                 "key `type` of a tokenizer cannot be converted"));
  CHECK(contains(with_tokenizer(At("/pre_tokenizer/pretokenizers/0/pattern/Regex"), "x+"),
                 "cuts texts in an unknown way; give a name for it (--pre)"));
  CHECK(contains(with_tokenizer(At("/model/merges/0"), 7), "a merge is neither a text nor a pair: 7"));
  CHECK(contains(with_tokenizer(At("/model/vocab/hi"), 300),
                 "token `hi` has id 300, but the embedding has 300 rows"));
  CHECK(contains(with_tokenizer(At("/added_tokens/0/content"), 7),
                 "added_tokens: key `content` is of another type"));
  c.put("tokenizer.json", byte_tokenizer());

  for (const char* missing :
       {"lm_head.weight", "model.norm.weight", "model.layers.1.self_attn.q_proj.weight"}) {
    NamedTensors fewer = tensors;
    std::erase_if(fewer, [&](const auto& t) { return t.first == missing; });
    safe_save(fewer, c.file("model.safetensors"));
    CHECK(contains(c.problem(), fmt::format("tensor `{}` is missing", missing)));
  }
  safe_save(tensors, c.file("model.safetensors"));
  CHECK(contains(with("num_hidden_layers", 3), "tensor `model.layers.2.self_attn.q_proj.weight` is missing"));
  CHECK(contains(with("num_hidden_layers", 1), "is beyond the 1 layers of config.json"));
  c.put("config.json", config);
  NamedTensors odd = tensors;
  odd.emplace_back("model.layers.0.self_attn.z_proj.weight", Tensor::from({1.0f}));
  safe_save(odd, c.file("model.safetensors"));
  CHECK(contains(c.problem(),
                 "tensor `model.layers.0.self_attn.z_proj.weight` belongs to no part of a llama model"));
  std::filesystem::remove(c.file("model.safetensors"));
  CHECK(contains(c.problem(), "there is neither model.safetensors nor model.safetensors.index.json"));
}

TEST_CASE("a model of llama2.c is converted to what llama.cpp makes of it") {
  const auto folder = test::data_folder("llm");
  if (!folder) return;
  const std::string stories = (*folder / "stories260K").string();
  const std::string bytes =
      convert_model(stories + "/stories260K.bin", {.tokenizer = stories + "/tok512.bin"}).to_bytes();
  const GgufFile got = GgufFile::parse(std::as_bytes(std::span(bytes)), "converted").value();
  const GgufFile want = GgufFile::open(stories + "/stories260K-f32.gguf").value();
  CHECK(got.tensors().size() + 1 == want.tensors().size());  // that one has the output matrix twice
  for (const GgufTensor& t : got.tensors()) {
    CAPTURE(t.name);
    CHECK(t.shape == want.at(t.name).shape);
    const auto a = got.data(t), b = want.data(want.at(t.name));
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
  for (const char* key :
       {"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "llama.block_count",
        "llama.attention.head_count_kv", "llama.attention.layer_norm_rms_epsilon"})
    CHECK(*got.metadata().value(key) == *want.metadata().value(key));
  CHECK(got.metadata().at<int64_t>("llama.context_length") == 512);
}

TEST_CASE("llama2.c files that lie") {
  test::TempDir dir;
  const std::string model = dir.file("m.bin"), tokens = dir.file("tokenizer.bin");
  const auto words = [](std::initializer_list<int32_t> all, size_t floats) {
    std::string out(reinterpret_cast<const char*>(all.begin()), all.size() * 4);
    return out + std::string(floats * 4, '\0');
  };
  // dim 4, hidden 4, 1 layer, 2 heads, 1 for keys, 2 tokens, 3 positions.
  const size_t floats = 8 + 4 + 16 + 8 + 8 + 16 + 4 + 3 * 16 + 4 + 6;
  write_file_atomically(tokens, words({1, 0, 1}, 0) + "a" + words({0, 1}, 0) + "b");
  const auto problem = [&](const std::string& content) {
    write_file_atomically(model, content);
    return std::string(test::user_error([&] { convert_model(model); }).what());
  };
  write_file_atomically(model, words({4, 4, 1, 2, 1, 2, 3}, floats));
  CHECK(convert_model(model).tensors() == 11);
  write_file_atomically(model, words({4, 4, 1, 2, 1, -2, 3}, floats + 8));
  CHECK(convert_model(model).tensors() == 12);
  using test::contains;
  CHECK(contains(problem("abc"), "a file of 3 bytes is no llama2.c model"));
  CHECK(contains(problem(words({4, 4, 0, 2, 1, 2, 3}, floats)), "a size of 0 is not in 1 to"));
  CHECK(contains(problem(words({4, 4, 1, 3, 1, 2, 3}, floats)), "3 heads and 1 for keys do not go into 4"));
  CHECK(contains(problem(words({4, 4, 1, 2, 1, 2, 3}, floats - 1)), "the file ends inside of array ``"));
  CHECK(contains(problem(words({4, 4, 1, 2, 1, 2, 3}, 20)),
                 "the file ends inside of array `attn_q`, which has 64 bytes"));
  CHECK(contains(problem(words({4, 4, 1, 2, 1, 2, 3}, floats + 1)), "4 bytes follow the last array"));
  write_file_atomically(tokens, words({1, 0, 100}, 0) + "a");
  CHECK(contains(problem(words({4, 4, 1, 2, 1, 2, 3}, floats)), "token 0 has 100 bytes, but 1 are left"));
  write_file_atomically(tokens, words({1, 0, 1}, 0) + "a");
  CHECK(contains(problem(words({4, 4, 1, 2, 1, 2, 3}, floats)),
                 "the file ends before the score of token 1 of 2"));
}
