// What a tokenizer is made of, in the terms of the GGUF keys `tokenizer.ggml.*`.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lathe {

enum class TokenType : int8_t { Normal = 1, Unknown, Control, UserDefined, Unused, Byte };

struct Vocabulary {
  static constexpr int32_t kNone = -1;

  std::string model = "gpt2";  // gpt2, llama, bert, t5 or gemma4
  std::string pre;             // how text is split before a byte BPE; empty where the file does not say
  // As files store them: byte BPE in the alphabet of byte_alphabet.h, SentencePiece with U+2581 for a blank.
  std::vector<std::string> tokens;
  std::vector<float> scores;        // one a token, or none
  std::vector<TokenType> types;     // one a token, or none: all normal
  std::vector<std::string> merges;  // "left right", best first
  std::string charsmap;             // SentencePiece's compiled normalisation; may be empty

  int32_t bos = kNone, eos = kNone, eot = kNone, eom = kNone, unknown = kNone, separator = kNone;
  int32_t padding = kNone, cls = kNone, mask = kNone;
  // Absent: what is usual for the model and `pre`.
  std::optional<bool> add_bos, add_eos, add_separator, add_space_prefix, remove_extra_whitespaces;

  TokenType type(int32_t id) const {
    return types.empty() ? TokenType::Normal : types[static_cast<size_t>(id)];
  }
};

// ValueError that names the key where a list has another length than `tokens`, a type or an id is none.
void check(const Vocabulary& vocabulary);

}  // namespace lathe
