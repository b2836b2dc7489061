#include "llm/sampling.h"

#include "llm/tokenizer/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace lathe {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of x.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// The last `count` of `tokens`, all where it is negative.
std::span<const int32_t> last_of(std::span<const int32_t> tokens, int32_t count) {
  return count < 0 ? tokens : tokens.last(std::min(tokens.size(), static_cast<size_t>(count)));
}

double square(double x) { return x * x; }

float& logit_of(std::span<float> logits, int32_t id, const char* what) {
  if (id < 0 || static_cast<size_t>(id) >= logits.size())
    value_error("{}: token {} is outside of the {} logits", what, id, logits.size());
  return logits[static_cast<size_t>(id)];
}

// Σ exp(logit - top) of candidates, and the mean of logit - top in their distribution: the entropy is
// ln sum - mean, the surprise of one ln sum - (logit - top).
struct Moments {
  float top = kNever;
  double sum = 0, mean = 0;
  double entropy() const { return std::log(sum) - mean; }
};

template <class Candidates>
float greatest(const Candidates& candidates) {
  float top = kNever;
  for (const auto& c : candidates) top = std::max(top, c.logit);
  return top;
}

// Single precision where a whole vocabulary goes through: a part in 10^7 of a probability.
template <class Candidates>
Moments moments_of(const Candidates& candidates) {
  Moments out{greatest(candidates)};
  for (const auto& c : candidates) {
    const float above = c.logit - out.top, e = std::exp(above);
    out.sum += static_cast<double>(e);
    out.mean += static_cast<double>(e) * static_cast<double>(above);
  }
  out.mean /= out.sum;
  return out;
}

}  // namespace

bool SamplingOptions::is_plain_greedy() const {
  const bool penalties = repeat_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0;
  return temperature <= 0 && logit_bias.empty() && !(penalties && penalty_last != 0) && dry_multiplier == 0;
}

void SamplingOptions::check() const {
  const auto need = [](bool holds, const char* name, double value, const char* range) {
    if (!holds) value_error("{} = {} must be {}", name, value, range);
  };
  const auto part = [&](const char* name, float value) {
    need(value >= 0 && value <= 1, name, static_cast<double>(value), "between 0 and 1");
  };
  const auto finite = [&](const char* name, float value) {
    need(std::isfinite(value), name, static_cast<double>(value), "a finite number");
  };
  const auto positive = [&](const char* name, float value) {
    need(std::isfinite(value) && value > 0, name, static_cast<double>(value), "above 0");
  };
  part("top_p", top_p), part("min_p", min_p), part("typical_p", typical_p);
  part("xtc_probability", xtc_probability), part("xtc_threshold", xtc_threshold);
  finite("temperature", temperature), finite("frequency_penalty", frequency_penalty);
  finite("presence_penalty", presence_penalty), finite("dry_multiplier", dry_multiplier);
  finite("top_n_sigma", top_n_sigma), finite("temperature_range", temperature_range);
  finite("temperature_exponent", temperature_exponent), finite("mirostat_tau", mirostat_tau);
  finite("mirostat_eta", mirostat_eta);
  positive("repeat_penalty", repeat_penalty), positive("dry_base", dry_base);
  need(top_k >= 0, "top_k", top_k, "0 or more");
  need(dry_allowed_length >= 1, "dry_allowed_length", dry_allowed_length, "1 or more");
  need(mirostat == 0 || mirostat == 2, "mirostat", mirostat, "0 or 2");
  for (const auto& [id, bias] : logit_bias)
    if (std::isnan(bias)) value_error("logit_bias of token {} is not a number", id);
}

Sampler::Sampler(SamplingOptions options)
    : options_(std::move(options)), mu_(2 * static_cast<double>(options_.mirostat_tau)) {
  options_.check();
  std::sort(options_.dry_breakers.begin(), options_.dry_breakers.end());
}

void Sampler::accept(int32_t token) { accepted_.push_back(token); }

int32_t Sampler::sample(std::span<float> logits) {
  for (const auto& [id, bias] : options_.logit_bias) logit_of(logits, id, "logit_bias") += bias;
  penalize(logits);
  penalize_repetitions(logits);
  size_t best = 0;
  float top = kNever;
  bool has_nan = false;
  for (size_t i = 0; i < logits.size(); i++) {
    has_nan |= std::isnan(logits[i]);
    if (logits[i] > top) top = logits[best = i];
  }
  if (has_nan || !std::isfinite(top)) {
    const std::string text =
        fmt::format("no token can be drawn: of {} logits {}", logits.size(),
                    has_nan ? "some are not a number" : "none is finite or some are infinite");
    if (has_nan) user_runtime_error("{}", text);
    throw NoTokenError(detail::with_context(text));
  }
  step_++;
  if (options_.temperature <= 0) return static_cast<int32_t>(best);
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); i++)
    if (logits[i] != kNever) candidates_.push_back({static_cast<int32_t>(i), logits[i]});
  if (options_.mirostat == 0) truncate();
  return draw();
}

