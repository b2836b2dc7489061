// The reference model against models and vectors that were made elsewhere.
#include "base/mmap.h"
#include "llm/evaluator.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/data.h"
#include "support/model_file.h"
#include "support/random_model.h"
#include "support/reference_model.h"
#include "support/test.h"

using namespace lathe;

namespace {

template <class E>
std::vector<E> numbers_of(const std::string& bytes) {
  std::vector<E> out(bytes.size() / sizeof(E));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(E));
  return out;
}

// The layout of llama2.c, version 0.
test::ModelData stories(const std::string& bytes) {
  const std::vector<int32_t> head = numbers_of<int32_t>(bytes.substr(0, 28));
  const int64_t dim = head[0], hidden = head[1], layers = head[2], heads = head[3],
                kv = head[4] * (dim / heads), vocabulary = head[5];
  const std::vector<float> values = numbers_of<float>(bytes.substr(28));
  test::ModelData m;
  m.metadata = {{"general.architecture", std::string("llama")},
                {"llama.embedding_length", dim},
                {"llama.block_count", layers},
                {"llama.attention.head_count", heads},
                {"llama.attention.head_count_kv", int64_t{head[4]}},
                {"llama.attention.layer_norm_rms_epsilon", 1e-5}};
  size_t at = 0;
  const auto take = [&](const std::string& name, std::vector<int64_t> shape) {
    size_t n = 1;
    for (int64_t d : shape) n *= static_cast<size_t>(d);
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(at);
    m.weights[name] = {std::move(shape), {from, from + static_cast<std::ptrdiff_t>(n)}};
    at += n;
  };
  take("token_embd.weight", {vocabulary, dim});
  const std::vector<std::pair<const char*, std::vector<int64_t>>> arrays = {
      {"attn_norm", {dim}},        {"attn_q", {dim, dim}},      {"attn_k", {kv, dim}},
      {"attn_v", {kv, dim}},       {"attn_output", {dim, dim}}, {"ffn_norm", {dim}},
      {"ffn_gate", {hidden, dim}}, {"ffn_down", {dim, hidden}}, {"ffn_up", {hidden, dim}}};
  for (const auto& [name, shape] : arrays)
    for (int64_t i = 0; i < layers; i++) take("blk." + std::to_string(i) + "." + name + ".weight", shape);
  take("output_norm.weight", {dim});
  return m;
}

std::vector<double> decoded(const nlohmann::json& tensor) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : tensor.at("data").get<std::string>()) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c)), have += 6;
    if (have >= 8) bytes += static_cast<char>(bits >> (have -= 8));
  }
  const bool integers = tensor.at("dtype") == "torch.int64";
  if (integers) {
    const std::vector<int64_t> v = numbers_of<int64_t>(bytes);
    return {v.begin(), v.end()};
  }
  const std::vector<float> v = numbers_of<float>(bytes);
  return {v.begin(), v.end()};
}

test::ModelData gpt_nano(const nlohmann::json& file) {
  test::ModelData m;
  const auto& tensors = file.contains("model") ? file.at("model") : file;
  const std::vector<std::pair<std::string, std::string>> names = {
      {"ln_1", "attn_norm"}, {"attn.c_attn", "attn_qkv"}, {"attn.c_proj", "attn_output"},
      {"ln_2", "ffn_norm"},  {"mlp.c_fc", "ffn_up"},      {"mlp.c_proj", "ffn_down"}};
  const auto put = [&](const std::string& to, const std::string& from) {
    if (tensors.contains(from))
      m.weights[to] = {tensors.at(from).at("shape").get<std::vector<int64_t>>(), decoded(tensors.at(from))};
  };
  put("token_embd.weight", "transformer.wte.weight"), put("position_embd.weight", "transformer.wpe.weight");
  put("output.weight", "lm_head.weight");
  for (const char* part : {".weight", ".bias"}) {
    put(std::string("output_norm") + part, std::string("transformer.ln_f") + part);
    for (int64_t i = 0; i < 3; i++)
      for (const auto& [from, to] : names)
        put("blk." + std::to_string(i) + "." + to + part,
            "transformer.h." + std::to_string(i) + "." + from + part);
  }
  m.metadata = {{"general.architecture", std::string("gpt2")},
                {"gpt2.embedding_length", int64_t{48}},
                {"gpt2.block_count", int64_t{3}},
                {"gpt2.attention.head_count", int64_t{3}},
                {"gpt2.attention.layer_norm_epsilon", 1e-5}};
  return m;
}

