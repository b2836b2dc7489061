// The four ways from text to tokens. Each takes a text without special tokens; none keeps anything between
// two texts that would change what comes out.
#pragma once
#include "llm/tokenizer/vocabulary.h"

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lathe {

class PreTokenizer;

// The blank of SentencePiece, U+2581.
inline constexpr std::string_view kBlank = "\xE2\x96\x81";
std::string with_blanks_marked(std::string_view text);

// What text may become: normal, user-defined and unused tokens by the text they are matched with. Control
// tokens are not here, so that no text can spell one.
class TokenIndex {
 public:
  // `spellings`, one a token, must outlive it.
  TokenIndex(const Vocabulary& vocabulary, std::span<const std::string> spellings);
  int32_t find(std::string_view text) const {  // Vocabulary::kNone where there is none
    if (text.size() > longest_) return Vocabulary::kNone;
    const auto at = ids_.find(text);
    return at == ids_.end() ? Vocabulary::kNone : at->second;
  }
  size_t longest() const { return longest_; }
  // Appends the tokens of bytes that are in no token of more: `<0xXX>`, else the unknown token; ValueError
  // where the vocabulary has neither.
  void append_bytes(std::string_view bytes, std::vector<int32_t>& out) const;
  // Appends the unknown token; ValueError where there is none.
  void append_unknown(std::string_view text, std::vector<int32_t>& out) const;

 private:
  std::unordered_map<std::string_view, int32_t> ids_;
  std::array<int32_t, 256> bytes_;
  int32_t unknown_;
  size_t longest_ = 0;
};

// The byte of a token `<0xXX>`, or -1.
int byte_of(std::string_view token);

class TokenizerAlgorithm {
 public:
  virtual ~TokenizerAlgorithm() = default;
  // Appends the tokens of `text`, which begins the input or follows a special token. Not for two threads at
  // once.
  virtual void encode(std::string_view text, std::vector<int32_t>& out) = 0;
};

// All keep references to what they are given.
std::unique_ptr<TokenizerAlgorithm> make_byte_pair(const Vocabulary& vocabulary, const TokenIndex& index,
                                                   const PreTokenizer& pre);
// The forms of SentencePiece put a blank in front when `space_prefix`.
std::unique_ptr<TokenizerAlgorithm> make_sentence_piece(const Vocabulary& vocabulary, const TokenIndex& index,
                                                        bool space_prefix);
std::unique_ptr<TokenizerAlgorithm> make_unigram(const Vocabulary& vocabulary, const TokenIndex& index,
                                                 bool space_prefix);
std::unique_ptr<TokenizerAlgorithm> make_word_piece(const Vocabulary& vocabulary, const TokenIndex& index);

}  // namespace lathe
