// Byte-level BPE, and its form over characters (gemma4).
#include "base/error.h"
#include "formats/utf8.h"
#include "llm/tokenizer/algorithm.h"
#include "llm/tokenizer/byte_alphabet.h"
#include "llm/tokenizer/merge.h"
#include "llm/tokenizer/pre_tokenizer.h"

#include <bit>

namespace lathe {
namespace {

// (left, right) → Merge, in open addressing.
class PairTable {
 public:
  explicit PairTable(size_t pairs) : slots_(std::bit_ceil(pairs * 2 + 2)) {}
  // The first of two equal pairs stays.
  void add(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[position(left, right)];
    if (slot.left < 0) slot = {left, right, merge};
  }
  Merge find(int32_t left, int32_t right) const { return slots_[position(left, right)].merge; }

 private:
  struct Slot {
    int32_t left = -1, right = -1;
    Merge merge;
  };
  size_t position(int32_t left, int32_t right) const {
    const uint64_t key = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
    size_t i = (key * 0x9E3779B97F4A7C15u) >> 20 & (slots_.size() - 1);
    while (slots_[i].left >= 0 && (slots_[i].left != left || slots_[i].right != right))
      i = (i + 1) & (slots_.size() - 1);
    return i;
  }
  std::vector<Slot> slots_;
};

class BytePair : public TokenizerAlgorithm {
 public:
  BytePair(const Vocabulary& vocabulary, const TokenIndex& index, const PreTokenizer& pre)
      : index_(index),
        pre_(pre),
        by_character_(vocabulary.model == "gemma4"),
        vocabulary_size_(static_cast<int32_t>(vocabulary.tokens.size())),
        rank_count_(static_cast<int32_t>(vocabulary.merges.size())),
        pairs_(vocabulary.merges.size()) {
    for (size_t b = 0; b < 256; b++) bytes_[b] = symbol_of(std::string(1, static_cast<char>(b)));
    for (size_t i = 0; i < vocabulary.merges.size(); i++) add_merge(vocabulary.merges[i], i);
  }

  void encode(std::string_view text, std::vector<int32_t>& out) override {
    std::string marked;
    if (by_character_) text = marked = with_blanks_marked(text);
    pieces_.clear();
    pre_.split(text, pieces_);
    for (const std::string_view piece : pieces_) {
      if (piece.size() > kCachedBytes) {
        encode_piece(piece, out);
        continue;
      }
      key_ = piece;
      auto known = cache_.find(key_);
      if (known == cache_.end()) {
        if (cache_.size() >= kCachedPieces) cache_.clear();
        std::vector<int32_t> tokens;
        encode_piece(piece, tokens);
        known = cache_.emplace(key_, std::move(tokens)).first;
      }
      out.insert(out.end(), known->second.begin(), known->second.end());
    }
  }

 private:
  // The token of that text, or a symbol above all tokens that stands for it.
  int32_t symbol_of(const std::string& text) {
    if (const int32_t id = index_.find(text); id != Vocabulary::kNone) return id;
    const auto fresh = static_cast<int32_t>(vocabulary_size_ + static_cast<int32_t>(others_.size()));
    return others_.try_emplace(text, fresh).first->second;
  }
  void add_merge(const std::string& merge, size_t rank) {
    const size_t blank = merge.find(' ', 1);  // the left part is not empty, but may be a blank
    if (blank == merge.npos || blank + 1 == merge.size())
      value_error("tokenizer.ggml.merges[{}] = \"{}\" is not two parts with a blank between", rank, merge);
    std::string left = merge.substr(0, blank), right = merge.substr(blank + 1);
    if (!by_character_) {
      left = characters_to_bytes(left);
      right = characters_to_bytes(right);
    }
    pairs_.add(symbol_of(left), symbol_of(right), {static_cast<int32_t>(rank), symbol_of(left + right)});
  }

  void encode_piece(std::string_view piece, std::vector<int32_t>& out) {
    if (pre_.ignore_merges())
      if (const int32_t whole = index_.find(piece); whole != Vocabulary::kNone) return out.push_back(whole);
    list_.clear();
    for (size_t i = 0; i < piece.size();) {
      const Utf8Step step = by_character_ ? decode_utf8(piece, i) : Utf8Step();
      const bool whole = step.state == Utf8Step::State::Complete;
      list_.add(whole ? character(piece.substr(i, step.length)) : bytes_[static_cast<uint8_t>(piece[i])],
                static_cast<uint32_t>(i));
      i += whole ? step.length : 1;
    }
    list_.run(static_cast<uint32_t>(piece.size()), rank_count_,
              [&](int32_t left, int32_t right, uint32_t, uint32_t) { return pairs_.find(left, right); });
    list_.each([&](int32_t symbol, uint32_t begin, uint32_t end) {
      if (symbol >= 0 && symbol < vocabulary_size_)
        out.push_back(symbol);
      else
        append_parts(piece.substr(begin, end - begin), out);
    });
  }
  int32_t character(std::string_view text) const {
    if (const int32_t id = index_.find(text); id != Vocabulary::kNone) return id;
    const auto at = others_.find(std::string(text));
    return at == others_.end() ? kNoSymbol : at->second;
  }
  // Of a symbol that is no token.
  void append_parts(std::string_view text, std::vector<int32_t>& out) const {
    for (size_t i = 0; i < text.size(); i++)
      if (const int32_t id = by_character_ ? Vocabulary::kNone : bytes_[static_cast<uint8_t>(text[i])];
          id >= 0 && id < vocabulary_size_)
        out.push_back(id);
      else
        index_.append_bytes(text.substr(i, 1), out);
  }

  static constexpr int32_t kNoSymbol = std::numeric_limits<int32_t>::max();  // in no pair
  const TokenIndex& index_;
  const PreTokenizer& pre_;
  bool by_character_;
  int32_t vocabulary_size_, rank_count_;
  std::unordered_map<std::string, int32_t> others_;  // symbols that are no tokens
  std::array<int32_t, 256> bytes_;
  PairTable pairs_;
  MergeList list_;
  static constexpr size_t kCachedPieces = 1 << 15, kCachedBytes = 48;
  std::unordered_map<std::string, std::vector<int32_t>> cache_;  // what pieces have become
  std::vector<std::string_view> pieces_;
  std::string key_;
};

}  // namespace

std::unique_ptr<TokenizerAlgorithm> make_byte_pair(const Vocabulary& vocabulary, const TokenIndex& index,
                                                   const PreTokenizer& pre) {
  return std::make_unique<BytePair>(vocabulary, index, pre);
}

}  // namespace lathe
