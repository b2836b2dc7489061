// Each step of sampling beside its formula, on small distributions that are drawn from often.
#include "llm/sampling.h"

#include "llm/tokenizer/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "support/test.h"

using namespace lathe;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const std::vector<float> kLogits = {1.5f, -0.5f, 3.0f, 2.9f, 0.1f, 2.2f, -4.0f, 1.4f, 2.2f, 0.7f};

std::vector<double> softmax(const std::vector<double>& logits, double t = 1) {
  double top = -HUGE_VAL, sum = 0;
  for (const double x : logits) top = std::max(top, x);
  std::vector<double> p;
  for (const double x : logits) sum += p.emplace_back(std::exp((x - top) / t));
  for (double& x : p) x /= sum;
  return p;
}

std::vector<double> wide(const std::vector<float>& v) { return {v.begin(), v.end()}; }

// Ids in ascending order of a key.
std::vector<size_t> sorted_by(size_t count, const std::function<double(size_t)>& key) {
  std::vector<size_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(),
            [&](size_t a, size_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  return ids;
}

// The distribution that is left when all but `kept` are ruled out.
std::vector<double> only(const std::vector<double>& p, const std::vector<size_t>& kept) {
  std::vector<double> out(p.size(), 0);
  double sum = 0;
  for (const size_t i : kept) sum += out[i] = p[i];
  for (double& x : out) x /= sum;
  return out;
}

std::vector<size_t> until_mass(const std::vector<size_t>& order, const std::vector<double>& p, double mass) {
  std::vector<size_t> out;
  double sum = 0;
  for (const size_t i : order) {
    out.push_back(i);
    if ((sum += p[i]) >= mass) break;
  }
  return out;
}

// Draws often, with the same logits each time, and compares frequencies; what has no probability never comes.
void check_distribution(const SamplingOptions& options, const std::vector<double>& expected,
                        const std::vector<float>& logits = kLogits, int draws = 20000) {
  Sampler sampler(options);
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < draws; i++) {
    std::vector<float> copy = logits;
    counts.at(static_cast<size_t>(sampler.sample(copy)))++;
  }
  for (size_t i = 0; i < expected.size(); i++) {
    CAPTURE(i);
    const double deviation = std::sqrt(expected[i] * (1 - expected[i]) * draws);
    CHECK(std::abs(counts[i] - expected[i] * draws) <= 5 * deviation + 1e-9);
    if (expected[i] * draws > 20) CHECK(counts[i] > 0);
  }
}

SamplingOptions warm(float temperature = 1) {
  SamplingOptions o;
  o.temperature = temperature;
  o.seed = 42;
  return o;
}

// The logits after penalties, read off a greedy sampler that changes them in place.
std::vector<float> penalized(SamplingOptions options, const std::vector<int32_t>& history,
                             std::vector<float> logits) {
  options.temperature = 0;
  Sampler sampler(options);
  for (const int32_t id : history) sampler.accept(id);
  (void)sampler.sample(logits);
  return logits;
}

}  // namespace

TEST_CASE("greedy") {
  SamplingOptions o;
  CHECK(o.is_plain_greedy());
  std::vector<float> logits = kLogits;
  CHECK(Sampler(o).sample(logits) == 2);
  logits = {1, 5, 5, 0};
  CHECK(Sampler(o).sample(logits) == 1);
  o.logit_bias = {{3, 100}};
  CHECK(!o.is_plain_greedy());
  CHECK(Sampler(o).sample(logits) == 3);
  o.logit_bias = {{1, -kInf}};
  logits = {1, 5, 5, 0};
  CHECK(Sampler(o).sample(logits) == 2);
}

TEST_CASE("temperature") {
  for (const float t : {0.5f, 1.0f, 2.0f})
    check_distribution(warm(t), softmax(wide(kLogits), static_cast<double>(t)));
  check_distribution(warm(1e-40f), softmax(wide(kLogits), 1e-6));
  const std::vector<float> some = {1, -kInf, 2, -kInf};
  check_distribution(warm(), softmax({1, -HUGE_VAL, 2, -HUGE_VAL}), some);
}

