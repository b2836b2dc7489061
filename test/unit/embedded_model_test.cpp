#include "llm/embedded_model.h"

#include "base/error.h"
#include "formats/gguf/gguf.h"
#include "llm/likelihood.h"

#include <doctest/doctest.h>

using namespace lathe;

TEST_CASE("the embedded model reads, predicts, and is measured as its logits say") {
  CHECK(embedded_model_bytes().size() < 5'000'000);
  CHECK(embedded_model()->metadata().at<std::string>("general.architecture") == "llama");
  CHECK(embedded_model() == embedded_model());
  LanguageModel model = load_language_model("");
  const Tokenizer& tokenizer = model.tokenizer();
  const std::string text = "I was glad of it: I never liked long walks, especially on chilly afternoons.";
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  CHECK(tokenizer.decode(tokens) == text);

  SUBCASE("perplexity counts the second halves of windows") {
    LossMean wanted;
    const std::vector<float> logits = model.logits(std::span(tokens).first(8));
    const size_t vocabulary = logits.size() / 8;
    for (size_t at = 4; at < 7; at++)
      wanted.add(token_loss(std::span(logits).subspan(at * vocabulary, vocabulary), tokens[at + 1]));
    const LossMean one = measure_perplexity(model, tokens, 8, [](int64_t, const LossMean&) { return false; });
    CHECK(one.count() == 3);
    CHECK(one.perplexity() == doctest::Approx(wanted.perplexity()).epsilon(1e-6));
    const LossMean all = measure_perplexity(model, tokens, 8, [](int64_t, const LossMean&) { return true; });
    CHECK(all.count() == 3 * static_cast<int64_t>(tokens.size() / 8));
    CHECK(all.perplexity() < 1500);  // 4096 is a guess
  }
  SUBCASE("a choice has the likelihood of its tokens") {
    const auto scores = score_choices(model, {"It is impossible", {"to say", " to say", "of by"}, 0});
    CHECK(scores[0].log_likelihood == scores[1].log_likelihood);
    CHECK(scores[0].log_likelihood > scores[2].log_likelihood);
    const std::vector<int32_t> prompt = tokenizer.encode("It is impossible"),
                               whole = tokenizer.encode("It is impossible to say");
    const std::vector<float> logits = model.logits(whole);
    const size_t vocabulary = logits.size() / whole.size();
    double sum = 0;
    for (size_t at = prompt.size(); at < whole.size(); at++)
      sum -= token_loss(std::span(logits).subspan((at - 1) * vocabulary, vocabulary), whole[at]);
    CHECK(scores[0].log_likelihood == doctest::Approx(sum).epsilon(1e-6));
    CHECK(scores[0].tokens == static_cast<int64_t>(whole.size() - prompt.size()));
  }
  SUBCASE("what does not fit says so") {
    const auto go_on = [](int64_t, const LossMean&) { return true; };
    CHECK_THROWS_WITH_AS(measure_perplexity(model, tokens, 3, go_on),
                         doctest::Contains("it may have 4 to 256"), UserError);
    CHECK_THROWS_WITH_AS(measure_perplexity(model, tokens, 128, go_on),
                         doctest::Contains("does not fill a window of 128"), UserError);
    std::string text_of_many;
    for (int i = 0; i < 300; i++) text_of_many += "a b ";
    CHECK_THROWS_WITH_AS(score_choices(model, {text_of_many, {"c", "d"}, 0}),
                         doctest::Contains("the context 256"), UserError);
  }
}
