// The graph of a model, made of blocks. A block is a struct of weights with three functions, found by their
// argument:
//
//   B make_…(const BlockContext&, int64_t layer, …);                     // reads the tensors "blk.<layer>.…"
//   LayerState make_state(const B&, const StateOptions&);            // mixers only: memory of a layer
//   Tensor forward(const B&, const Tensor& x, const Step&, LayerState&);  // mixers
//   Tensor forward(const B&, const Tensor& x);                            // feed-forward blocks
//
// x and the result are float32 (rows, dim), normalised before and added to the residual stream after by the
// layer. A new kind of block is one more alternative of MixerBlock or FeedForwardBlock.
#pragma once
#include "llm/attention.h"
#include "llm/config.h"
#include "llm/delta_net.h"
#include "llm/feed_forward.h"
#include "llm/latent_attention.h"
#include "llm/mixture_of_experts.h"
#include "llm/norm.h"
#include "llm/state.h"
#include "llm/state_space.h"
#include "llm/weights.h"
#include "tensor/tensor.h"

#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace lathe {

using MixerBlock = std::variant<Attention, LatentAttention, DeltaNet, StateSpace>;
using FeedForwardBlock = std::variant<std::monostate, FeedForward, MixtureOfExperts>;

struct Layer {
  std::optional<Norm> mixer_norm, mixer_post_norm, ffn_norm, ffn_post_norm;
  MixerBlock mixer;
  FeedForwardBlock ffn;
};

ModelConfig read_model_config(const GgufFile& file);

// Which rows a call gives logits for.
enum class Logits : uint8_t { Last, All };

class Model {
 public:
  // `positions` is what caches and tables hold: the context and the padding of the last call.
  Model(std::shared_ptr<const GgufFile> file, const std::string& device, int64_t context, int64_t positions);

  const ModelConfig& config() const { return config_; }
  ModelState make_state(const StateOptions& options) const;
  // tokens int32 (rows). Logits float32 (vocabulary) after the last token, or (rows, vocabulary). Assigns to
  // the state.
  Tensor forward(const Tensor& tokens, const Step& step, ModelState& state, Logits logits) const;
  const GgufFile& file() const { return weights_.file(); }
  // Of the weights: all, and those that a step of one token reads.
  int64_t bytes() const;
  int64_t bytes_per_token() const;

 private:
  Weights weights_;
  ModelConfig config_;
  PackedMatrix embedding_;
  std::optional<Tensor> positions_;  // learned, float32 (positions, dim)
  std::vector<Layer> layers_;
  Norm output_norm_;
  Linear output_;
};

}  // namespace lathe