TEST_CASE("what is kept") {
  const auto p = softmax(wide(kLogits));
  const auto by_p = sorted_by(p.size(), [&](size_t i) { return -p[i]; });
  SUBCASE("top-k") {
    SamplingOptions o = warm();
    o.top_k = 4;
    check_distribution(o, only(p, {by_p[0], by_p[1], by_p[2], by_p[3]}));
    o.top_k = 1;
    check_distribution(o, only(p, {2}));
  }
  SUBCASE("top-p") {
    SamplingOptions o = warm();
    for (const float mass : {0.01f, 0.3f, 0.6f, 0.9f}) {
      o.top_p = mass;
      check_distribution(o, only(p, until_mass(by_p, p, static_cast<double>(mass))));
    }
  }
  SUBCASE("min-p") {
    SamplingOptions o = warm();
    o.min_p = 0.2f;
    std::vector<size_t> kept;
    for (size_t i = 0; i < p.size(); i++)
      if (p[i] >= 0.2 * p[2]) kept.push_back(i);
    CHECK(kept.size() == 6);
    check_distribution(o, only(p, kept));
  }
  SUBCASE("typical") {
    double entropy = 0;
    for (const double x : p) entropy -= x * std::log(x);
    SamplingOptions o = warm();
    o.typical_p = 0.5f;
    const auto order = sorted_by(p.size(), [&](size_t i) { return std::abs(-std::log(p[i]) - entropy); });
    CHECK(order[0] != by_p[0]);
    check_distribution(o, only(p, until_mass(order, p, 0.5)));
  }
  SUBCASE("top-n-sigma") {
    double mean = 0, variance = 0;
    for (const float x : kLogits) mean += static_cast<double>(x) / 10;
    for (const float x : kLogits) variance += std::pow(static_cast<double>(x) - mean, 2) / 10;
    std::vector<size_t> kept;
    for (size_t i = 0; i < p.size(); i++)
      if (static_cast<double>(kLogits[i]) >= 3.0 - 0.5 * std::sqrt(variance)) kept.push_back(i);
    SamplingOptions o = warm();
    o.top_n_sigma = 0.5f;
    CHECK(kept.size() == 4);
    check_distribution(o, only(p, kept));
  }
  SUBCASE("XTC") {
    std::vector<size_t> above, kept;
    for (size_t i = 0; i < p.size(); i++) (p[i] >= 0.1 ? above : kept).push_back(i);
    CHECK(above.size() == 4);
    kept.push_back(
        *std::min_element(above.begin(), above.end(), [&](size_t a, size_t b) { return p[a] < p[b]; }));
    SamplingOptions o = warm();
    o.xtc_probability = 1;
    check_distribution(o, only(p, kept));
    o.xtc_probability = 0.25f;
    std::vector<double> mixed = only(p, kept);
    for (size_t i = 0; i < p.size(); i++) mixed[i] = 0.25 * mixed[i] + 0.75 * p[i];
    check_distribution(o, mixed);
  }
  SUBCASE("together, in order") {
    SamplingOptions o = warm(0.7f);
    o.top_k = 6;
    o.top_p = 0.9f;
    o.min_p = 0.3f;
    const auto six = only(p, {by_p.begin(), by_p.begin() + 6});
    std::vector<size_t> kept;
    for (const size_t i : until_mass(by_p, six, 0.9))
      if (p[i] >= 0.3 * p[2]) kept.push_back(i);
    check_distribution(o, only(softmax(wide(kLogits), 0.7), kept));
  }
}

TEST_CASE("dynamic temperature") {
  SamplingOptions o = warm(1);
  o.temperature_range = 0.5f;
  o.temperature_exponent = 2;
  const auto p = softmax(wide(kLogits));
  double entropy = 0;
  for (const double x : p) entropy -= x * std::log(x);
  const double t = 0.5 + (1.5 - 0.5) * std::pow(entropy / std::log(10.0), 2);
  check_distribution(o, softmax(wide(kLogits), t));
}

