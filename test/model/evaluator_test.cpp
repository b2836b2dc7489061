// State of models between texts: what is reused, what survives an error, what is compiled when.
#include "llm/evaluator.h"

#include "engine/cancel.h"
#include "engine/counters.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "support/model_file.h"
#include "support/test.h"

using namespace lathe;

namespace {

constexpr int64_t kContext = 96, kChunk = 8;
using Ids = std::vector<int32_t>;

EvaluatorOptions options_of(KvType kv_type) {
  return {.context = kContext, .chunk = kChunk, .kv_type = kv_type};
}

struct Tiny {
  explicit Tiny(const std::string& family)
      : bytes(test::random_gguf(test::random_model_spec(family), 3, GgmlType::F32).to_bytes()),
        model(std::make_shared<const GgufFile>(
                  GgufFile::parse(std::as_bytes(std::span(bytes)), family).or_throw()),
              "", kContext, cache_positions(options_of(KvType::F32))) {}
  std::string bytes;
  Model model;
};

Ids some(std::mt19937& random, size_t n) {
  Ids out(n);
  for (int32_t& id : out) id = static_cast<int32_t>(random() % 320);
  return out;
}
std::vector<float> logits_of(Evaluator& evaluator, const Ids& text) {
  return evaluator.evaluate(text).logits.to_vector<float>();
}
int64_t reused_by(Evaluator& evaluator, const Ids& text) {
  int64_t out = -1;
  evaluator.evaluate(text, &out);
  return out;
}
// Texts of whole chunks and one token more, so that runs with and without reuse make the same calls.
Ids next_text(const Ids& before, std::mt19937& random) {
  const size_t shared = before.empty() ? 0 : random() % (before.size() / kChunk + 1) * kChunk;
  Ids out(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(shared));
  const size_t chunks = out.size() / kChunk + random() % 4;
  for (int32_t id : some(random, chunks * kChunk + 1 - out.size())) out.push_back(id);
  return out;
}

}  // namespace

TEST_CASE("logits after any history are those of a fresh run, bit for bit") {
  struct Row {
    const char* family;
    KvType kv_type;
  };
  for (const Row& row : {Row{"llama", KvType::F16}, Row{"qwen3", KvType::F32}, Row{"gemma3", KvType::F16},
                         Row{"deepseek2", KvType::F16}, Row{"qwen35", KvType::F16},
                         Row{"kimi-linear", KvType::F16}, Row{"mamba2", KvType::F16}}) {
    INFO(row.family);
    const Tiny tiny(row.family);
    Evaluator used(tiny.model, options_of(row.kv_type)), fresh(tiny.model, options_of(row.kv_type));
    std::mt19937 random(1);
    Ids text;
    for (int i = 0; i < 12; i++) {
      text = next_text(text, random);
      fresh.clear();
      REQUIRE(logits_of(used, text) == logits_of(fresh, text));
      REQUIRE(Ids(used.live().begin(), used.live().end()) == text);
      for (size_t n = random() % 3; n > 0; n--) used.append(static_cast<int32_t>(random() % 320));
    }
  }
}

TEST_CASE("how much of a text is reused") {
  const Tiny plain("llama"), recurrent("kimi-linear");
  Evaluator a(plain.model, options_of(KvType::F16)), r(recurrent.model, options_of(KvType::F16));
  for (Evaluator* e : {&a, &r}) CHECK(reused_by(*e, {1, 2, 3, 4, 5}) == 0);
  for (Evaluator* e : {&a, &r}) e->append(42);
  CHECK(reused_by(a, {1, 2, 3, 4, 5, 42, 42, 10}) == 6);
  CHECK(reused_by(r, {1, 2, 3, 4, 5, 42, 42, 10}) == 6);  // goes on exactly where the state is
  CHECK(reused_by(a, {1, 2, 3, 4, 5, 42, 7, 8}) == 6);
  CHECK(reused_by(r, {1, 2, 3, 4, 5, 7, 8}) == 5);  // from the end of the first prompt
  CHECK(reused_by(a, {1, 2, 3, 4, 5, 42}) == 5);    // the last token is evaluated all the same
  CHECK(reused_by(r, {1, 2, 3}) == 0);
  CHECK(reused_by(a, {1, 2, 9, 9}) == 2);
  CHECK(reused_by(a, {10, 20, 30}) == 0);
  CHECK(reused_by(r, {1, 2, 10, 11}) == 0);
}

