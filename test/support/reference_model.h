#pragma once

// What a language model computes, as plainly as it can be said: double precision, loops over vectors, the
// whole sequence at once, recurrent blocks token by token, latent attention expanded, no cache. It shares
// nothing with the library, so that agreement means something.

#include <span>

#include "support/model_data.h"

namespace lathe::test {

// Scores of the vocabulary after each of the tokens. `context` is the context that the model is used with:
// beyond the one it was trained on, LongRoPE takes its other factors. Throws std::runtime_error for what is
// missing.
std::vector<std::vector<double>> reference_logits(const ModelData& model, std::span<const int32_t> tokens,
                                                  int64_t context = 0);

// One block by itself, for vectors of it: rows (tokens) of the model's width through the mixture of experts
// of a layer, shared expert included.
std::vector<std::vector<double>> reference_experts(const ModelData& model, int64_t layer,
                                                   const std::vector<std::vector<double>>& rows);

}  // namespace lathe::test
