// A set of byte strings with token ids, as a tree in one array.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lathe {

class TokenTrie {
 public:
  // Nodes lie in preorder: the first child of a node follows it, and a node's subtree ends where its next
  // sibling is. So do the tokens: those of a subtree are neighbours.
  struct Node {
    uint32_t end = 0;          // one past the last node of the subtree
    uint32_t first_token = 0;  // in tokens(): what ends here, then what ends below
    uint8_t byte = 0;          // that leads here
  };
  struct Entry {
    std::string_view bytes;  // empty ones are left out
    int32_t id;
  };
  struct Match {
    int32_t id;
    size_t length;
  };

  TokenTrie() : TokenTrie(std::vector<Entry>()) {}
  explicit TokenTrie(std::vector<Entry> entries);

  // The root is node 0; one more node stands behind the last, so that `first_token` of any end exists.
  std::span<const Node> nodes() const { return nodes_; }
  uint32_t size() const { return nodes_[0].end; }
  uint32_t deepest() const { return deepest_; }  // bytes of the longest token
  std::span<const int32_t> tokens() const { return tokens_; }
  std::span<const int32_t> tokens_at(uint32_t node) const {
    const uint32_t first = nodes_[node].first_token;
    return std::span(tokens_).subspan(first, nodes_[node + 1].first_token - first);
  }
  // 0 where there is none.
  uint32_t child(uint32_t node, uint8_t byte) const;

  bool may_begin(char byte) const { return root_[static_cast<uint8_t>(byte)] != 0; }
  std::optional<Match> longest(std::string_view text) const;
  // Calls f(id, length) for every token that `text` begins with, the shortest first; of equal strings the
  // first.
  template <class F>
  void each_prefix(std::string_view text, F&& f) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); i++) {
      node = child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) return;
      if (const auto here = tokens_at(node); !here.empty()) f(here[0], i + 1);
    }
  }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;
  uint32_t deepest_ = 0;
  std::array<uint32_t, 256> root_{};  // children of the root
};

}  // namespace lathe