TEST_CASE("a large vocabulary is cut where a full sort would cut it") {
  std::vector<float> logits(3000);
  uint32_t x = 1;
  for (float& l : logits) l = static_cast<float>((x = x * 1664525 + 1013904223) >> 8) / (1 << 22) - 2;
  const auto p = softmax(wide(logits));
  const auto by_p = sorted_by(p.size(), [&](size_t i) { return -p[i]; });
  SamplingOptions o = warm();
  o.top_p = 0.6f;
  const auto kept = until_mass(by_p, p, 0.6);
  CHECK(kept.size() > 500);
  check_distribution(o, only(p, kept), logits, 12000);
}

TEST_CASE("penalties") {
  SamplingOptions o;
  o.repeat_penalty = 1.5f;
  o.frequency_penalty = 0.25f;
  o.presence_penalty = 0.5f;
  o.penalty_last = 4;
  const auto out = penalized(o, {0, 9, 2, 2, 1, 2}, kLogits);  // 0 and 9 are too long ago
  for (size_t i = 0; i < kLogits.size(); i++) {
    float expected = kLogits[i];
    if (i == 2) expected = kLogits[i] / 1.5f - 3 * 0.25f - 0.5f;
    if (i == 1) expected = kLogits[i] * 1.5f - 0.25f - 0.5f;
    CHECK(out[i] == doctest::Approx(expected));
  }
  o.penalty_last = -1;
  CHECK(penalized(o, {0, 9, 2, 2, 1, 2}, kLogits)[0] == doctest::Approx(1.5f / 1.5f - 0.75f));
  o.penalty_last = 0;
  CHECK(penalized(o, {2}, kLogits) == kLogits);
}

