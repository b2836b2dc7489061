// Models from files against what is known of them.
#include "llm/language_model.h"

#include "base/knobs.h"
#include "formats/gguf/gguf.h"
#include "llm/embedded_model.h"
#include "llm/evaluator.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include "support/data.h"
#include "support/test.h"

using namespace lathe;

namespace {

template <class T>
std::vector<T> numbers_in(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

struct Loaded {
  explicit Loaded(const std::filesystem::path& path, EvaluatorOptions options)
      : model(std::make_shared<const GgufFile>(GgufFile::open(path.string()).or_throw()), options.device,
              options.context, cache_positions(options)),
        evaluator(model, options) {}
  Model model;
  Evaluator evaluator;
};

}  // namespace

TEST_CASE("stories260K continues as published") {
  const auto folder = test::data_folder("llm");
  if (!folder) return;
  const std::filesystem::path at = *folder / "stories260K";
  const std::vector<int32_t> ids = numbers_in<int32_t>(at / "golden_greedy_ids.i32");
  const std::vector<float> logits = numbers_in<float>(at / "golden_greedy_logits.f32");
  Loaded m(at / "stories260K-f32.gguf", {.context = 512, .kv_type = KvType::F32});
  Prediction out = m.evaluator.evaluate({ids.data(), 1});
  double worst = 0;
  for (size_t i = 0; i < 256; i++) {
    const std::vector<float> got = out.logits.to_vector<float>();
    for (size_t j = 0; j < got.size(); j++)
      worst = std::max<double>(worst, std::abs(got[j] - logits[i * got.size() + j]));
    REQUIRE(out.best.item<int32_t>() == ids[i + 1]);
    if (i < 255) out = m.evaluator.append(ids[i + 1], out.best);
  }
  CHECK(worst < 1e-4);
}

TEST_CASE("stories260K in narrower weights") {
  const auto folder = test::data_folder("llm");
  if (!folder) return;
  const std::filesystem::path at = *folder / "stories260K";
  const std::vector<int32_t> ids = numbers_in<int32_t>(at / "golden_greedy_ids.i32");
  const std::vector<float> logits = numbers_in<float>(at / "golden_greedy_logits.f32");
  // How many tokens are the same, and how far logits before the first of the others are off; what the data
  // says of these files, and of programs that round activations.
  const auto follow = [&](const char* name, int int8_activations, size_t same, double tolerance) {
    INFO(name);
    const KnobScope knob(Knob::INT8_ACTIVATIONS, int8_activations);
    Loaded m(at / name, {.context = 512, .kv_type = KvType::F32});
    Prediction out = m.evaluator.evaluate({ids.data(), 1});
    double worst = 0;
    for (size_t i = 0; i < same; i++) {
      const std::vector<float> got = out.logits.to_vector<float>();
      for (size_t j = 0; j < got.size(); j++)
        worst = std::max<double>(worst, std::abs(got[j] - logits[i * got.size() + j]));
      REQUIRE(out.best.item<int32_t>() == ids[i + 1]);
      if (i + 1 < same) out = m.evaluator.append(ids[i + 1], out.best);
    }
    CHECK(worst < tolerance);
  };
  follow("stories260K-F16.gguf", 1, 256, 0.0125);
  follow("stories260K-Q4_K_M.gguf", 0, 73, 10);
  follow("stories260K-Q4_K_M.gguf", 1, 39, 10);
}

TEST_CASE("a cache of int8 blocks gives nearly the same log-probabilities") {
  LanguageModel half = load_language_model("", {.context = 160}),
                packed = load_language_model("", {.context = 160, .kv_type = KvType::Q8_0});
  // Of 32 numbers, 64 bytes and 34.
  CHECK(packed.state_bytes() * 64 == half.state_bytes() * 34);
  const std::vector<int32_t> text = half.tokenizer().encode(
      "It was a cold morning, and the old man sat by the window of his house, looking at the road that led "
      "down to the river. He had not slept.");
  const std::vector<float> a = half.logits(text), b = packed.logits(text);
  const size_t n = a.size() / text.size();
  double worst = 0, sum = 0;
  for (size_t i = 0; i + 1 < text.size(); i++) {
    const auto logprob = [&](const std::vector<float>& logits) {
      const std::span<const float> row(logits.data() + i * n, n);
      return row[static_cast<size_t>(text[i + 1])] - log_sum_exp(row);
    };
    const double off = std::abs(logprob(a) - logprob(b));
    worst = std::max(worst, off), sum += off;
  }
  CHECK(worst > 0);
  CHECK(worst < 0.1);
  CHECK(sum / static_cast<double>(text.size()) < 0.02);
}

TEST_CASE("a prompt goes on as text") {
  const auto folder = test::data_folder("llm");
  if (!folder) return;
  const std::filesystem::path at = *folder / "stories260K";
  std::ifstream in(at / "expected_greedy.txt");
  const std::string wanted((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  LanguageModel model = LanguageModel::load((at / "stories260K-f32.gguf").string(), {.context = 512});
  const std::vector<int32_t> prompt = model.tokenizer().encode("Once upon a time");
  StreamDecoder decoder(model.tokenizer(), {}, true);
  std::string text = "Once upon a time";
  GenerateOptions options;
  options.max_tokens = 100;
  const GenerateResult first = model.generate(prompt, options, [&](const GeneratedToken& token) {
    text += decoder.push(token.id);
    return true;
  });
  CHECK(text.size() > 150);
  CHECK(wanted.substr(0, text.size()) == text);
  CHECK(first.reason == StopReason::Length);
  CHECK(first.cached_tokens == 0);
  // What was generated is not evaluated again; what the callback refuses is the last.
  std::vector<int32_t> longer = prompt;
  longer.insert(longer.end(), first.ids.begin(), first.ids.begin() + 20);
  options.top_logprobs = 2;
  std::vector<float> logprobs;
  const GenerateResult second = model.generate(longer, options, [&](const GeneratedToken& token) {
    logprobs.push_back(token.logprob);
    CHECK(token.top.size() == 2);
    CHECK(token.top[0].token == token.id);
    CHECK(token.top[0].logprob == token.logprob);
    CHECK(token.top[1].logprob <= token.logprob);
    return logprobs.size() < 5;
  });
  CHECK(second.cached_tokens == static_cast<int64_t>(longer.size()) - 1);
  CHECK(second.reason == StopReason::Callback);
  CHECK(second.ids == std::vector<int32_t>(first.ids.begin() + 20, first.ids.begin() + 25));
}

TEST_CASE("sampled texts follow from the seed") {
  const auto folder = test::data_folder("llm");
  if (!folder) return;
  LanguageModel model =
      LanguageModel::load((*folder / "stories260K" / "stories260K-F16.gguf").string(), {.context = 64});
  const std::vector<int32_t> prompt{1};
  GenerateOptions options;
  options.max_tokens = 20;
  options.sampling.temperature = 1;
  const auto drawn = [&](uint64_t seed) {
    options.sampling.seed = seed;
    return model.generate(prompt, options).ids;
  };
  const std::vector<int32_t> one = drawn(1), two = drawn(2);
  CHECK(one != two);
  CHECK(drawn(1) == one);
  // A mask that leaves one token leaves no choice.
  options.mask = [](std::span<float> logits) {
    for (size_t i = 0; i < logits.size(); i++)
      if (i != 300) logits[i] = -INFINITY;
  };
  CHECK(drawn(1) == std::vector<int32_t>(20, 300));
  // The context is full after 64 tokens.
  options.mask = nullptr, options.max_tokens = -1, options.stop_at_end = false;
  CHECK(drawn(3).size() == 64);
}
