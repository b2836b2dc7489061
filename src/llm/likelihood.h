// How likely a model finds texts: perplexity, and the choice among answers.
#pragma once
#include "base/function_ref.h"
#include "llm/language_model.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// -ln(probability) of a token under the softmax of `logits`, in nats.
double token_loss(std::span<const float> logits, int32_t token);

// The mean of losses, and of that the perplexity exp(mean) with its standard error perplexity·sd/√(n - 1).
class LossMean {
 public:
  void add(double loss) { count_++, sum_ += loss, squares_ += loss * loss; }
  int64_t count() const { return count_; }
  double mean() const;
  double perplexity() const;
  double error() const;  // 0 for fewer than two losses

 private:
  int64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

// Perplexity as llama.cpp measures it: `tokens` (with BOS, where the model wants one) in windows of `window`
// that do not overlap and what is left over at the end ignored; the first token of each is taken for BOS
// where the model wants one; of the predictions only those of the second half count, from token window/2 + 1
// on. `after_window` sees the mean so far, and returns whether to go on. ValueError for a window of fewer
// than 4 tokens or more than the context, and for a text that does not fill one.
LossMean measure_perplexity(LanguageModel& model, std::span<const int32_t> tokens, int64_t window,
                            FunctionRef<bool(int64_t index, const LossMean&)> after_window);

// What stands before the choices of a question, the choices, and which of them is right.
struct ChoiceQuestion {
  std::string prompt;
  std::vector<std::string> choices;
  size_t answer = 0;
};

// From a JSON array of objects, or an object a line: "prompt" (or "question"), "choices", and "answer", which
// is a position counted from 0, a letter from A, or the text of a choice. A blank is put before a choice
// unless the prompt ends in white space or the choice begins with it. ValueError that names `where`, the item
// and what is wrong.
std::vector<ChoiceQuestion> parse_choice_questions(std::string_view text, const std::string& where);

struct ChoiceScore {
  double log_likelihood = 0;  // of all tokens of the choice after the prompt, in nats
  int64_t tokens = 0, bytes = 0;
};

// A score for each choice. ValueError where prompt and choice are longer than the context.
std::vector<ChoiceScore> score_choices(LanguageModel& model, const ChoiceQuestion& question);

// The choice of the highest log-likelihood, as it is or by the byte; of equal ones the first.
size_t best_choice(std::span<const ChoiceScore> scores, bool by_byte);

}  // namespace lathe