TEST_CASE("a prefill that is cancelled leaves a state that is known") {
  for (const char* family : {"llama", "qwen35"}) {
    INFO(family);
    const Tiny tiny(family);
    Evaluator used(tiny.model, options_of(KvType::F16)), fresh(tiny.model, options_of(KvType::F16));
    used.warm();
    std::mt19937 random(2);
    Ids text = next_text({}, random);
    int cancelled = 0;
    for (int i = 0; i < 20; i++) {
      text = next_text(text, random);
      std::atomic<bool> begun = false;
      std::thread other([&begun, wait = std::chrono::microseconds(random() % 300)] {
        while (!begun) std::this_thread::yield();
        const auto start = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - start < wait) std::this_thread::yield();
        cancel();
      });
      if (i % 4 == 0) cancel();
      begun = true;
      try {
        used.evaluate(text);
      } catch (const Cancelled&) {
        cancelled++;
      }
      other.join();
      try {
        stop_if_cancelled();
      } catch (const Cancelled&) {
      }
      const std::span<const int32_t> live = used.live();
      REQUIRE(live.size() <= text.size());
      CHECK(std::equal(live.begin(), live.end(), text.begin()));
      fresh.clear();
      REQUIRE(logits_of(used, text) == logits_of(fresh, text));
    }
    CHECK(cancelled > 0);
  }
}

TEST_CASE("what is warm neither schedules nor compiles") {
  for (const char* family : {"llama", "qwen35"}) {
    INFO(family);
    const Tiny tiny(family);
    Evaluator evaluator(tiny.model, options_of(KvType::F16));
    evaluator.warm();
    CHECK(evaluator.live().empty());
    std::mt19937 random(4);
    reset_counters();
    for (const size_t n : {1, 2, 7, 8, 9, 30, 60, 5}) {
      Ids text = some(random, n);
      Prediction out = evaluator.evaluate(text);
      for (int i = 0; i < 3; i++) {
        text.push_back(out.best.item<int32_t>());
        out = evaluator.append(text.back(), out.best);
      }
      text.push_back(3);
      evaluator.evaluate(text);
    }
    CHECK(counters().schedules == 0);
    CHECK(counters().compiled == 0);
  }
}

TEST_CASE("the calls of a prefill") {
  using Calls = std::vector<std::pair<int64_t, int64_t>>;
  const Tiny tiny("llama");
  EvaluatorOptions options = options_of(KvType::F16);
  CHECK(Evaluator(tiny.model, options).calls(20) == Calls{{8, 8}, {8, 8}, {8, 4}});
  options.chunk = 1;
  CHECK(Evaluator(tiny.model, options).calls(2) == Calls{{1, 1}, {1, 1}});
  options.chunk = 100;
  CHECK(Evaluator(tiny.model, options).calls(41) == Calls{{32, 32}, {32, 9}});
}

TEST_CASE("caches of narrow numbers") {
  const Tiny tiny("llama");
  std::mt19937 random(5);
  const Ids text = some(random, 40);
  Evaluator exact(tiny.model, options_of(KvType::F32)), half(tiny.model, options_of(KvType::F16));
  const std::vector<float> wanted = logits_of(exact, text), got = logits_of(half, text);
  double worst = 0, largest = 0;
  for (size_t i = 0; i < wanted.size(); i++) {
    worst = std::max<double>(worst, std::abs(wanted[i] - got[i]));
    largest = std::max<double>(largest, std::abs(wanted[i]));
  }
  CHECK(worst > 0);
  CHECK(worst < 2e-3 * largest);
  CHECK(state_bytes(half.state()) * 2 == state_bytes(exact.state()));
}

TEST_CASE("texts that no model takes") {
  const Tiny tiny("llama");
  Evaluator evaluator(tiny.model, options_of(KvType::F16));
  CHECK_THROWS_WITH_AS(evaluator.evaluate({}), doctest::Contains("no tokens"), UserError);
  CHECK_THROWS_WITH_AS(evaluator.evaluate(Ids{1, 320}), doctest::Contains("token 320"), UserError);
  CHECK_THROWS_WITH_AS(evaluator.evaluate(Ids(97, 1)), doctest::Contains("97 tokens"), UserError);
  evaluator.evaluate(Ids(96, 1));
  CHECK_THROWS_WITH_AS(evaluator.append(1), doctest::Contains("full"), UserError);
}
