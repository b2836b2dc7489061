// WordPiece, as of BERT's uncased models.
#include "formats/utf8.h"
#include "llm/tokenizer/algorithm.h"
#include "llm/tokenizer/token_trie.h"

#include <utf8proc.h>

namespace lathe {
namespace {

bool is_punctuation(char32_t c, utf8proc_category_t category) {
  const bool is_symbol = category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO;
  return (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) || (c < 0x7F && is_symbol);
}

// The ideographs that BERT's tokenizer sets apart.
bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_white_space(char32_t c, utf8proc_category_t category) {
  return (c >= '\t' && c <= '\r') || c == 0x85 ||
         (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

// All of Unicode's C, as BERT has it: also formats, surrogates, private and unassigned code points.
bool is_control(utf8proc_category_t category) {
  return category == UTF8PROC_CATEGORY_CN || category >= UTF8PROC_CATEGORY_CC;
}

class WordPiece : public TokenizerAlgorithm {
 public:
  WordPiece(const Vocabulary& vocabulary, const TokenIndex& index) : index_(index) {
    std::vector<TokenTrie::Entry> entries;
    for (size_t i = 0; i < vocabulary.tokens.size(); i++) {
      const auto id = static_cast<int32_t>(i);
      if (index.find(vocabulary.tokens[i]) == id) entries.push_back({vocabulary.tokens[i], id});
    }
    trie_ = TokenTrie(std::move(entries));
  }

  void encode(std::string_view text, std::vector<int32_t>& out) override {
    std::string word(kBlank);
    const auto finish = [&] {
      if (word.size() > kBlank.size()) encode_word(word, out);
      word = kBlank;
    };
    for (size_t i = 0; i < text.size();) {
      const Utf8Step step = decode_utf8(text, i);
      i += step.length;
      if (step.state != Utf8Step::State::Complete) continue;
      // Longest decomposition in Unicode: 18 code points (U+FDFA), and that is no canonical one.
      utf8proc_int32_t parts[18];
      int last_class = UTF8PROC_BOUNDCLASS_START;
      const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code), parts, 18,
                                                 UTF8PROC_DECOMPOSE, &last_class);
      for (utf8proc_ssize_t k = 0; k < count && k < 18; k++) {
        const auto c = static_cast<char32_t>(parts[k]);
        const utf8proc_category_t category = utf8proc_category(parts[k]);
        if (is_white_space(c, category)) {
          finish();
        } else if (c == 0xFFFD || is_control(category) || category == UTF8PROC_CATEGORY_MN) {
          continue;
        } else if (is_punctuation(c, category) || is_ideograph(c)) {
          finish();
          append_utf8(word, static_cast<char32_t>(utf8proc_tolower(parts[k])));
          finish();
        } else {
          append_utf8(word, static_cast<char32_t>(utf8proc_tolower(parts[k])));
        }
      }
    }
    finish();
  }

 private:
  // Greedy: the longest token, then the longest of the rest.
  void encode_word(const std::string& word, std::vector<int32_t>& out) const {
    const size_t before = out.size();
    for (size_t i = 0; i < word.size();) {
      const auto match = trie_.longest(std::string_view(word).substr(i));
      if (!match) {
        out.resize(before);
        return index_.append_unknown(word, out);
      }
      out.push_back(match->id);
      i += match->length;
    }
  }

  const TokenIndex& index_;
  TokenTrie trie_;
};

}  // namespace

std::unique_ptr<TokenizerAlgorithm> make_word_piece(const Vocabulary& vocabulary, const TokenIndex& index) {
  return std::make_unique<WordPiece>(vocabulary, index);
}

}  // namespace lathe
