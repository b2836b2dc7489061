#include "../../examples/train_lm/kneser_ney.h"

#include <random>

#include <doctest/doctest.h>

using train_lm::KneserNey;

TEST_CASE("Kneser-Ney probabilities after any context add up to 1") {
  std::mt19937 random(3);
  std::vector<int32_t> text(2000);
  for (int32_t& t : text) t = static_cast<int32_t>(random() % 4 * (random() % 5));
  const KneserNey counts(text, 20);
  for (const std::vector<int32_t>& context :
       {std::vector<int32_t>{}, {0}, {19}, {0, 3, 0}, {5, 19, 0}, {text[7], text[8], text[9]}}) {
    double sum = 0;
    for (int32_t t = 0; t < 20; t++) {
      std::vector<int32_t> sequence = context;
      sequence.push_back(t);
      const double p = counts.probability(sequence, context.size());
      CHECK(p > 0);
      sum += p;
    }
    CHECK(sum == doctest::Approx(1).epsilon(1e-9));
  }
}

TEST_CASE("Kneser-Ney learns what follows what, and a token by the contexts it is seen in") {
  std::vector<int32_t> text;
  for (int i = 0; i < 300; i++)
    for (const int t : {0, 1, 2, i % 7 + 3, 10, 11}) text.push_back(t);
  const KneserNey counts(text, 12);
  CHECK(counts.probability(std::vector{11, 0, 1, 2}, 3) > 0.9);
  CHECK(counts.loss(text, 0, text.size()) < 0.5);
  // 2 is as frequent as 10, but stands after one token only, and 10 after seven.
  CHECK(counts.probability(std::vector{2}, 0) < counts.probability(std::vector{10}, 0));
}
