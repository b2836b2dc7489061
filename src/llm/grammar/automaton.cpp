#include "llm/grammar/automaton.h"

#include "base/error.h"
#include "engine/cancel.h"

#include <algorithm>
#include <set>

namespace lathe {

GrammarAutomaton::GrammarAutomaton(std::shared_ptr<const GrammarNet> net) : net_(std::move(net)) {
  frames_.push_back({0, 0, 0});
  (void)intern({}, false);  // kDead
  start_ = close({{net_->rules[net_->root].start, kBottom}});
}

GrammarAutomaton::GrammarAutomaton(const GrammarAutomaton& other, State& state)
    : GrammarAutomaton(other.net_) {
  std::vector<Way> ways;
  for (const auto& [node, stack] : other.states_[state]->ways)
    ways.push_back({node, copy_stack(other, stack)});
  std::sort(ways.begin(), ways.end());
  state = intern(std::move(ways), other.can_end(state));
}

uint32_t GrammarAutomaton::node_alike(uint32_t node, uint32_t bytes) const {
  const uint32_t end = net_->nodes[node].run_end;
  return end > node && end - node > bytes ? end - bytes : node;
}

uint32_t GrammarAutomaton::copy_stack(const GrammarAutomaton& other, uint32_t stack, uint32_t bytes) {
  std::vector<uint32_t> nodes;
  for (; stack != kBottom; stack = other.frames_[stack].below)
    nodes.push_back(node_alike(other.frames_[stack].node, bytes));
  uint32_t out = kBottom;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) out = push(*node, out);
  return out;
}

GrammarAutomaton::State GrammarAutomaton::alike(State state, uint32_t bytes) {
  if (!net_->has_runs) return state;
  std::vector<Way> ways;
  for (const auto& [node, stack] : states_[state]->ways)
    ways.push_back({node_alike(node, bytes), copy_stack(*this, stack, bytes)});
  std::sort(ways.begin(), ways.end());
  ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
  return intern(std::move(ways), can_end(state));
}

uint32_t GrammarAutomaton::push(uint32_t node, uint32_t below) {
  const uint64_t key = static_cast<uint64_t>(node) << 32 | below;
  const auto [at, fresh] = frame_index_.try_emplace(key, static_cast<uint32_t>(frames_.size()));
  if (fresh) frames_.push_back({node, below, frames_[below].depth + 1});
  return at->second;
}

GrammarAutomaton::State GrammarAutomaton::close(std::vector<Way> todo) {
  std::set<Way> seen(todo.begin(), todo.end());
  std::vector<Way> kept;
  bool can_end = false;
  const auto reach = [&](uint32_t node, uint32_t stack) {
    if (!seen.insert({node, stack}).second) return;
    if (seen.size() > kMostWays)
      user_runtime_error("the grammar is too ambiguous: there are more than {} ways to read the same text",
                         kMostWays);
    todo.push_back({node, stack});
  };
  while (!todo.empty()) {
    if (++visits_ > kMostVisits)
      user_runtime_error("the grammar is too ambiguous: what may follow can be read in more than {} ways",
                         kMostVisits);
    const auto [node, stack] = todo.back();
    todo.pop_back();
    const GrammarNet::Node& n = net_->nodes[node];
    if (!n.edges.empty()) kept.push_back({node, stack});
    for (const uint32_t next : n.jumps) reach(next, stack);
    for (const auto& [rule, target] : n.calls) {
      const uint32_t inner = net_->nodes[target].is_tail ? stack : push(target, stack);
      if (frames_[inner].depth <= kDeepest) reach(net_->rules[rule].start, inner);
    }
    if (n.returns && stack == kBottom)
      can_end = true;
    else if (n.returns)
      reach(frames_[stack].node, frames_[stack].below);
  }
  std::sort(kept.begin(), kept.end());
  return intern(std::move(kept), can_end);
}

GrammarAutomaton::State GrammarAutomaton::intern(std::vector<Way> ways, bool can_end) {
  const auto fresh = static_cast<State>(states_.size());
  const auto [at, is_new] = index_.try_emplace({can_end, ways}, fresh);
  if (is_new) {
    if (states_.size() >= kMostStates) {
      index_.erase(at);
      user_runtime_error("the grammar is too ambiguous: what may follow has more than {} states",
                         kMostStates);
    }
    auto data = std::make_unique<StateData>();
    data->ways = std::move(ways);
    data->can_end = can_end;
    data->next.fill(data->ways.empty() ? kDead : kUnknown);
    states_.push_back(std::move(data));
  }
  return at->second;
}

GrammarAutomaton::State GrammarAutomaton::make_step(State state, uint8_t byte) {
  stop_if_cancelled();
  std::vector<Way> reached;
  int first = 0, last = 255;  // bytes that no edge tells from `byte`
  for (const auto& [node, stack] : states_[state]->ways)
    for (const auto& [low, high, target] : net_->nodes[node].edges)
      if (byte < low) {
        last = std::min(last, low - 1);
      } else if (byte > high) {
        first = std::max(first, high + 1);
      } else {
        reached.push_back({target, stack});
        first = std::max<int>(first, low);
        last = std::min<int>(last, high);
      }
  std::sort(reached.begin(), reached.end());
  reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
  const State next = close(std::move(reached));
  for (int b = first; b <= last; b++) states_[state]->next[static_cast<size_t>(b)] = next;
  return next;
}

}  // namespace lathe
