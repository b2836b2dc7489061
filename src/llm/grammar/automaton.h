// Runs a grammar byte by byte, as an automaton that is made as it is needed.
#pragma once
#include "llm/grammar/net.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

namespace lathe {

// A state stands for the set of all ways in which what has been read may be a beginning of the language:
// nodes of the net with the stack of calls that led there. Stacks and sets are hash-consed, so a state is met
// again by number, and what a byte does to it is worked out once.
class GrammarAutomaton {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;             // no text goes on from here
  static constexpr size_t kDeepest = 500;       // calls within calls; what nests deeper is not accepted
  static constexpr size_t kMostWays = 10000;    // of reading a text at the same time
  static constexpr size_t kManyStates = 16384;  // beyond it, a fresh automaton is due

  static constexpr size_t kMostStates = 1 << 17;  // 150 MB, which one mask may come to
  static constexpr size_t kManyVisits = 1 << 20;  // of ways in all states; beyond it, a fresh one is due too
  static constexpr size_t kMostVisits = 1 << 22;  // seconds

  explicit GrammarAutomaton(std::shared_ptr<const GrammarNet> net);
  // One that has only `state` of another; `state` becomes its number here.
  GrammarAutomaton(const GrammarAutomaton& other, State& state);
  GrammarAutomaton(const GrammarAutomaton&) = delete;
  GrammarAutomaton& operator=(const GrammarAutomaton&) = delete;

  State start() const { return start_; }
  bool can_end(State state) const { return states_[state]->can_end; }
  // RuntimeError for a grammar so ambiguous that there are more ways than kMostWays, states than kMostStates,
  // or ways in all states than kMostVisits. Throws Cancelled after cancel().
  State step(State state, uint8_t byte) {
    const State next = states_[state]->next[byte];
    return next != kUnknown ? next : make_step(state, byte);
  }
  // A state that does the same with the next `bytes` bytes: of counted repetitions, which have a state a
  // count, one stands for all whose end is further away.
  State alike(State state, uint32_t bytes);
  bool is_large() const { return states_.size() > kManyStates || visits_ > kManyVisits; }

 private:
  static constexpr State kUnknown = UINT32_MAX;
  static constexpr uint32_t kBottom = 0;  // the empty stack
  struct Frame {                          // a stack: where its last call goes on, and what is below
    uint32_t node, below, depth;
  };
  struct Way {
    uint32_t node, stack;
    auto operator<=>(const Way&) const = default;
  };
  struct StateData {
    std::vector<Way> ways;  // sorted; at nodes that take bytes
    bool can_end = false;
    std::array<State, 256> next;
  };

  uint32_t push(uint32_t node, uint32_t below);
  uint32_t node_alike(uint32_t node, uint32_t bytes) const;
  // A stack of another automaton here, its nodes alike for so many bytes.
  uint32_t copy_stack(const GrammarAutomaton& other, uint32_t stack, uint32_t bytes = UINT32_MAX);
  // The state of all ways that these reach without a byte.
  State close(std::vector<Way> ways);
  State intern(std::vector<Way> ways, bool can_end);
  State make_step(State state, uint8_t byte);

  std::shared_ptr<const GrammarNet> net_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, uint32_t> frame_index_;  // by node and what is below
  std::vector<std::unique_ptr<StateData>> states_;
  std::map<std::pair<bool, std::vector<Way>>, State> index_;
  State start_ = kDead;
  size_t visits_ = 0;
};

}  // namespace lathe
