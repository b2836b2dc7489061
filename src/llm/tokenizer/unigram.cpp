// SentencePiece's Unigram: of all ways to cut a text into tokens, the one of the highest sum of scores.
#include "base/error.h"
#include "formats/utf8.h"
#include "llm/tokenizer/algorithm.h"
#include "llm/tokenizer/token_trie.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lathe {
namespace {

// SentencePiece's compiled normalisation rules: the byte size of a double-array trie (Darts) of 32-bit units,
// the trie, then the replacements that its leaves point at, each ended by a zero.
class CharsMap {
 public:
  explicit CharsMap(std::string_view blob) {
    if (blob.empty()) return;
    uint32_t bytes = 0;
    if (blob.size() >= 4) std::memcpy(&bytes, blob.data(), 4);
    if (blob.size() < 4 || bytes % 4 != 0 || bytes > blob.size() - 4)
      value_error("tokenizer.ggml.precompiled_charsmap: {} bytes do not hold a trie of {}", blob.size(),
                  bytes);
    units_.resize(bytes / 4);
    std::memcpy(units_.data(), blob.data() + 4, bytes);
    replacements_ = blob.substr(4 + bytes);
  }

  struct Rule {
    size_t length = 0;  // bytes that it replaces; 0 where no rule applies
    std::string_view replacement;
  };
  // The rule of the longest beginning of `text`.
  Rule find(std::string_view text) const {
    Rule out;
    size_t node = 0;
    if (!enter_children(node)) return out;  // `node ^ byte` is the child now
    for (size_t i = 0; i < std::min(text.size(), kLongest) && text[i] != '\0'; i++) {
      const auto byte = static_cast<uint8_t>(text[i]);
      node ^= byte;
      if (node >= units_.size() || (units_[node] & 0x800000FFu) != byte) break;
      const bool is_leaf = units_[node] >> 8 & 1;
      if (!enter_children(node)) break;
      if (is_leaf) out = {i + 1, replacement(units_[node] & 0x7FFFFFFFu)};
    }
    return out;
  }

 private:
  // Bytes that a rule replaces: nodes of a damaged trie may form a cycle.
  static constexpr size_t kLongest = 256;
  // From a node to the base of its children; false outside the trie.
  bool enter_children(size_t& node) const {
    if (node >= units_.size()) return false;
    const uint32_t unit = units_[node];
    node ^= static_cast<size_t>(unit >> 10) << ((unit & 1u << 9) >> 6);
    return node < units_.size();
  }
  std::string_view replacement(size_t at) const {
    if (at >= replacements_.size()) return {};
    return replacements_.substr(at, replacements_.find('\0', at) - at);
  }
  std::vector<uint32_t> units_;
  std::string_view replacements_;
};

class Unigram : public TokenizerAlgorithm {
 public:
  Unigram(const Vocabulary& vocabulary, const TokenIndex& index, bool space_prefix)
      : vocabulary_(vocabulary),
        index_(index),
        map_(vocabulary.charsmap),
        space_prefix_(space_prefix),
        merge_spaces_(vocabulary.remove_extra_whitespaces.value_or(true)) {
    std::vector<TokenTrie::Entry> entries;
    double lowest = 0;
    for (size_t i = 0; i < vocabulary.tokens.size(); i++) {
      const auto id = static_cast<int32_t>(i);
      if (index.find(vocabulary.tokens[i]) != id) continue;
      entries.push_back({vocabulary.tokens[i], id});
      if (vocabulary.type(id) == TokenType::Normal) lowest = std::min(lowest, score(id));
    }
    trie_ = TokenTrie(std::move(entries));
    unknown_score_ = lowest - 10;  // SentencePiece's kUnkPenalty
  }

  void encode(std::string_view text, std::vector<int32_t>& out) override {
    const std::string normal = normalized(text);
    struct Best {
      double sum = -HUGE_VAL;
      uint32_t begin = 0;
      int32_t id = Vocabulary::kNone;
    };
    std::vector<Best> best(normal.size() + 1);  // the best way to each byte
    best[0].sum = 0;
    const auto offer = [&](size_t begin, size_t end, int32_t id, double gain) {
      if (best[begin].sum + gain > best[end].sum)
        best[end] = {best[begin].sum + gain, static_cast<uint32_t>(begin), id};
    };
    for (size_t i = 0; i < normal.size();) {
      const size_t character = std::max<size_t>(decode_utf8(normal, i).length, 1);
      bool has_single = false;
      trie_.each_prefix(std::string_view(normal).substr(i), [&](int32_t id, size_t length) {
        has_single = has_single || length == character;
        offer(i, i + length, id, score(id));
      });
      if (!has_single) offer(i, i + character, Vocabulary::kNone, unknown_score_);
      i += character;
    }
    const size_t before = out.size();
    bool after_unknown = false;
    for (size_t end = normal.size(); end > 0; end = best[end].begin) {
      const bool unknown = best[end].id == Vocabulary::kNone;
      if (unknown && after_unknown) continue;  // neighbouring unknown characters are one token
      if (unknown)
        index_.append_unknown(std::string_view(normal).substr(best[end].begin, end - best[end].begin), out);
      else
        out.push_back(best[end].id);
      after_unknown = unknown;
    }
    std::reverse(out.begin() + static_cast<ptrdiff_t>(before), out.end());
  }

 private:
  double score(int32_t id) const {
    if (vocabulary_.type(id) == TokenType::UserDefined) return 0;
    const double s = static_cast<double>(vocabulary_.scores[static_cast<size_t>(id)]);
    return std::isfinite(s) ? s : -1e9;
  }

  std::string normalized(std::string_view text) const {
    std::string out;
    bool in_word = false, prefixed = false;
    const auto add = [&](std::string_view piece) {
      for (const char c : piece) {
        if (c == ' ') {
          in_word = false;
          if (!merge_spaces_) out += kBlank;
          continue;
        }
        if (!in_word) {
          in_word = true;
          if ((space_prefix_ && !prefixed) || (merge_spaces_ && !out.empty())) out += kBlank;
          prefixed = true;
        }
        out += c;
      }
    };
    for (size_t i = 0; i < text.size();) {
      const std::string_view rest = text.substr(i);
      const CharsMap::Rule rule = map_.find(rest);
      const Utf8Step step = decode_utf8(text, i);
      if (rule.length > 0)
        add(rule.replacement);
      else if (step.state == Utf8Step::State::Complete)
        add(rest.substr(0, step.length));
      else
        add("\xEF\xBF\xBD");
      i += rule.length > 0 ? rule.length : step.length;
    }
    return out;
  }

  const Vocabulary& vocabulary_;
  const TokenIndex& index_;
  CharsMap map_;
  TokenTrie trie_;
  bool space_prefix_, merge_spaces_;
  double unknown_score_;
};

}  // namespace

std::unique_ptr<TokenizerAlgorithm> make_unigram(const Vocabulary& vocabulary, const TokenIndex& index,
                                                 bool space_prefix) {
  return std::make_unique<Unigram>(vocabulary, index, space_prefix);
}

}  // namespace lathe
