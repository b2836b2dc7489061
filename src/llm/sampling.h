// From logits to the next token.
#pragma once
#include "base/error.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lathe {

class Tokenizer;

// Applied in this order; each step that is off costs nothing.
struct SamplingOptions {
  std::vector<std::pair<int32_t, float>> logit_bias;  // (token, what is added to its logit)

  // Of tokens among the last `penalty_last` (-1: all): a positive logit is divided by `repeat_penalty`, a
  // negative one multiplied; then count · frequency_penalty + presence_penalty is taken off.
  float repeat_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  int32_t penalty_last = 64;

  // DRY: a token that would continue a repetition of n ≥ dry_allowed_length tokens loses
  // dry_multiplier · dry_base^(n - dry_allowed_length). Looks at the last dry_last tokens (-1: all);
  // repetitions do not reach over a token of dry_breakers.
  float dry_multiplier = 0, dry_base = 1.75f;
  int32_t dry_allowed_length = 2, dry_last = -1;
  std::vector<int32_t> dry_breakers;

  // 0 or less: the most likely token, without chance and without what follows.
  float temperature = 0;

  float top_n_sigma = 0;  // keeps logits ≥ max - n · standard deviation; 0: all
  int32_t top_k = 0;      // keeps so many of the most likely; 0: all
  float typical_p = 1;    // keeps those whose surprise is nearest to the entropy, up to this mass
  float top_p = 1;        // keeps the fewest of the most likely that have this mass
  float min_p = 0;        // keeps those of at least this part of the probability of the most likely
  // XTC: with this probability drops all tokens above the threshold but the least likely of them.
  float xtc_probability = 0, xtc_threshold = 0.1f;
  // With a range > 0 the temperature is lo + (hi - lo) · (entropy / greatest entropy)^exponent, where lo and
  // hi are temperature ∓ range.
  float temperature_range = 0, temperature_exponent = 1;

  // 2: Mirostat 2.0 (Basu et al. 2021) in place of everything from top_n_sigma to XTC: drops tokens whose
  // surprise in bits is above μ, which follows what is drawn: μ ← μ - eta · (surprise - tau), at first 2 tau.
  int32_t mirostat = 0;
  float mirostat_tau = 5, mirostat_eta = 0.1f;

  uint64_t seed = 0;

  // The token is that of the greatest logit, whatever came before: no host has to look at the logits.
  bool is_plain_greedy() const;
  // ValueError for a value that makes no sense, naming it.
  void check() const;
};

// Biases, penalties and a grammar leave nothing to draw.
class NoTokenError : public UserError {
 public:
  explicit NoTokenError(const std::string& text) : UserError(Kind::Runtime, text) {}
};

// Draws the tokens of one sequence. What it draws depends on logits, options, the accepted tokens and how
// many were drawn, and on nothing else: not on what other sequences do.
class Sampler {
 public:
  explicit Sampler(SamplingOptions options);
  // The next token; `logits`, one a token, are changed (bias and penalties). -inf rules a token out.
  // RuntimeError where none is left or a logit is NaN, ValueError where an option names a token that there
  // is not.
  int32_t sample(std::span<float> logits);
  // Takes a token of the prompt or of the answer into account for penalties.
  void accept(int32_t token);
  const SamplingOptions& options() const { return options_; }

 private:
  struct Candidate {
    int32_t id;
    float logit;
  };
  void penalize(std::span<float> logits) const;
  void penalize_repetitions(std::span<float> logits) const;
  void truncate();
  template <class Key>
  void keep_mass(double mass, Key key);
  void keep_within_sigma();
  void drop_top_choices();
  double temperature() const;
  int32_t draw();
  double uniform(uint32_t use) const;  // in [0, 1), of this step

  SamplingOptions options_;
  std::vector<int32_t> accepted_;
  std::vector<Candidate> candidates_;
  std::vector<float> weights_;  // of candidates, when one is drawn
  double mu_;
  uint64_t step_ = 0;
};

// The tokens whose bytes have one of the texts in them, ascending: DRY's breakers, usually "\n" ":" "\"" "*".
std::vector<int32_t> tokens_with(const Tokenizer& tokenizer, std::span<const std::string> texts);

// ln Σ exp(logit): what a logit is above its log-probability.
double log_sum_exp(std::span<const float> logits);
// (token, log-probability) of the `count` most likely, best first; of equal ones the lower id first.
std::vector<std::pair<int32_t, float>> best_log_probabilities(std::span<const float> logits, size_t count);

}  // namespace lathe
