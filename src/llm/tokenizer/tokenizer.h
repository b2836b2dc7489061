// Text to token ids and back.
#pragma once
#include "llm/tokenizer/token_trie.h"
#include "llm/tokenizer/vocabulary.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

class GgufMetadata;

struct TextRange {
  size_t begin = 0, end = 0;  // bytes
};

struct EncodeOptions {
  // The tokens that the vocabulary wants around a text: BOS, EOS, CLS and SEP.
  bool add_special = true;
  // Control tokens spelled in the text become these tokens. Not for text of strangers.
  bool parse_special = false;
  // With parse_special: where nevertheless none is recognised, in order and apart.
  std::span<const TextRange> plain = {};
};

struct DecodeOptions {
  bool show_special = false;  // control tokens as their names; otherwise they are nothing
};

// A handle to an immutable tokenizer; its methods may be called from several threads.
class Tokenizer {
 public:
  // ValueError for a vocabulary that is not consistent or a model or pre-tokenizer that is not known.
  explicit Tokenizer(Vocabulary vocabulary);
  // From the keys `tokenizer.ggml.*`.
  static Tokenizer from_gguf(const GgufMetadata& metadata);

  // ValueError where a vocabulary without byte tokens and unknown token cannot say it.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  // The bytes that the tokens stand for: text as it was put in, also where that is no UTF-8. The blank that
  // encode() puts in front of a text is taken off again.
  std::string decode(std::span<const int32_t> tokens, DecodeOptions options = {}) const;

  int32_t size() const;
  TokenType type(int32_t id) const;
  bool is_control(int32_t id) const;  // control and unknown tokens, which are no text
  // Bytes that a token stands for in the middle of a text; the name of a control token. IndexError for an id
  // that there is not.
  std::string_view piece(int32_t id) const;
  // The token of that name, control tokens included.
  std::optional<int32_t> find(std::string_view name) const;

  int32_t bos() const;  // Vocabulary::kNone where there is none
  int32_t eos() const;
  bool adds_bos() const;
  bool adds_eos() const;
  // EOS, EOT, EOM and the usual names for the end of an answer.
  std::span<const int32_t> ends_of_generation() const;
  bool is_end_of_generation(int32_t id) const;

  const Vocabulary& vocabulary() const;
  // The bytes of all tokens that are text and end no generation; made when first asked for.
  const TokenTrie& text_trie() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Decodes token by token, and holds back what may become a character with the next one. Bytes that are no
// UTF-8 come out as U+FFFD.
class StreamDecoder {
 public:
  // With `continues` the tokens go on within a text: a leading blank stays.
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {}, bool continues = false)
      : tokenizer_(tokenizer), options_(options), at_start_(!continues) {}
  // What has become certain.
  std::string push(int32_t token);
  // What was held back.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  bool at_start_;
  std::string held_;
};

}  // namespace lathe