void check_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); i++) {
    CAPTURE(i);
    REQUIRE(std::abs(got[i] - want[i]) <= tolerance);
  }
}

// Four experts over rows of 8, hidden 16: gate_e = gate[e]·I, up_e = up[e]·I, down = I.
test::ModelData diagonal_experts(const std::vector<double>& gate, const std::vector<double>& up,
                                 const std::vector<double>& router) {
  constexpr int64_t kDim = 8, kHidden = 16, kCount = 4;
  test::ModelData m;
  m.metadata = {{"general.architecture", std::string("test")},
                {"test.expert_count", kCount},
                {"test.expert_used_count", int64_t{2}}};
  const auto stack = [&](const std::string& name, int64_t out, int64_t in,
                         const std::vector<double>& factors) {
    test::Weight w{{kCount, out, in}, std::vector<double>(static_cast<size_t>(kCount * out * in))};
    for (int64_t e = 0; e < kCount; e++)
      for (int64_t i = 0; i < std::min(out, in); i++)
        w.values[static_cast<size_t>((e * out + i) * in + i)] = factors[static_cast<size_t>(e)];
    m.weights["blk.0." + name + ".weight"] = std::move(w);
  };
  stack("ffn_gate_exps", kHidden, kDim, gate), stack("ffn_up_exps", kHidden, kDim, up);
  stack("ffn_down_exps", kDim, kHidden, {1, 1, 1, 1});
  test::Weight w{{kCount, kDim}, std::vector<double>(kCount * kDim)};
  for (size_t e = 0; e < 4; e++) w.values[e * kDim] = router[e];
  m.weights["blk.0.ffn_gate_inp.weight"] = std::move(w);
  return m;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("the llama reference on stories260K") {
  const auto folder = test::data_folder("llm/stories260K");
  if (!folder) return;
  const test::ModelData model = stories(read_file((*folder / "stories260K.bin").string()));
  const auto ids = numbers_of<int32_t>(read_file((*folder / "golden_greedy_ids.i32").string()));
  const auto golden = numbers_of<float>(read_file((*folder / "golden_greedy_logits.f32").string()));
  const auto logits = test::reference_logits(model, std::span(ids).first(256));
  double worst = 0;
  for (size_t t = 0; t < 256; t++)
    for (size_t i = 0; i < 512; i++)
      worst = std::max(worst, std::abs(logits[t][i] - double{golden[t * 512 + i]}));
  CHECK(worst < 2e-5);  // what the data allows in double precision
}

TEST_CASE("the GPT-2 reference on gpt-nano-sort") {
  const auto folder = test::data_folder("llm/gpt-nano-sort");
  if (!folder) return;
  const auto parse = [&](const char* name) {
    return nlohmann::json::parse(read_file((*folder / name).string()));
  };
  const test::ModelData model = gpt_nano(parse("gpt-nano-sort-model.json"));
  const nlohmann::json partials = parse("gpt-nano-sort-t0-partials.json");
  const std::vector<double> idx = decoded(partials.at("idx")), want = decoded(partials.at("lm_head"));
  REQUIRE(idx.size() == 33);
  for (size_t b = 0; b < 3; b++) {
    const std::vector<int32_t> tokens(idx.begin() + static_cast<std::ptrdiff_t>(b * 11),
                                      idx.begin() + static_cast<std::ptrdiff_t>(b * 11 + 11));
    const auto logits = test::reference_logits(model, tokens);
    for (size_t t = 0; t < 11; t++) {
      const auto from = want.begin() + static_cast<std::ptrdiff_t>((b * 11 + t) * 3);
      check_close(logits[t], {from, from + 3}, 2.4e-6);
    }
  }
}

TEST_CASE("gpt-nano-sort sorts") {
  const auto folder = test::data_folder("llm/gpt-nano-sort");
  if (!folder) return;
  const auto parse = [&](const char* name) {
    return nlohmann::json::parse(read_file((*folder / name).string()));
  };
  test::ModelData data = gpt_nano(parse("gpt-nano-sort-model.json"));
  data.metadata["gpt2.context_length"] = int64_t{11};
  data.metadata["gpt2.vocab_size"] = int64_t{3};
  data.metadata["gpt2.feed_forward_length"] = int64_t{192};
  const std::string bytes = test::to_gguf(data).to_bytes();
  const auto file = std::make_shared<const GgufFile>(
      GgufFile::parse(std::as_bytes(std::span(bytes)), "gpt-nano-sort").or_throw());
  const EvaluatorOptions options{.context = 11, .kv_type = KvType::F32};
  const Model model(file, "", options.context, cache_positions(options));
  Evaluator evaluator(model, options);
  const nlohmann::json partials = parse("gpt-nano-sort-t0-partials.json");
  const std::vector<double> idx = decoded(partials.at("idx")), want = decoded(partials.at("lm_head"));
  for (size_t b = 0; b < 3; b++) {
    const auto from = idx.begin() + static_cast<std::ptrdiff_t>(b * 11);
    const std::vector<float> logits = evaluator.all_logits(std::vector<int32_t>(from, from + 11));
    const auto first = want.begin() + static_cast<std::ptrdiff_t>(b * 33);
    check_close({logits.begin(), logits.end()}, {first, first + 33}, 1e-5);
  }
  int sorted = 0;
  for (int n = 0; n < 729; n++) {
    std::vector<int32_t> digits, got;
    for (int i = 0, rest = n; i < 6; i++, rest /= 3) digits.push_back(rest % 3);
    Prediction next = evaluator.evaluate(digits);
    while (got.size() < 6) {
      got.push_back(next.best.item<int32_t>());
      if (got.size() < 6) next = evaluator.append(got.back(), next.best);
    }
    std::sort(digits.begin(), digits.end());
    sorted += got == digits;
  }
  CHECK(sorted == 729);
}

TEST_CASE("mixtures of experts by hand") {
  const std::vector<std::vector<double>> ones(3, std::vector<double>(8, 1.0));
  const double silu1 = sigmoid(1), silu2 = 2 * sigmoid(2), silu3 = 3 * sigmoid(3);
  SUBCASE("two experts equally") {
    test::ModelData m = diagonal_experts({1, 2, 3, 4}, {1, 1, 1, 1}, {2, 0, 2, 0});
    m.metadata["test.expert_weights_norm"] = true;
    for (const auto& row : test::reference_experts(m, 0, ones))
      check_close(row, std::vector<double>(8, (silu1 + silu3) / 2), 1e-12);
    const auto square = [](int64_t out, int64_t in, double factor) {
      test::Weight w{{out, in}, std::vector<double>(static_cast<size_t>(out * in))};
      for (int64_t i = 0; i < std::min(out, in); i++) w.values[static_cast<size_t>(i * in + i)] = factor;
      return w;
    };
    m.weights["blk.0.ffn_gate_shexp.weight"] = square(16, 8, 2),
    m.weights["blk.0.ffn_up_shexp.weight"] = square(16, 8, 1);
    m.weights["blk.0.ffn_down_shexp.weight"] = square(8, 16, 1);
    m.weights["blk.0.ffn_gate_inp_shexp.weight"] = {{8}, std::vector<double>(8)};
    for (const auto& row : test::reference_experts(m, 0, ones))
      check_close(row, std::vector<double>(8, (silu1 + silu3) / 2 + silu2 * 0.5), 1e-12);
  }
  SUBCASE("gating") {
    const double all = std::exp(4) + std::exp(3) + 1 + std::exp(-1);
    const double p[] = {std::exp(4) / all, std::exp(3) / all};
    const double soft[] = {std::sqrt(std::log1p(std::exp(4))), std::sqrt(std::log1p(std::exp(3)))};
    const double s[] = {sigmoid(4), sigmoid(3)};
    const auto check = [&](int64_t gating, bool norm, double w0, double w1) {
      test::ModelData m = diagonal_experts({1, 1, 1, 1}, {1, 2, 3, 4}, {4, 3, 0, -1});
      m.metadata["test.expert_gating_func"] = gating, m.metadata["test.expert_weights_norm"] = norm;
      check_close(test::reference_experts(m, 0, ones)[0], std::vector<double>(8, (w0 + 2 * w1) * sigmoid(1)),
                  1e-12);
    };
    check(1, false, p[0], p[1]), check(1, true, sigmoid(1), sigmoid(-1));
    check(2, false, s[0], s[1]), check(2, true, s[0] / (s[0] + s[1]), s[1] / (s[0] + s[1]));
    check(3, false, sigmoid(1), sigmoid(-1)), check(3, true, sigmoid(1), sigmoid(-1));
    check(4, false, soft[0], soft[1]),
        check(4, true, soft[0] / (soft[0] + soft[1]), soft[1] / (soft[0] + soft[1]));
  }
  SUBCASE("ties, corrections and groups") {
    test::ModelData m = diagonal_experts({1, 1, 1, 1}, {1, 10, 100, 1000}, {0, 0, 0, 0});
    m.metadata["test.expert_gating_func"] = int64_t{2};
    const auto value = [&] { return test::reference_experts(m, 0, ones)[0][0] / sigmoid(1); };
    CHECK(value() == doctest::Approx(0.5 * 11));  // ties: the first two
    m.weights["blk.0.exp_probs_b.bias"] = {{4}, {0, 0.1, 0, 0.2}};
    CHECK(value() == doctest::Approx(0.5 * 1010));  // the choice, not the weights
    m.metadata["test.expert_group_count"] = int64_t{2},
    m.metadata["test.expert_group_used_count"] = int64_t{1};
    CHECK(value() == doctest::Approx(0.5 * 1100));  // of the second group, whose sum is larger
    m.metadata["test.expert_weights_scale"] = 3.0;
    CHECK(value() == doctest::Approx(1.5 * 1100));
  }
}

TEST_CASE("random models of every family have a reference") {
  const std::vector<int32_t> tokens = {1, 7, 300, 42, 42, 9, 260, 3, 100, 11, 12, 13};
  for (const std::string& family : test::random_families()) {
    CAPTURE(family);
    const test::ModelData model = test::random_model(test::random_model_spec(family), 1);
    const auto logits = test::reference_logits(model, tokens, 256);
    const auto prefix = test::reference_logits(model, std::span(tokens).first(5), 256);
    double size = 0;
    for (const auto& row : logits)
      for (double v : row) size = std::isfinite(v) ? std::max(size, std::abs(v)) : 1e9;
    CHECK(size > 0.5);
    CHECK(size < 100);
    for (size_t t = 0; t < 5; t++) check_close(prefix[t], logits[t], 1e-12);  // causal
  }
}

TEST_CASE("a combined matrix of keys and values is the two of it") {
  const test::ModelData old = test::random_model(test::random_model_spec("deepseek2-combined"), 3);
  test::ModelData split = old;
  for (int64_t layer = 0; layer < 3; layer++) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const test::Weight both = old.weights.at(prefix + "attn_kv_b.weight");  // (heads × (16 + 16), 32)
    test::Weight k{{4, 32, 16}, std::vector<double>(4 * 32 * 16)},
        v{{4, 16, 32}, std::vector<double>(4 * 32 * 16)};
    for (size_t h = 0; h < 4; h++)
      for (size_t i = 0; i < 16; i++)
        for (size_t r = 0; r < 32; r++) {
          k.values[(h * 32 + r) * 16 + i] = both.values[(h * 32 + i) * 32 + r];
          v.values[(h * 16 + i) * 32 + r] = both.values[(h * 32 + 16 + i) * 32 + r];
        }
    split.weights.erase(prefix + "attn_kv_b.weight");
    split.weights[prefix + "attn_k_b.weight"] = k, split.weights[prefix + "attn_v_b.weight"] = v;
  }
  const std::vector<int32_t> tokens = {1, 7, 300, 42};
  const auto a = test::reference_logits(old, tokens), b = test::reference_logits(split, tokens);
  for (size_t t = 0; t < 4; t++) check_close(a[t], b[t], 1e-12);
}
