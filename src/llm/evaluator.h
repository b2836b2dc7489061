// Runs a model over tokens: captured graphs for prefill and decode, and state that is reused where a text
// starts as the last one did.
#pragma once
#include "llm/model.h"
#include "llm/state.h"
#include "tensor/jit.h"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace lathe {

struct EvaluatorOptions {
  int64_t context = 0;  // positions
  int64_t chunk = 512;  // most tokens of one call
  KvType kv_type = KvType::F16;
  std::string device = {};
  // Of models with recurrent blocks: how many copies of that state are kept to go back to, and how many
  // tokens of a long prompt lie between two.
  int64_t checkpoints = 8, checkpoint_spacing = 2048;
};

// Most rows of one call, and what caches and tables hold beyond the context: the padding of the last call.
int64_t largest_call(const EvaluatorOptions& options);
inline int64_t cache_positions(const EvaluatorOptions& options) {
  return options.context + largest_call(options) - 1;
}

// After the last token that was evaluated.
struct Prediction {
  Tensor logits;  // float32 (vocabulary)
  Tensor best;    // int32 (1): the token of the largest
};

// `live()` are the tokens whose effect is in the state. It is cut back before state is overwritten and grows
// after a call is done, so that it is right also after an error or Cancelled.
class Evaluator {
 public:
  // `model` outlives this.
  Evaluator(const Model& model, const EvaluatorOptions& options);

  // Brings the state to `tokens`, at least one: what `live` shares with the front of them is reused, but the
  // last is always evaluated. `reused` gets the number of tokens that were not.
  // ValueError for tokens outside of the vocabulary and for more than the context holds.
  Prediction evaluate(std::span<const int32_t> tokens, int64_t* reused = nullptr);
  // One more token, at the position after `live`; `next` is its device-side value, int32 (1) in memory.
  Prediction append(int32_t token, const Tensor& next);
  Prediction append(int32_t token);
  // Logits (tokens, vocabulary) after each token of a text from position 0.
  std::vector<float> all_logits(std::span<const int32_t> tokens);

  std::span<const int32_t> live() const { return live_; }
  void clear();
  // Runs every graph until it is captured, then forgets what that left in the state.
  void warm();

  const EvaluatorOptions& options() const { return options_; }
  const ModelState& state() const { return state_; }
  // Sizes of the calls that evaluate n tokens: (rows of the graph, tokens).
  std::vector<std::pair<int64_t, int64_t>> calls(int64_t n) const;

 private:
  using Graph = Jit<
      std::function<std::vector<Tensor>(const Tensor&, const Variable&, const Variable&, const Variable&)>>;
  struct Checkpoint {
    int64_t length;  // of the front of `live` that it is a function of
    std::vector<Tensor> state;
  };

  Graph& graph(int64_t rows, Logits logits);
  std::vector<Tensor> call(int64_t rows, std::span<const int32_t> tokens, const Tensor& input, Logits logits);
  // Makes the state that of the longest reusable front of `tokens`, and returns its length.
  int64_t resume(std::span<const int32_t> tokens);
  void check(std::span<const int32_t> tokens) const;
  void save_checkpoint();
  std::vector<Tensor> recurrent_state() const;

  const Model& model_;
  EvaluatorOptions options_;
  ModelState state_;
  bool is_recurrent_;
  Variable start_, count_, key_blocks_;
  std::map<std::pair<int64_t, Logits>, Graph> graphs_;
  Jit<std::function<void()>> reset_;
  Jit<std::function<std::vector<Tensor>()>> save_;
  Jit<std::function<void(const std::vector<Tensor>&)>> restore_;
  std::vector<int32_t> live_;
  int64_t recurrent_at_ = 0;             // tokens that the recurrent state is a function of; -1: unknown
  std::vector<Checkpoint> checkpoints_;  // by length
};

}  // namespace lathe
