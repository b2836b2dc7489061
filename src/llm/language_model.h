// A model file ready to generate: captured graphs for prefill and decode over state that requests share.
#pragma once
#include "base/function_ref.h"
#include "llm/config.h"
#include "llm/sampling.h"
#include "llm/state.h"
#include "llm/tokenizer/tokenizer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lathe {

class GgufFile;

struct ModelOptions {
  // Positions; 0: all that the model was made for, which may be a lot of memory; below 0: those, at most
  // 4096.
  int64_t context = -1;
  KvType kv_type = KvType::F16;
  int64_t chunk = 512;      // most tokens of one prefill call
  std::string device = {};  // "" is the default one
};

struct GenerateOptions {
  int64_t max_tokens = -1;   // -1: until the context is full
  SamplingOptions sampling;  // plain greedy ones are done in the graph
  // Rules tokens out by -inf before each is sampled, as a grammar does; the callback tells which it became.
  std::function<void(std::span<float> logits)> mask;
  bool stop_at_end = true;    // at tokens that end a generation (Tokenizer::is_end_of_generation)
  int64_t top_logprobs = -1;  // ≥ 0: log-probabilities of each token and so many of the best
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // of the distribution before mask and sampling options
};

// What the callback sees of each new token, one that ends the generation included.
struct GeneratedToken {
  int32_t id = 0;
  bool is_end = false;                // ends the generation: no text
  float logprob = 0;                  // where asked for
  std::span<const TokenLogprob> top;  // best first
};

enum class StopReason : uint8_t {
  End,
  Length,
  Callback
};  // a token that ends; max_tokens or context; callback

struct GenerateResult {
  std::vector<int32_t> ids;  // without the token that ended it
  StopReason reason = StopReason::Length;
  int64_t prompt_tokens = 0, cached_tokens = 0;  // cached: those of the prompt whose state was reused
  double prefill_seconds = 0, decode_seconds = 0;
};

// Not for several threads at a time. After an error or Cancelled the model is usable: it knows what its state
// holds.
class LanguageModel {
 public:
  // UserError naming the file, and the key or tensor, for a file that is damaged, incomplete or not
  // supported.
  static LanguageModel load(const std::string& path, const ModelOptions& options = {});
  static LanguageModel load(std::shared_ptr<const GgufFile> file, const ModelOptions& options = {});
  ~LanguageModel();
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;

  const Tokenizer& tokenizer() const;
  const ModelConfig& config() const;
  const GgufFile& file() const;
  int64_t context() const;

  // Continues `prompt` (ValueError where it is empty, does not fit the context or has ids that are none). The
  // callback returns whether to go on; it is called for each token, in order, and may throw.
  GenerateResult generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                          FunctionRef<bool(const GeneratedToken&)> callback);
  GenerateResult generate(std::span<const int32_t> prompt, const GenerateOptions& options = {});

  // Logits (tokens, vocabulary), row-major, after every token of a text that starts at position 0.
  std::vector<float> logits(std::span<const int32_t> tokens);
  // Evaluates tokens after the longest reusable prefix; the logits (vocabulary) after the last.
  std::vector<float> evaluate(std::span<const int32_t> tokens);
  // Tokens whose effect is in the state.
  std::span<const int32_t> live() const;
  // Forgets all state.
  void clear();
  // Captures every graph that generate uses, so that no later request compiles or schedules.
  void warm();

  // For measurements: bytes of weights that one decoded token reads, bytes of all weights, of the state.
  int64_t bytes_per_token() const;
  int64_t weight_bytes() const;
  int64_t state_bytes() const;

 private:
  struct Impl;
  explicit LanguageModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe
