#include "base/error.h"
#include "base/progress.h"
#include "lathe/command.h"
#include "lathe/model_options.h"
#include "lathe/number_check.h"
#include "lathe/read_text.h"
#include "llm/likelihood.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <memory>

namespace lathe::command {
namespace {

struct Options {
  ModelArguments model;
  std::string questions;
  int64_t most = 0;
  bool as_json = false, show = false;
};

struct Tally {
  int64_t right = 0, right_by_byte = 0;
  double chance = 0;  // sum of 1/choices
};

void eval(const Options& options) {
  std::vector<ChoiceQuestion> questions =
      parse_choice_questions(read_text(options.questions), options.questions);
  if (options.most > 0 && static_cast<size_t>(options.most) < questions.size())
    questions.resize(static_cast<size_t>(options.most));
  if (questions.empty()) value_error("{} has no questions", options.questions);
  LanguageModel model = options.model.load();
  Tally tally;
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  Progress progress("eval", static_cast<int64_t>(questions.size()));
  for (size_t i = 0; i < questions.size(); i++) {
    const ChoiceQuestion& question = questions[i];
    const std::vector<ChoiceScore> scores = score_choices(model, question);
    const size_t picked = best_choice(scores, false);
    tally.right += picked == question.answer;
    tally.right_by_byte += best_choice(scores, true) == question.answer;
    tally.chance += 1 / static_cast<double>(question.choices.size());
    progress.update(static_cast<int64_t>(i + 1), fmt::format("{} right", tally.right));
    if (options.show && !options.as_json)
      fmt::print("{} {} -> {}{}\n", i + 1, question.prompt, question.choices[picked],
                 picked == question.answer ? "" : "  WRONG: " + question.choices[question.answer]);
    nlohmann::ordered_json item{{"picked", picked}, {"answer", question.answer}};
    for (const ChoiceScore& s : scores) item["log_likelihoods"].push_back(s.log_likelihood);
    items.push_back(std::move(item));
  }
  progress.finish();
  const auto n = static_cast<double>(questions.size());
  const double accuracy = static_cast<double>(tally.right) / n;
  const double by_byte = static_cast<double>(tally.right_by_byte) / n;
  const double error = n > 1 ? std::sqrt(accuracy * (1 - accuracy) / (n - 1)) : 0;
  if (options.as_json) {
    const nlohmann::ordered_json answer{
        {"questions", questions.size()}, {"accuracy", accuracy},       {"error", error},
        {"accuracy_by_byte", by_byte},   {"chance", tally.chance / n}, {"items", items}};
    std::printf("%s\n", answer.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return;
  }
  fmt::print("{} questions: {:.1f} ± {:.1f} % right, {:.1f} % by log-likelihood a byte; chance {:.1f} %\n",
             questions.size(), 100 * accuracy, 100 * error, 100 * by_byte, 100 * tally.chance / n);
}

}  // namespace

void add_eval(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "eval", "Multiple choice: how often a language model finds the right answer the most likely one.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*command);
  command
      ->add_option(
          "-f,--file", options->questions,
          "JSON array, or an object a line: prompt, choices, answer (position from 0, letter or text); - is "
          "standard input")
      ->required();
  command->add_option("--most", options->most, "Only the first so many questions; 0 is all")
      ->check(not_negative());
  command->add_flag("--show", options->show, "Print what it picks");
  command->add_flag("--json", options->as_json, "Print one JSON document instead");
  command->footer(
      "Examples:\n"
      "  lathe eval -f data/model/questions.jsonl --show\n"
      "  lathe eval -m model.gguf -f arc_easy.jsonl --most 200 --json\n"
      "  echo '{\"prompt\":\"Two and two make\",\"choices\":[\"four\",\"wolf\"],\"answer\":0}' | lathe eval "
      "-f -");
  command->callback([options] { eval(*options); });
}

}  // namespace lathe::command
