#include "llm/language_model.h"

#include "base/clock.h"
#include "base/error.h"
#include "formats/gguf/gguf.h"
#include "llm/evaluator.h"
#include "llm/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lathe {
namespace {

EvaluatorOptions evaluator_options(const GgufFile& file, const ModelOptions& options) {
  if (options.context < 0) value_error("a context of {} positions; expected 0 or more", options.context);
  if (options.chunk < 1) value_error("chunks of {} tokens; expected 1 or more", options.chunk);
  return {.context = options.context ? options.context : read_model_config(file).context,
          .chunk = options.chunk,
          .kv_type = options.kv_type,
          .device = options.device};
}

// Log-probabilities of `chosen` and of the `most` likeliest tokens, best first.
std::vector<TokenLogprob> log_probabilities(std::span<const float> logits, int32_t chosen, int64_t most) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - top));
  const double shift = top + std::log(sum);
  const auto logprob = [&](int32_t id) {
    return TokenLogprob{id, static_cast<float>(logits[static_cast<size_t>(id)] - shift)};
  };
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int32_t>(i);
  const auto end = order.begin() + std::min<int64_t>(most, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<TokenLogprob> out{logprob(chosen)};
  for (auto it = order.begin(); it != end; ++it) out.push_back(logprob(*it));
  return out;
}

}  // namespace

struct LanguageModel::Impl {
  Impl(std::shared_ptr<const GgufFile> f, const ModelOptions& o)
      : file(std::move(f)),
        tokenizer(Tokenizer::from_gguf(file->metadata())),
        options(evaluator_options(*file, o)),
        model(file, options.device, options.context, cache_positions(options)),
        evaluator(model, options) {}

  std::shared_ptr<const GgufFile> file;
  Tokenizer tokenizer;
  EvaluatorOptions options;
  Model model;
  Evaluator evaluator;
};

LanguageModel::LanguageModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LanguageModel::~LanguageModel() = default;
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;

LanguageModel LanguageModel::load(const std::string& path, const ModelOptions& options) {
  return load(std::make_shared<const GgufFile>(GgufFile::open(path).or_throw()), options);
}
LanguageModel LanguageModel::load(std::shared_ptr<const GgufFile> file, const ModelOptions& options) {
  return LanguageModel(std::make_unique<Impl>(std::move(file), options));
}

const Tokenizer& LanguageModel::tokenizer() const { return impl_->tokenizer; }
const ModelConfig& LanguageModel::config() const { return impl_->model.config(); }
const GgufFile& LanguageModel::file() const { return *impl_->file; }
int64_t LanguageModel::context() const { return impl_->options.context; }
std::span<const int32_t> LanguageModel::live() const { return impl_->evaluator.live(); }
void LanguageModel::clear() { impl_->evaluator.clear(); }
void LanguageModel::warm() { impl_->evaluator.warm(); }
int64_t LanguageModel::bytes_per_token() const { return impl_->model.bytes_per_token(); }
int64_t LanguageModel::weight_bytes() const { return impl_->model.bytes(); }
int64_t LanguageModel::state_bytes() const { return lathe::state_bytes(impl_->evaluator.state()); }

std::vector<float> LanguageModel::logits(std::span<const int32_t> tokens) {
  return impl_->evaluator.all_logits(tokens);
}
std::vector<float> LanguageModel::evaluate(std::span<const int32_t> tokens) {
  return impl_->evaluator.evaluate(tokens).logits.to_vector<float>();
}

GenerateResult LanguageModel::generate(std::span<const int32_t> prompt, const GenerateOptions& options) {
  return generate(prompt, options, [](const GeneratedToken&) { return true; });
}

GenerateResult LanguageModel::generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                       FunctionRef<bool(const GeneratedToken&)> callback) {
  Evaluator& evaluator = impl_->evaluator;
  GenerateResult out;
  out.prompt_tokens = static_cast<int64_t>(prompt.size());
  const double begin = now_seconds();
  Prediction next = evaluator.evaluate(prompt, &out.cached_tokens);
  double first = 0;  // when the prompt was done
  std::vector<float> logits;
  while (true) {
    if (options.max_tokens >= 0 && static_cast<int64_t>(out.ids.size()) >= options.max_tokens) break;
    GeneratedToken token;
    const bool reads_logits = options.pick || options.top_logprobs >= 0;
    if (reads_logits) logits = next.logits.to_vector<float>();
    std::vector<TokenLogprob> logprobs;
    const std::vector<float> plain = options.top_logprobs >= 0 ? logits : std::vector<float>();
    token.id = options.pick ? options.pick(logits) : next.best.item<int32_t>();
    if (options.top_logprobs >= 0) {
      logprobs = log_probabilities(plain, token.id, options.top_logprobs);
      token.logprob = logprobs[0].logprob;
      token.top = std::span(logprobs).subspan(1);
    }
    if (first == 0) first = now_seconds();
    token.is_end = options.stop_at_end && impl_->tokenizer.is_end_of_generation(token.id);
    if (!token.is_end) out.ids.push_back(token.id);
    const bool goes_on = callback(token);
    if (token.is_end || !goes_on) {
      out.reason = token.is_end ? StopReason::End : StopReason::Callback;
      break;
    }
    const bool is_full = static_cast<int64_t>(evaluator.live().size()) >= context();
    const bool is_last =
        options.max_tokens >= 0 && static_cast<int64_t>(out.ids.size()) >= options.max_tokens;
    if (is_full || is_last) break;
    next = options.pick ? evaluator.append(token.id) : evaluator.append(token.id, next.best);
  }
  const double end = now_seconds();
  if (first == 0) first = end;
  out.prefill_seconds = first - begin, out.decode_seconds = end - first;
  return out;
}

}  // namespace lathe
