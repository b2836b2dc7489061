#include "support/model_check.h"

#include "base/knobs.h"
#include "llm/evaluator.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "support/model_file.h"
#include "support/reference_model.h"
#include "support/test.h"

namespace lathe::test {
namespace {

constexpr int64_t kContext = 64;
constexpr uint64_t kSeed = 5;

std::vector<int32_t> random_tokens(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> out(n);
  for (int32_t& t : out) t = static_cast<int32_t>(random() % 320);
  return out;
}

// The largest difference of logits, of which there may be fewer rows than in the reference: those from
// `first` on.
double worst(const std::vector<float>& got, const std::vector<std::vector<double>>& want, size_t first = 0) {
  const size_t n = want[0].size();
  REQUIRE(got.size() % n == 0);
  double out = 0;
  for (size_t i = 0; i < got.size(); i++) {
    const double difference = std::abs(got[i] - want[first + i / n][i % n]);
    out = std::isfinite(difference) ? std::max(out, difference) : 1e9;
  }
  return out;
}

EvaluatorOptions options(int64_t chunk) {
  return {.context = kContext, .chunk = chunk, .kv_type = KvType::F32};
}

void check_reuse(const Model& model, double tolerance) {
  Evaluator used(model, options(8)), fresh(model, options(8));
  std::vector<int32_t> text = random_tokens(9, 3);
  const auto both = [&](const std::vector<int32_t>& tokens) {
    fresh.clear();
    const std::vector<float> a = used.evaluate(tokens).logits.to_vector<float>();
    // What was not reused went in the same calls in both only where a call ends at the front.
    const std::vector<float> b = fresh.evaluate(tokens).logits.to_vector<float>();
    double difference = 0;
    for (size_t i = 0; i < a.size(); i++)
      difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
    return difference;
  };
  CHECK(both(text) == 0);
  CHECK(both(text) < tolerance);  // all of it again: the last token goes alone
  for (int32_t t : random_tokens(8, 4)) text.push_back(t);
  CHECK(both(text) < tolerance);  // longer
  text[11] += text[11] == 0 ? 1 : -1;
  CHECK(both(text) < tolerance);  // another end
  text[0] ^= 1;
  CHECK(both(text) == 0);  // nothing shared
}

}  // namespace

void check_family(const std::string& family, const FamilyCheck& check) {
  CAPTURE(family);
  CAPTURE(type_info(check.type).name);
  const KnobScope int8(Knob::INT8_ACTIVATIONS, check.int8_activations);
  const std::string bytes = random_gguf(random_model_spec(family), kSeed, check.type).to_bytes();
  const auto file =
      std::make_shared<const GgufFile>(GgufFile::parse(std::as_bytes(std::span(bytes)), family).or_throw());
  const std::vector<int32_t> tokens = random_tokens(21, 1);
  const auto want = reference_logits(read_model(*file), tokens, kContext);
  const Model model(file, "", kContext, cache_positions(options(32)));
  for (const int64_t chunk : {1, 8, 32}) {
    CAPTURE(chunk);
    Evaluator evaluator(model, options(chunk));
    CHECK(worst(evaluator.all_logits(tokens), want) < check.tolerance);
  }
  Evaluator evaluator(model, options(8));
  CHECK(worst(evaluator.evaluate(std::span(tokens).first(12)).logits.to_vector<float>(), want, 11) <
        check.tolerance);
  for (size_t i = 12; i < tokens.size(); i++)
    CHECK(worst(evaluator.append(tokens[i]).logits.to_vector<float>(), want, i) < check.tolerance);
  check_reuse(model, check.tolerance);
}

}  // namespace lathe::test
