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

EvaluatorOptions options_of(KvType kv_type, int64_t context = kContext) {
  return {.context = context, .chunk = kChunk, .kv_type = kv_type};
}

struct Tiny {
  explicit Tiny(const std::string& family, int64_t context = kContext)
      : bytes(test::random_gguf(test::random_model_spec(family), 3, GgmlType::F32).to_bytes()),
        model(std::make_shared<const GgufFile>(
                  GgufFile::parse(std::as_bytes(std::span(bytes)), family).or_throw()),
              "", context, cache_positions({.context = context, .chunk = 2048})) {}
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

// A context that caches of windows of 8 positions do not hold, so that they slide.
constexpr int64_t kLong = 2000;

TEST_CASE("caches of windows hold the last positions only, and the logits stay") {
  for (const char* family : {"gemma3", "gpt-oss", "mistral"}) {
    INFO(family);
    const Tiny tiny(family, kLong);
    EvaluatorOptions whole = options_of(KvType::F32, kLong);
    whole.chunk = 2048;  // caches hold at least two calls
    Evaluator slides(tiny.model, options_of(KvType::F32, kLong)), holds(tiny.model, whole);
    CHECK(window_cache(8, slides.options()).kept > 0);
    CHECK(window_cache(8, whole).kept == 0);
    CHECK(state_bytes(slides.state()) < state_bytes(holds.state()) * 3 / 4);
    std::mt19937 random(7);
    const Ids text = some(random, kLong);
    const std::vector<float> a = slides.all_logits(text), b = holds.all_logits(text);
    REQUIRE(a.size() == b.size());
    double worst = 0, largest = 0;
    for (size_t i = 0; i < a.size(); i++) {
      worst = std::max<double>(worst, std::abs(a[i] - b[i]));
      largest = std::max<double>(largest, std::abs(a[i]));
    }
    CHECK(worst < 1e-4 * largest);
  }
}

TEST_CASE("logits after any history are those of a fresh run where windows have slid") {
  const Tiny tiny("gemma3", kLong);
  Evaluator used(tiny.model, options_of(KvType::F16, kLong)),
      fresh(tiny.model, options_of(KvType::F16, kLong));
  std::mt19937 random(8);
  Ids text;
  int64_t most = 0, all = 0;
  for (int i = 0; i < 25; i++) {
    // Cut back by any length, most often by a little, and longer again.
    const size_t cut = random() % 3 ? random() % 20 : random() % (text.size() / kChunk + 1);
    text.resize(text.size() / kChunk * kChunk - std::min(text.size() / kChunk, cut) * kChunk);
    const size_t more = std::min<size_t>((1 + random() % 40) * kChunk + 1, kLong - 8 - text.size());
    for (const int32_t id : some(random, more / kChunk * kChunk + 1)) text.push_back(id);
    int64_t reused = 0;
    const std::vector<float> got = used.evaluate(text, &reused).logits.to_vector<float>();
    fresh.clear();
    REQUIRE(got == logits_of(fresh, text));
    most = std::max(most, reused), all += reused > 0;
    for (size_t n = random() % 3; n > 0; n--) used.append(static_cast<int32_t>(random() % 320));
  }
  CHECK(most > 600);
  CHECK(all > 15);
}

TEST_CASE("how far a text with windows is cut back") {
  const Tiny tiny("gemma3", kLong);
  EvaluatorOptions options = options_of(KvType::F16, kLong);
  std::mt19937 random(9);
  const Ids text = some(random, 1001);
  const auto until = [&](size_t n) {
    Ids out(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
    out.push_back(5), out.push_back(6);
    return out;
  };
  for (const int64_t checkpoints : {0, 4}) {
    options.checkpoints = checkpoints;
    Evaluator e(tiny.model, options);
    CHECK(reused_by(e, text) == 0);
    CHECK(reused_by(e, until(990)) == 990);  // the window is there still
    CHECK(reused_by(e, until(300)) == 0);    // it is not, nor is a copy
    CHECK(reused_by(e, text) == 300);
    for (int i = 0; i < 900; i++) e.append(7);             // it slides on
    CHECK(reused_by(e, text) == (checkpoints ? 996 : 0));  // from the copy before the last call
  }
  options.checkpoint_bytes = 1000;  // less than a copy takes
  Evaluator e(tiny.model, options);
  CHECK(reused_by(e, text) == 0);
  for (int i = 0; i < 900; i++) e.append(7);
  CHECK(reused_by(e, text) == 0);
}

TEST_CASE("a prefill that is cancelled leaves a state that is known") {
  for (const char* family : {"llama", "qwen35", "gemma3"}) {
    INFO(family);
    const Tiny tiny(family, kLong);
    const EvaluatorOptions options = options_of(KvType::F16, kLong);
    Evaluator used(tiny.model, options), fresh(tiny.model, options);
    used.warm();
    std::mt19937 random(2);
    Ids text = some(random, 60 * kChunk);  // windows have moved
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

TEST_CASE("a first call that is cancelled leaves nothing behind") {
  const Tiny tiny("llama");
  Evaluator used(tiny.model, options_of(KvType::F16)), fresh(tiny.model, options_of(KvType::F16));
  used.evaluate(Ids{1, 2, 3, 4, 5, 6, 7, 8});
  cancel();
  CHECK_THROWS_AS(used.append(9), Cancelled);  // the graph of one row is not captured yet
  used.clear();
  for (const Ids& text : {Ids{5}, Ids{5, 6}, Ids{7, 8, 9}})
    CHECK(logits_of(used, text) == logits_of(fresh, text));
}

TEST_CASE("what is warm neither schedules nor compiles") {
  for (const char* family : {"llama", "qwen35", "gemma3"}) {
    INFO(family);
    const Tiny tiny(family, kLong);
    Evaluator evaluator(tiny.model, options_of(KvType::F16, kLong));
    evaluator.warm();
    CHECK(evaluator.live().empty());
    std::mt19937 random(4);
    reset_counters();
    for (const size_t n : {1, 2, 7, 8, 9, 30, 600, 60, 5}) {
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
