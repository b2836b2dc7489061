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
  // Of models whose state cannot be cut back to every position: how many copies of it are kept to go back to,
  // of how many bytes together, and how many tokens of a long prompt lie between two.
  int64_t checkpoints = 8, checkpoint_bytes = int64_t{1} << 30, checkpoint_spacing = 2048;
};

// Most rows of one call, and what caches and tables hold beyond the context: the padding of the last call.
int64_t largest_call(const EvaluatorOptions& options);
inline int64_t cache_positions(const EvaluatorOptions& options) {
  return options.context + largest_call(options) - 1;
}

// Caches of layers that see a window keep the last positions of a text: `blocks` of kKeyBlock. When a call
// does not fit behind them, the last `kept` move to the front; 0: they hold every text, and never move.
struct WindowCache {
  int64_t window = 0;  // positions that a row sees; 0: no layer has one
  int64_t blocks = 1;
  int64_t kept = 0;
  int64_t read = 1;  // most that one call reads
};
WindowCache window_cache(int64_t window, const EvaluatorOptions& options);

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
  using V = const Variable&;
  using Graph = Jit<std::function<std::vector<Tensor>(const Tensor&, V, V, V, V, V, V)>>;
  struct Checkpoint {
    int64_t length;        // of the front of `live` that it is a function of
    int64_t window_start;  // position of the first of the kept blocks
    std::vector<Tensor> state;
  };

  Graph& graph(int64_t rows, Logits logits);
  std::vector<Tensor> call(int64_t rows, std::span<const int32_t> tokens, const Tensor& input, Logits logits);
  // Makes the state that of the longest reusable front of `tokens`, and returns its length.
  int64_t resume(std::span<const int32_t> tokens);
  void check(std::span<const int32_t> tokens) const;
  Checkpoint copy_state();
  void save_checkpoint();
  // `tokens` is the text that the checkpoint is of, and becomes `live`.
  void restore(const Checkpoint& checkpoint, std::span<const int32_t> tokens);
  // Whether windows and recurrent state go on, as they are, after the first n of the live tokens.
  bool can_go_on_after(int64_t n) const;

  const Model& model_;
  EvaluatorOptions options_;
  WindowCache window_;
  ModelState state_;
  std::vector<Tensor> recurrent_, windows_;  // those of all layers
  Variable start_, count_, key_blocks_, window_at_, window_first_, window_blocks_, kept_first_;
  std::map<std::pair<int64_t, Logits>, Graph> graphs_;
  Jit<std::function<void()>> reset_;
  Jit<std::function<std::vector<Tensor>(V)>> save_;
  Jit<std::function<void(const std::vector<Tensor>&)>> restore_;
  std::vector<int32_t> live_;
  int64_t recurrent_at_ = 0;             // tokens that the recurrent state is a function of; -1: unknown
  int64_t window_start_ = 0;             // position of the first row of windows_
  std::vector<Checkpoint> checkpoints_;  // by length
  int64_t most_checkpoints_ = 0;
};

}  // namespace lathe
