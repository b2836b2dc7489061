// Puts together the net of a grammar.
#pragma once
#include "llm/grammar/net.h"

#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

namespace lathe {

using CodePointRange = std::pair<char32_t, char32_t>;

// Sorted, without overlaps and without surrogates.
std::vector<CodePointRange> normalized_ranges(std::vector<CodePointRange> ranges);
// All code points that are in none of them.
std::vector<CodePointRange> complement(std::vector<CodePointRange> ranges);

class NetBuilder {
 public:
  // A part of a rule: what leads from `start` to `end` is what it takes.
  struct Fragment {
    uint32_t start, end;
  };
  static constexpr uint32_t kMostNodes = 1 << 18;
  static constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

  Fragment empty();
  Fragment bytes(std::string_view text);
  Fragment code_points(std::vector<CodePointRange> ranges);
  Fragment call(uint32_t rule);
  Fragment sequence(Fragment first, Fragment second);
  Fragment choice(std::span<const Fragment> options);
  Fragment repeat(Fragment what, uint32_t least, uint32_t most);

  uint32_t rule(const std::string& name);  // that of the name; a new one has no body yet
  bool is_defined(uint32_t rule) const { return defined_[rule]; }
  void define(uint32_t rule, Fragment body);
  // More nodes were asked for than there may be; what was made since is not what was asked for.
  bool is_full() const { return net_.nodes.size() >= kMostNodes; }
  const GrammarNet& net() const { return net_; }
  // Works out what follows from the whole, all rules being defined. What comes back is the name of a rule
  // that calls itself before it takes a byte, if there is one.
  std::optional<std::string> finish();
  GrammarNet take(uint32_t root) {
    net_.root = root;
    return std::move(net_);
  }

 private:
  uint32_t node();
  uint32_t unnamed_rule(Fragment body);
  void jump(uint32_t from, uint32_t to) { net_.nodes[from].jumps.push_back(to); }
  void range(uint32_t from, uint32_t to, char32_t low, char32_t high);
  void byte_range(uint32_t from, uint32_t to, std::string_view low, std::string_view high);
  // Rules that a rule may call before it takes a byte, and whether it may return without one.
  std::vector<uint32_t> first_calls(uint32_t rule, bool& returns) const;
  void find_nullable();
  void find_tails();
  void find_runs();

  // Repetitions a{least,most}: nodes `first`, first + 1 … are those before each time.
  struct Repetition {
    uint32_t item, first, least, times;
  };
  GrammarNet net_;
  std::vector<Repetition> repetitions_;
  std::vector<char> defined_;
  std::unordered_map<std::string, uint32_t> by_name_;
};

}  // namespace lathe
