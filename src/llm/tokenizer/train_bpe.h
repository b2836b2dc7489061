// Learns the vocabulary of a byte-level BPE from text.
#pragma once
#include "llm/tokenizer/vocabulary.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct TrainBpeOptions {
  size_t vocabulary = 4096;                      // tokens: 256 bytes, what merges make, control tokens
  std::string pre = "qwen2";                     // how text is cut into pieces; no token is longer than one
  std::vector<std::string> control_tokens = {};  // get the last ids
};

// Tokens and merges of at most `vocabulary` tokens; fewer where no pair of neighbours occurs twice. Starting
// from bytes, whose ids are their values, it merges the most frequent pair of neighbours again and again; of
// equally frequent ones that of the lowest ids. So the result depends on the texts alone. ValueError for a
// vocabulary with no room for the bytes and the control tokens, for an unknown `pre`, and for two control
// tokens that are the same. Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with
// Subword Units", 2016.
Vocabulary train_bpe(std::span<const std::string_view> texts, const TrainBpeOptions& options);

}  // namespace lathe
