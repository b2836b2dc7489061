#include "llm/language_model.h"

#include "base/clock.h"
#include "base/error.h"
#include "formats/gguf/gguf.h"
#include "llm/evaluator.h"
#include "llm/model.h"

#include <algorithm>
#include <utility>

namespace lathe {
namespace {

EvaluatorOptions evaluator_options(const GgufFile& file, const ModelOptions& options) {
  if (options.chunk < 1) value_error("chunks of {} tokens; expected 1 or more", options.chunk);
  constexpr int64_t kUsual = 4096;
  int64_t context = options.context;
  if (context <= 0) {
    const int64_t most = read_model_config(file).context;
    context = context == 0 ? most : std::min(most, kUsual);
  }
  return {.context = context, .chunk = options.chunk, .kv_type = options.kv_type, .device = options.device};
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
  const bool reads_logits = options.mask || options.top_logprobs >= 0 || !options.sampling.is_plain_greedy();
  Sampler sampler(options.sampling);
  for (const int32_t token : prompt) sampler.accept(token);
  const double begin = now_seconds();
  Prediction next = evaluator.evaluate(prompt, &out.cached_tokens);
  double first = 0;  // when the prompt was done
  while (true) {
    if (options.max_tokens >= 0 && static_cast<int64_t>(out.ids.size()) >= options.max_tokens) break;
    GeneratedToken token;
    std::vector<TokenLogprob> top;
    if (reads_logits) {
      std::vector<float> logits = next.logits.to_vector<float>();
      const std::vector<float> before = options.top_logprobs >= 0 ? logits : std::vector<float>();
      if (options.mask) options.mask(logits);
      token.id = sampler.sample(logits);
      sampler.accept(token.id);
      if (options.top_logprobs >= 0) {
        const double sum = log_sum_exp(before);
        token.logprob = static_cast<float>(before[static_cast<size_t>(token.id)] - sum);
        const auto most = static_cast<size_t>(options.top_logprobs);
        for (const auto& [id, logprob] : best_log_probabilities(before, most)) top.push_back({id, logprob});
        token.top = top;
      }
    } else {
      token.id = next.best.item<int32_t>();
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
    next = reads_logits ? evaluator.append(token.id) : evaluator.append(token.id, next.best);
  }
  const double end = now_seconds();
  if (first == 0) first = end;
  out.prefill_seconds = first - begin, out.decode_seconds = end - first;
  return out;
}

}  // namespace lathe
