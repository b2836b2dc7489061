#include "llm/likelihood.h"

#include "base/error.h"

#include <cmath>

#include <doctest/doctest.h>

using namespace lathe;

TEST_CASE("the loss of a token is -ln of its softmax, also for large logits") {
  const std::vector<float> logits{1000, 999, -5000};
  CHECK(token_loss(logits, 0) == doctest::Approx(std::log(1 + std::exp(-1.0))).epsilon(1e-12));
  CHECK(token_loss(logits, 1) == doctest::Approx(1 + std::log(1 + std::exp(-1.0))).epsilon(1e-12));
  CHECK(token_loss(logits, 2) == doctest::Approx(6000 + std::log(1 + std::exp(-1.0))).epsilon(1e-12));
}

TEST_CASE("perplexity is exp of the mean, its error that of the mean times it") {
  LossMean mean;
  CHECK(mean.error() == 0);
  for (const double loss : {1.0, 2.0, 4.0, 5.0}) mean.add(loss);
  CHECK(mean.perplexity() == doctest::Approx(std::exp(3.0)));
  CHECK(mean.error() == doctest::Approx(std::exp(3.0) * std::sqrt(2.5 / 3)));  // variance 2.5
}

TEST_CASE("choice questions are read from arrays and from lines") {
  const std::string lines = R"({"prompt":"a","choices":["x","y"],"answer":1}

{"question":"b","choices":["x","y","z"],"answer":"C"}
{"prompt":"c","choices":["x","y"],"answer":"x"})";
  const auto questions = parse_choice_questions(lines, "q.jsonl");
  REQUIRE(questions.size() == 3);
  CHECK(questions[0].answer == 1);
  CHECK(questions[1].prompt == "b");
  CHECK(questions[1].answer == 2);
  CHECK(questions[2].answer == 0);
  CHECK(parse_choice_questions(R"( [{"prompt":"a","choices":["x","y"],"answer":0}])", "q").size() == 1);
  CHECK(parse_choice_questions("\n", "q").empty());
}

TEST_CASE("choice questions that are none say which and why") {
  const auto fails = [](const char* text, const char* why) {
    CHECK_THROWS_WITH_AS(parse_choice_questions(text, "q.json"), doctest::Contains(why), UserError);
  };
  fails("{\"prompt\":", "q.json, line 1: ");
  fails("[1]", "q.json, item 1: is no JSON object");
  fails(R"([{"choices":["x","y"],"answer":0}])", "q.json, item 1: has no text \"prompt\"");
  fails(R"([{"prompt":"a","choices":["x"],"answer":0}])", "has no \"choices\", an array of 2 to 26 texts");
  fails(R"([{"prompt":"a","choices":["x",""],"answer":0}])", "has a choice that is no text");
  fails(R"([{"prompt":"a","choices":["x","y"]}])", "has no \"answer\"");
  fails(R"([{"prompt":"a","choices":["x","y"],"answer":2}])", "\"answer\" is 2, which is none of 2 choices");
  fails(R"([{"prompt":"a","choices":["x","y"],"answer":-1}])", "\"answer\" is -1");
  fails(R"([{"prompt":"a","choices":["x","y"],"answer":"C"}])", "\"answer\" is \"C\"");
}

TEST_CASE(
    "of equally likely choices the first is picked; by the byte long ones are not worse for being long") {
  const std::vector<ChoiceScore> scores{{-4, 2, 2}, {-4, 2, 8}, {-5, 1, 3}};
  CHECK(best_choice(scores, false) == 0);
  CHECK(best_choice(scores, true) == 1);
}
