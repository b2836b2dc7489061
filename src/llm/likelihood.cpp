#include "llm/likelihood.h"

#include "base/error.h"
#include "llm/sampling.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxChoices = 26;

[[noreturn]] void item_error(const std::string& where, size_t item, const std::string& what) {
  value_error("{}, item {}: {}", where, item + 1, what);
}

// The objects of an array, or of lines.
std::vector<Json> items_of(std::string_view text, const std::string& where) {
  const auto parse = [&](std::string_view part, size_t line) {
    try {
      return Json::parse(part);
    } catch (const Json::exception& problem) {
      value_error("{}, line {}: {}", where, line, problem.what());
    }
  };
  std::vector<Json> out;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '[') {
    for (Json& item : parse(text, 1)) out.push_back(std::move(item));
    return out;
  }
  for (size_t at = 0, line = 1; at < text.size(); line++) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    if (part.find_first_not_of(" \t\r") != part.npos) out.push_back(parse(part, line));
    at = end + 1;
  }
  return out;
}

size_t answer_of(const Json& answer, const std::vector<std::string>& choices, const std::string& where,
                 size_t item) {
  size_t out = choices.size();
  if (answer.is_number_unsigned()) {
    out = std::min<size_t>(answer.get<size_t>(), choices.size());
  } else if (answer.is_string()) {
    const auto text = answer.get<std::string>();
    out = static_cast<size_t>(std::find(choices.begin(), choices.end(), text) - choices.begin());
    if (out == choices.size() && text.size() == 1 && text[0] >= 'A' && text[0] <= 'Z')
      out = static_cast<size_t>(text[0] - 'A');
  }
  if (out >= choices.size())
    item_error(where, item,
               fmt::format("\"answer\" is {}, which is none of {} choices", answer.dump(), choices.size()));
  return out;
}

}  // namespace

double token_loss(std::span<const float> logits, int32_t token) {
  return log_sum_exp(logits) - logits[static_cast<size_t>(token)];
}

double LossMean::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
double LossMean::perplexity() const { return std::exp(mean()); }
double LossMean::error() const {
  if (count_ < 2) return 0;
  const double variance = squares_ / static_cast<double>(count_) - mean() * mean();
  return perplexity() * std::sqrt(std::max(variance, 0.0) / static_cast<double>(count_ - 1));
}

LossMean measure_perplexity(LanguageModel& model, std::span<const int32_t> tokens, int64_t window,
                            FunctionRef<bool(int64_t, const LossMean&)> after_window) {
  if (window < 4 || window > model.context())
    value_error("a window of {} tokens; it may have 4 to {}, the context of the model", window,
                model.context());
  const auto size = static_cast<size_t>(window);
  if (tokens.size() < size)
    value_error("a text of {} tokens does not fill a window of {}; take a longer text or a smaller window",
                tokens.size(), window);
  LossMean out;
  for (size_t start = 0; start + size <= tokens.size(); start += size) {
    const std::span<const int32_t> seen = tokens.subspan(start, size);
    std::vector<int32_t> input(seen.begin(), seen.end());
    if (model.tokenizer().adds_bos()) input[0] = model.tokenizer().bos();
    const std::vector<float> logits = model.logits(input);
    const size_t vocabulary = logits.size() / size;
    for (size_t at = size / 2; at + 1 < size; at++)
      out.add(token_loss(std::span(logits).subspan(at * vocabulary, vocabulary), seen[at + 1]));
    if (!after_window(static_cast<int64_t>(start / size), out)) break;
  }
  return out;
}

std::vector<ChoiceQuestion> parse_choice_questions(std::string_view text, const std::string& where) {
  std::vector<ChoiceQuestion> out;
  for (const Json& item : items_of(text, where)) {
    const size_t i = out.size();
    if (!item.is_object()) item_error(where, i, "is no JSON object");
    const auto prompt = item.contains("prompt") ? item.find("prompt") : item.find("question");
    if (prompt == item.end() || !prompt->is_string()) item_error(where, i, "has no text \"prompt\"");
    const auto choices = item.find("choices");
    if (choices == item.end() || !choices->is_array() || choices->size() < 2 || choices->size() > kMaxChoices)
      item_error(where, i, fmt::format("has no \"choices\", an array of 2 to {} texts", kMaxChoices));
    ChoiceQuestion& question = out.emplace_back();
    question.prompt = prompt->get<std::string>();
    for (const Json& choice : *choices) {
      if (!choice.is_string() || choice.get_ref<const std::string&>().empty())
        item_error(where, i, "has a choice that is no text");
      question.choices.push_back(choice.get<std::string>());
    }
    const auto answer = item.find("answer");
    if (answer == item.end()) item_error(where, i, "has no \"answer\"");
    question.answer = answer_of(*answer, question.choices, where, i);
  }
  return out;
}

std::vector<ChoiceScore> score_choices(LanguageModel& model, const ChoiceQuestion& question) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const Tokenizer& tokenizer = model.tokenizer();
  const std::vector<int32_t> prompt = tokenizer.encode(question.prompt);
  if (prompt.empty())
    value_error(
        "a prompt is empty and the model puts no BOS before it, so that nothing predicts the first token of "
        "\"{}\"; write a prompt",
        question.choices.front());
  std::vector<ChoiceScore> out;
  for (const std::string& choice : question.choices) {
    const bool is_apart = question.prompt.empty() || kBlanks.find(question.prompt.back()) != kBlanks.npos ||
                          kBlanks.find(choice.front()) != kBlanks.npos;
    const std::vector<int32_t> tokens = tokenizer.encode(question.prompt + (is_apart ? "" : " ") + choice);
    if (static_cast<int64_t>(tokens.size()) > model.context())
      value_error("a prompt with a choice has {} tokens, the context {}", tokens.size(), model.context());
    // What the prompt alone does not begin with: a choice may change its last token. The first token of all
    // has nothing before it to be predicted from.
    const auto differs = std::mismatch(tokens.begin(), tokens.end(), prompt.begin(), prompt.end()).first;
    const auto first = std::max<size_t>(static_cast<size_t>(differs - tokens.begin()), 1);
    ChoiceScore& score = out.emplace_back();
    score.bytes = static_cast<int64_t>(choice.size());
    if (tokens.size() < 2) continue;
    const std::vector<float> logits = model.logits(tokens);
    const size_t vocabulary = logits.size() / tokens.size();
    for (size_t at = first; at < tokens.size(); at++, score.tokens++)
      score.log_likelihood -=
          token_loss(std::span(logits).subspan((at - 1) * vocabulary, vocabulary), tokens[at]);
  }
  return out;
}

size_t best_choice(std::span<const ChoiceScore> scores, bool by_byte) {
  const auto value = [&](const ChoiceScore& s) {
    return by_byte ? s.log_likelihood / static_cast<double>(s.bytes) : s.log_likelihood;
  };
  size_t best = 0;
  for (size_t i = 1; i < scores.size(); i++)
    if (value(scores[i]) > value(scores[best])) best = i;
  return best;
}

}  // namespace lathe
