#include "llm/tokenizer/token_trie.h"

#include <algorithm>

namespace lathe {

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& e) { return e.bytes.empty(); });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    const int order = a.bytes.compare(b.bytes);
    return order != 0 ? order < 0 : a.id < b.id;
  });
  std::vector<uint32_t> path = {0};  // nodes from the root to the last string's end
  nodes_.push_back({});
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  for (const auto& [bytes, id] : entries) {
    const size_t shared = static_cast<size_t>(
        std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end()).first - last.begin());
    close(shared);
    for (size_t i = shared; i < bytes.size(); i++) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), static_cast<uint8_t>(bytes[i])});
    }
    tokens_.push_back(id);
    deepest_ = std::max(deepest_, static_cast<uint32_t>(bytes.size()));
    last = bytes;
  }
  close(0);
  nodes_[0].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({nodes_[0].end + 1, static_cast<uint32_t>(tokens_.size()), 0});
  for (uint32_t n = 1; n < size(); n = nodes_[n].end) root_[nodes_[n].byte] = n;
}

uint32_t TokenTrie::child(uint32_t node, uint8_t byte) const {
  if (node == 0) return root_[byte];
  for (uint32_t n = node + 1; n < nodes_[node].end; n = nodes_[n].end)
    if (nodes_[n].byte >= byte) return nodes_[n].byte == byte ? n : 0;
  return 0;
}

std::optional<TokenTrie::Match> TokenTrie::longest(std::string_view text) const {
  std::optional<Match> out;
  each_prefix(text, [&](int32_t id, size_t length) { out = Match{id, length}; });
  return out;
}

}  // namespace lathe