void Sampler::penalize(std::span<float> logits) const {
  const auto& o = options_;
  if (o.repeat_penalty == 1 && o.frequency_penalty == 0 && o.presence_penalty == 0) return;
  std::unordered_map<int32_t, int> counts;
  for (const int32_t id : last_of(accepted_, o.penalty_last)) counts[id]++;
  for (const auto& [id, count] : counts) {
    float& logit = logit_of(logits, id, "penalties");
    logit = logit > 0 ? logit / o.repeat_penalty : logit * o.repeat_penalty;
    logit -= static_cast<float>(count) * o.frequency_penalty + o.presence_penalty;
  }
}

void Sampler::penalize_repetitions(std::span<float> logits) const {
  const auto& o = options_;
  if (o.dry_multiplier == 0) return;
  const auto window = last_of(accepted_, o.dry_last);
  const std::vector<int32_t> back(window.rbegin(), window.rend());  // newest first
  const auto is_breaker = [&](int32_t id) {
    return std::binary_search(o.dry_breakers.begin(), o.dry_breakers.end(), id);
  };
  const size_t limit = static_cast<size_t>(std::find_if(back.begin(), back.end(), is_breaker) - back.begin());
  // Z-algorithm: z[i] is how far back[i…] agrees with back, so a repetition of that length ends there.
  std::vector<size_t> z(back.size(), 0);
  std::unordered_map<int32_t, size_t> longest;  // by the token that followed the repetition
  for (size_t i = 1, left = 0, right = 0; i < back.size(); i++) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < back.size() && back[z[i]] == back[i + z[i]]) z[i]++;
    if (i + z[i] > right) left = i, right = i + z[i];
    size_t& length = longest[back[i - 1]];
    length = std::max(length, std::min(z[i], limit));
  }
  for (const auto& [id, length] : longest) {
    const auto extra = static_cast<double>(length) - o.dry_allowed_length;
    if (extra < 0) continue;
    const double penalty =
        static_cast<double>(o.dry_multiplier) * std::pow(static_cast<double>(o.dry_base), extra);
    // Finite: a token that nothing else rules out stays possible.
    logit_of(logits, id, "DRY") -= static_cast<float>(std::min(penalty, 1e30));
  }
}

// Keeps the candidates of the lowest key, up to the one with which their probabilities reach `mass`. Few of a
// large vocabulary carry most of it, so only as many are sorted as it takes.
template <class Key>
void Sampler::keep_mass(double mass, Key key) {
  const Moments all = moments_of(candidates_);
  double sum = 0;
  for (size_t sorted = 0, i = 0; i < candidates_.size(); i++) {
    if (i == sorted) {
      const size_t until = std::min(candidates_.size(), std::max<size_t>(128, sorted * 8));
      const auto at = [&](size_t n) { return candidates_.begin() + static_cast<ptrdiff_t>(n); };
      std::partial_sort(at(sorted), at(until), candidates_.end(),
                        [&](const Candidate& a, const Candidate& b) {
                          const auto x = key(a), y = key(b);
                          return x != y ? x < y : a.id < b.id;
                        });
      sorted = until;
    }
    sum += static_cast<double>(std::exp(candidates_[i].logit - all.top));
    if (sum >= mass * all.sum) return candidates_.resize(i + 1);
  }
}

void Sampler::keep_within_sigma() {
  const auto count = static_cast<double>(candidates_.size());
  double mean = 0, squares = 0;
  const float top = greatest(candidates_);
  for (const Candidate& c : candidates_) mean += static_cast<double>(c.logit) / count;
  for (const Candidate& c : candidates_) squares += square(static_cast<double>(c.logit) - mean);
  const double sigma = std::sqrt(squares / count);
  const double least = static_cast<double>(top) - static_cast<double>(options_.top_n_sigma) * sigma;
  std::erase_if(candidates_, [&](const Candidate& c) { return static_cast<double>(c.logit) < least; });
}