TEST_CASE("DRY") {
  // As defined: for every place of the history whose tokens before it agree with the end of the history.
  const auto reference = [](const std::vector<int32_t>& history, const SamplingOptions& o,
                            std::vector<float> logits) {
    std::map<int32_t, size_t> longest;
    const size_t n = history.size();
    for (size_t next = 1; next < n; next++) {
      size_t length = 0;
      while (length < next && history[next - 1 - length] == history[n - 1 - length] &&
             std::find(o.dry_breakers.begin(), o.dry_breakers.end(), history[n - 1 - length]) ==
                 o.dry_breakers.end())
        length++;
      longest[history[next]] = std::max(longest[history[next]], length);
    }
    for (const auto& [id, length] : longest)
      if (length >= static_cast<size_t>(o.dry_allowed_length))
        logits[static_cast<size_t>(id)] -=
            o.dry_multiplier *
            std::pow(o.dry_base, static_cast<float>(length) - static_cast<float>(o.dry_allowed_length));
    return logits;
  };
  SamplingOptions o;
  o.dry_multiplier = 0.8f;
  uint32_t x = 5;
  for (int round = 0; round < 300; round++) {
    std::vector<int32_t> history;
    for (int i = 0; i < 40; i++)
      history.push_back(static_cast<int32_t>((x = x * 1664525 + 1013904223) >> 16) % (2 + round % 3));
    o.dry_allowed_length = 1 + round % 4;
    o.dry_breakers = round % 2 ? std::vector<int32_t>{2} : std::vector<int32_t>{};
    const auto expected = reference(history, o, kLogits), got = penalized(o, history, kLogits);
    for (size_t i = 0; i < got.size(); i++) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
  o.dry_breakers.clear();
  const std::vector<int32_t> same(5000, 3);  // the penalty overflows no float, and 3 stays possible
  CHECK(std::isfinite(penalized(o, same, kLogits)[3]));
  o.dry_last = 3;
  o.dry_allowed_length = 2;
  CHECK(penalized(o, {1, 2, 3, 1, 2}, kLogits) == kLogits);
}

TEST_CASE("Mirostat 2") {
  SamplingOptions o = warm(1.3f);
  o.mirostat = 2;
  o.mirostat_tau = 1.5f;
  o.mirostat_eta = 0.3f;
  o.top_k = 1;  // of no effect
  Sampler sampler(o);
  double mu = 3, average = 0;
  const auto all = softmax(wide(kLogits), static_cast<double>(1.3f));
  for (int step = 0; step < 4000; step++) {
    std::vector<float> logits = kLogits;
    const auto id = static_cast<size_t>(sampler.sample(logits));
    std::vector<size_t> kept;
    for (size_t i = 0; i < all.size(); i++)
      if (-std::log2(all[i]) <= mu || i == 2) kept.push_back(i);
    const double p = only(all, kept)[id];
    REQUIRE(p > 0);
    mu -= static_cast<double>(0.3f) * (-std::log2(p) - 1.5);
    average -= std::log2(p) / 4000;
  }
  CHECK(average == doctest::Approx(1.5).epsilon(0.02));
}

TEST_CASE("draws follow from seed and step alone") {
  const auto sequence = [](uint64_t seed, bool interleave) {
    SamplingOptions o = warm(2);
    o.seed = seed;
    Sampler sampler(o), other(warm(2));
    std::vector<int32_t> out;
    for (int i = 0; i < 50; i++) {
      std::vector<float> logits = kLogits;
      if (interleave) (void)other.sample(logits);
      logits = kLogits;
      out.push_back(sampler.sample(logits));
    }
    return out;
  };
  CHECK(sequence(1, false) == sequence(1, true));
  CHECK(sequence(1, false) != sequence(2, false));
}

TEST_CASE("log-probabilities") {
  const auto p = softmax(wide(kLogits));
  const auto best = best_log_probabilities(kLogits, 3);
  REQUIRE(best.size() == 3);
  CHECK(best[0].first == 2);
  CHECK(best[1].first == 3);
  CHECK(best[2].first == 5);
  for (const auto& [id, logprob] : best)
    CHECK(logprob == doctest::Approx(std::log(p[static_cast<size_t>(id)])));
  CHECK(best_log_probabilities(kLogits, 99).size() == 10);
  CHECK(log_sum_exp(kLogits) == doctest::Approx(3.0 - std::log(p[2])));
  CHECK(log_sum_exp(std::vector<float>{1e30f, 1e30f}) == doctest::Approx(1e30));
}

TEST_CASE("options and logits that make no sense") {
  const auto error = [](const std::function<void(SamplingOptions&)>& change,
                        std::vector<float> logits = kLogits) {
    return std::string(test::user_error([&] {
                         SamplingOptions o = warm();
                         change(o);
                         (void)Sampler(o).sample(logits);
                       }).what());
  };
  CHECK(test::contains(error([](auto& o) { o.top_p = 1.5f; }), "top_p = 1.5 must be between 0 and 1"));
  CHECK(test::contains(error([](auto& o) { o.top_k = -1; }), "top_k = -1 must be 0 or more"));
  CHECK(test::contains(error([](auto& o) { o.mirostat = 1; }), "mirostat = 1 must be 0 or 2"));
  CHECK(test::contains(error([](auto& o) { o.temperature = std::nanf(""); }), "temperature = nan"));
  CHECK(test::contains(error([](auto& o) { o.repeat_penalty = 0; }), "repeat_penalty = 0 must be above 0"));
  CHECK(test::contains(error([](auto& o) { o.logit_bias = {{10, 1.f}}; }),
                       "logit_bias: token 10 is outside of the 10"));
  CHECK(test::contains(error([](auto&) {}, {-kInf, -kInf}), "none is finite"));
  CHECK(test::contains(error([](auto&) {}, {1, std::nanf("")}), "some are not a number"));
}

TEST_CASE("tokens that break repetitions") {
  Vocabulary v;
  v.tokens = {"a", "b\"", "Ċ", "c:d"};
  CHECK(tokens_with(Tokenizer(v), std::vector<std::string>{"\n", ":"}) == std::vector<int32_t>{2, 3});
}
