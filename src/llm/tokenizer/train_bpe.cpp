#include "llm/tokenizer/train_bpe.h"

#include "base/error.h"
#include "llm/tokenizer/byte_alphabet.h"
#include "llm/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace lathe {
namespace {

constexpr int32_t kBytes = 256;

struct Word {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

// The different pieces of the texts, in order of appearance.
std::vector<Word> count_words(std::span<const std::string_view> texts, const PreTokenizer& pre) {
  std::vector<Word> words;
  std::unordered_map<std::string_view, size_t> index;
  std::vector<std::string_view> pieces;
  for (const std::string_view text : texts) {
    pieces.clear();
    pre.split(text, pieces);
    for (const std::string_view piece : pieces) {
      const auto [at, is_new] = index.try_emplace(piece, words.size());
      if (is_new) {
        Word& word = words.emplace_back();
        for (const char c : piece) word.symbols.push_back(static_cast<uint8_t>(c));
      }
      words[at->second].count++;
    }
  }
  return words;
}

// Counts of neighbours, kept up to date while pairs are merged.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)) {
    for (size_t w = 0; w < words_.size(); w++) {
      const std::vector<int32_t>& s = words_[w].symbols;
      for (size_t i = 0; i + 1 < s.size(); i++) add(key(s[i], s[i + 1]), words_[w].count, w);
    }
    for (const auto& [pair, info] : pairs_) queue_.push({info.count, pair});
    changed_.clear();
  }
  struct Pair {
    int32_t left, right;
  };
  // The most frequent pair, if any occurs twice.
  std::optional<Pair> best() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      if (top.count < 2) return std::nullopt;
      queue_.pop();
      // A candidate from before a change is stale; another one with the count of now is in the queue.
      if (const auto at = pairs_.find(top.pair); at != pairs_.end() && at->second.count == top.count)
        return Pair{static_cast<int32_t>(top.pair >> 32), static_cast<int32_t>(top.pair & 0xFFFFFFFF)};
    }
    return std::nullopt;
  }
  void merge(Pair pair, int32_t symbol) {
    std::vector<size_t> in = std::move(pairs_.at(key(pair.left, pair.right)).words);
    std::sort(in.begin(), in.end());
    in.erase(std::unique(in.begin(), in.end()), in.end());
    for (const size_t w : in) merge_in(w, pair, symbol);
    pairs_.erase(key(pair.left, pair.right));
    for (const uint64_t k : changed_)
      if (const auto at = pairs_.find(k); at != pairs_.end()) queue_.push({at->second.count, k});
    changed_.clear();
  }

 private:
  struct Info {
    int64_t count = 0;
    std::vector<size_t> words;  // where it occurs or has occurred
  };
  struct Candidate {
    int64_t count;
    uint64_t pair;
    // The top of a queue is the largest: the highest count, then the lowest ids.
    bool operator<(const Candidate& other) const {
      return std::tie(count, other.pair) < std::tie(other.count, pair);
    }
  };
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
  }
  void add(uint64_t pair, int64_t count, size_t word) {
    Info& info = pairs_[pair];
    info.count += count;
    if (count > 0 && (info.words.empty() || info.words.back() != word)) info.words.push_back(word);
    changed_.push_back(pair);
  }
  void merge_in(size_t w, Pair pair, int32_t symbol) {
    std::vector<int32_t>& s = words_[w].symbols;
    const int64_t count = words_[w].count;
    size_t to = 0;
    for (size_t i = 0; i < s.size(); i++) {
      if (i + 1 == s.size() || s[i] != pair.left || s[i + 1] != pair.right) {
        s[to++] = s[i];
        continue;
      }
      if (to > 0) add(key(s[to - 1], pair.left), -count, w), add(key(s[to - 1], symbol), count, w);
      if (i + 2 < s.size()) add(key(pair.right, s[i + 2]), -count, w), add(key(symbol, s[i + 2]), count, w);
      s[to++] = symbol;
      i++;
    }
    s.resize(to);
  }

  std::vector<Word> words_;
  std::unordered_map<uint64_t, Info> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<uint64_t> changed_;
};

}  // namespace

Vocabulary train_bpe(std::span<const std::string_view> texts, const TrainBpeOptions& options) {
  const size_t fixed = kBytes + options.control_tokens.size();
  if (options.vocabulary < fixed)
    value_error("a vocabulary of {} tokens has no room for {} bytes and {} control tokens",
                options.vocabulary, kBytes, options.control_tokens.size());
  Vocabulary out;
  out.model = "gpt2";
  out.pre = options.pre;
  for (int32_t byte = 0; byte < kBytes; byte++)
    out.tokens.push_back(bytes_to_characters(std::string(1, static_cast<char>(byte))));
  std::unordered_set<std::string> known(out.tokens.begin(), out.tokens.end());
  PairCounts pairs(count_words(texts, PreTokenizer::named(options.pre)));
  while (out.tokens.size() + options.control_tokens.size() < options.vocabulary) {
    const auto best = pairs.best();
    if (!best) break;
    const std::string& left = out.tokens[static_cast<size_t>(best->left)];
    const std::string& right = out.tokens[static_cast<size_t>(best->right)];
    if (!known.insert(left + right).second) continue;  // as "ab" + "c" after "a" + "bc": one token, one way
    out.merges.push_back(left + " " + right);
    out.tokens.push_back(left + right);
    pairs.merge(*best, static_cast<int32_t>(out.tokens.size()) - 1);
  }
  out.types.assign(out.tokens.size(), TokenType::Normal);
  for (const std::string& token : options.control_tokens) {
    if (!known.insert(token).second)
      value_error("the control token \"{}\" is in the vocabulary twice", token);
    out.tokens.push_back(token);
    out.types.push_back(TokenType::Control);
  }
  return out;
}

}  // namespace lathe