void Sampler::drop_top_choices() {
  if (uniform(1) >= static_cast<double>(options_.xtc_probability)) return;
  const Moments all = moments_of(candidates_);
  std::vector<double> p;
  for (const Candidate& c : candidates_) p.push_back(std::exp(static_cast<double>(c.logit - all.top)));
  const double least = static_cast<double>(options_.xtc_threshold) * all.sum;
  size_t keep = p.size();  // the least likely above the threshold
  for (size_t i = 0; i < p.size(); i++)
    if (p[i] >= least && (keep == p.size() || p[i] < p[keep])) keep = i;
  size_t i = 0;
  std::erase_if(candidates_, [&](const Candidate&) {
    const size_t at = i++;
    return p[at] >= least && at != keep;
  });
}

void Sampler::truncate() {
  const auto& o = options_;
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  if (o.top_n_sigma > 0) keep_within_sigma();
  if (o.top_k > 0 && static_cast<size_t>(o.top_k) < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + o.top_k, candidates_.end(), likelier);
    candidates_.resize(static_cast<size_t>(o.top_k));
  }
  if (o.typical_p < 1) {
    const Moments all = moments_of(candidates_);
    keep_mass(static_cast<double>(o.typical_p), [&](const Candidate& c) {
      return std::abs(static_cast<double>(c.logit - all.top) - all.mean);
    });
  }
  if (o.top_p < 1) keep_mass(static_cast<double>(o.top_p), [](const Candidate& c) { return -c.logit; });
  if (o.min_p > 0) {
    const float least = greatest(candidates_) + std::log(o.min_p);
    std::erase_if(candidates_, [&](const Candidate& c) { return c.logit < least; });
  }
  if (o.xtc_probability > 0) drop_top_choices();
}

double Sampler::temperature() const {
  const auto& o = options_;
  const double t = static_cast<double>(o.temperature), range = static_cast<double>(o.temperature_range);
  // Logits are divided by it in single precision.
  if (range <= 0 || candidates_.size() < 2) return std::max(1e-6, t);
  const double greatest = std::log(static_cast<double>(candidates_.size()));
  const double part = std::clamp(moments_of(candidates_).entropy() / greatest, 0.0, 1.0);
  const double low = std::max(0.0, t - range), high = t + range;
  return std::max(1e-6, low + (high - low) * std::pow(part, static_cast<double>(o.temperature_exponent)));
}

int32_t Sampler::draw() {
  const auto scale = static_cast<float>(1 / temperature());
  const float top = greatest(candidates_);
  weights_.clear();
  double sum = 0;
  for (const Candidate& c : candidates_)
    sum += static_cast<double>(weights_.emplace_back(std::exp((c.logit - top) * scale)));
  if (options_.mirostat == 2) {
    const double least = std::min(1.0, std::exp2(-mu_) * sum);  // the greatest weight is 1
    sum = 0;
    for (float& x : weights_) sum += static_cast<double>(x = static_cast<double>(x) >= least ? x : 0);
  }
  double rest = uniform(0) * sum;
  size_t chosen = 0;
  for (size_t i = 0; i < weights_.size() && rest >= 0; i++) {
    if (weights_[i] == 0) continue;
    chosen = i;
    rest -= static_cast<double>(weights_[i]);
  }
  if (options_.mirostat == 2)
    mu_ -= static_cast<double>(options_.mirostat_eta) *
           (-std::log2(static_cast<double>(weights_[chosen]) / sum) -
            static_cast<double>(options_.mirostat_tau));
  return candidates_[chosen].id;
}

double Sampler::uniform(uint32_t use) const {
  return static_cast<double>(mix(mix(options_.seed) ^ mix(2 * step_ + use)) >> 11) * 0x1p-53;
}

std::vector<int32_t> tokens_with(const Tokenizer& tokenizer, std::span<const std::string> texts) {
  std::vector<int32_t> out;
  for (int32_t id = 0; id < tokenizer.size(); id++)
    if (std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
          return !text.empty() && tokenizer.piece(id).find(text) != std::string_view::npos;
        }))
      out.push_back(id);
  return out;
}

double log_sum_exp(std::span<const float> logits) {
  const float top = logits.empty() ? kNever : *std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(top)) return static_cast<double>(top);
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - top));
  return static_cast<double>(top) + std::log(sum);
}

std::vector<std::pair<int32_t, float>> best_log_probabilities(std::span<const float> logits, size_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const size_t kept = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(kept), ids.end(),
                    [&](int32_t a, int32_t b) {
                      const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  const double all = log_sum_exp(logits);
  std::vector<std::pair<int32_t, float>> out;
  for (size_t i = 0; i < kept; i++)
    out.emplace_back(ids[i],
                     static_cast<float>(static_cast<double>(logits[static_cast<size_t>(ids[i])]) - all));
  return out;
}

}  // namespace lathe
