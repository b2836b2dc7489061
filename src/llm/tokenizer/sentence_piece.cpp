// SentencePiece BPE.
#include "formats/utf8.h"
#include "llm/tokenizer/algorithm.h"
#include "llm/tokenizer/merge.h"

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

class SentencePiece : public TokenizerAlgorithm {
 public:
  SentencePiece(const Vocabulary& vocabulary, const TokenIndex& index, bool space_prefix)
      : index_(index), space_prefix_(space_prefix), memo_(kMemo) {
    // Ranks: equal scores share one, the highest is 0.
    std::vector<float> scores = vocabulary.scores;
    scores.resize(vocabulary.tokens.size());
    for (float& score : scores)
      if (std::isnan(score)) score = -HUGE_VALF;
    std::vector<float> distinct = scores;
    std::sort(distinct.begin(), distinct.end(), std::greater<>());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    rank_count_ = static_cast<int32_t>(distinct.size());
    ranks_.reserve(scores.size());
    for (const float score : scores)
      ranks_.push_back(static_cast<int32_t>(
          std::lower_bound(distinct.begin(), distinct.end(), score, std::greater<>()) - distinct.begin()));
  }

  void encode(std::string_view text, std::vector<int32_t>& out) override {
    if (text.empty()) return;
    const std::string marked = (space_prefix_ ? std::string(kBlank) : "") + with_blanks_marked(text);
    list_.clear();
    for (size_t i = 0; i < marked.size();) {
      const Utf8Step step = decode_utf8(marked, i);
      const size_t length = step.state == Utf8Step::State::Complete ? step.length : 1;
      list_.add(index_.find({marked.data() + i, length}), static_cast<uint32_t>(i));
      i += length;
    }
    list_.run(static_cast<uint32_t>(marked.size()), rank_count_,
              [&](int32_t left, int32_t right, uint32_t begin, uint32_t end) {
                return merge_of(left, right, std::string_view(marked).substr(begin, end - begin));
              });
    list_.each([&](int32_t symbol, uint32_t begin, uint32_t end) {
      if (symbol >= 0)
        out.push_back(symbol);
      else
        index_.append_bytes(std::string_view(marked).substr(begin, end - begin), out);
    });
  }

 private:
  Merge merge_of(int32_t left, int32_t right, std::string_view text) {
    const auto look_up = [&]() -> Merge {
      const int32_t id = index_.find(text);
      return id < 0 ? Merge() : Merge{ranks_[static_cast<size_t>(id)], id};
    };
    if (left < 0 || right < 0) return look_up();  // a character that is no token has no name but its text
    const uint64_t key = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
    Memo& memo = memo_[(key * 0x9E3779B97F4A7C15u) >> 32 & (kMemo - 1)];
    if (memo.left != left || memo.right != right) memo = {left, right, look_up()};
    return memo.merge;
  }

  struct Memo {
    int32_t left = -1, right = -1;
    Merge merge;
  };
  static constexpr size_t kMemo = 1 << 14;
  const TokenIndex& index_;
  bool space_prefix_;
  int32_t rank_count_;
  std::vector<int32_t> ranks_;  // a token
  std::vector<Memo> memo_;      // what pairs of tokens become, as last looked up
  MergeList list_;
};

}  // namespace

std::unique_ptr<TokenizerAlgorithm> make_sentence_piece(const Vocabulary& vocabulary, const TokenIndex& index,
                                                        bool space_prefix) {
  return std::make_unique<SentencePiece>(vocabulary, index, space_prefix);
}

}  // namespace lathe
