#include "llm/grammar/grammar.h"

#include "base/error.h"
#include "llm/grammar/json_schema.h"

#include <algorithm>
#include <limits>
#include <mutex>

namespace lathe {

// An automaton and, for each of its states, the tokens that may come next, a bit a token.
struct GrammarMatcher::Table {
  // 19 KB each for a vocabulary of 150,000.
  static constexpr size_t kMostMasks = 2048;
  using Mask = std::vector<uint64_t>;

  Table(std::shared_ptr<const GrammarNet> net, const TokenTrie& trie, size_t tokens)
      : automaton(std::move(net)), trie(trie), words((tokens + 63) / 64) {}
  Table(const Table& other, GrammarAutomaton::State& state)
      : automaton(other.automaton, state), trie(other.trie), words(other.words) {}

  const Mask& mask(GrammarAutomaton::State state) {
    if (const auto at = masks.find(state); at != masks.end()) return *at->second;
    if (made >= kMostMasks || masks.size() >= 16 * kMostMasks) {
      masks.clear();
      made = 0;
    }
    const GrammarAutomaton::State alike = automaton.alike(state, trie.deepest());
    std::shared_ptr<const Mask> out;
    if (const auto at = masks.find(alike); at != masks.end()) {
      out = at->second;
    } else {
      auto fresh = std::make_shared<Mask>(words);
      walk(alike, *fresh);
      masks[alike] = out = std::move(fresh);
      made++;
    }
    return *(masks[state] = out);
  }

  // Over all bytes of all tokens, but not beyond one that leads out of the grammar.
  void walk(GrammarAutomaton::State start, Mask& out) {
    struct Open {
      uint32_t end;
      GrammarAutomaton::State state;
    };
    std::vector<Open> path = {{trie.size(), start}};
    const auto nodes = trie.nodes();
    for (uint32_t n = 1; n < trie.size();) {
      while (path.back().end <= n) path.pop_back();
      const GrammarAutomaton::State state = automaton.step(path.back().state, nodes[n].byte);
      if (state == GrammarAutomaton::kDead) {
        n = nodes[n].end;
        continue;
      }
      for (const int32_t id : trie.tokens_at(n))
        out[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
      path.push_back({nodes[n].end, state});
      n++;
    }
  }

  std::mutex mutex;  // of all that follows
  GrammarAutomaton automaton;
  const TokenTrie& trie;
  size_t words;
  std::unordered_map<GrammarAutomaton::State, std::shared_ptr<const Mask>> masks;
  size_t made = 0;
};

struct Grammar::Shared {
  explicit Shared(GrammarNet parsed) : net(std::make_shared<const GrammarNet>(std::move(parsed))) {}
  const std::shared_ptr<const GrammarNet> net;
  std::mutex mutex;  // of what follows
  // Of the tokenizer that was used last; it lives on in `tokenizer`.
  std::optional<Tokenizer> tokenizer;
  std::shared_ptr<GrammarMatcher::Table> table;
};

Result<Grammar> Grammar::from_gbnf(std::string_view text) {
  LATHE_TRY(net, parse_gbnf(text));
  Grammar out;
  out.shared_ = std::make_shared<Shared>(std::move(net));
  return out;
}

Result<Grammar> Grammar::from_json_schema(std::string_view schema) {
  LATHE_TRY(text, json_schema_to_gbnf(schema));
  return from_gbnf(text);
}

Grammar Grammar::json() {
  static const Grammar any = from_json_schema("{}").or_throw();
  return any;
}

GrammarMatcher::GrammarMatcher(const Grammar& grammar, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), grammar_(grammar.shared_) {
  const TokenTrie& trie = tokenizer_.text_trie();
  const std::lock_guard lock(grammar_->mutex);
  if (!grammar_->table || &grammar_->table->trie != &trie) {
    grammar_->table = std::make_shared<Table>(grammar_->net, trie, static_cast<size_t>(tokenizer_.size()));
    grammar_->tokenizer = tokenizer_;
  }
  table_ = grammar_->table;
  state_ = table_->automaton.start();
}

void GrammarMatcher::mask(std::span<float> logits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::lock_guard lock(table_->mutex);
  const Table::Mask* mask = ended_ ? nullptr : &table_->mask(state_);
  std::vector<std::pair<size_t, float>> ends;
  for (const int32_t id : tokenizer_.ends_of_generation())
    if (static_cast<size_t>(id) < logits.size())
      ends.emplace_back(
          id, ended_ || table_->automaton.can_end(state_) ? logits[static_cast<size_t>(id)] : kNever);
  for (size_t i = 0; i < logits.size(); i += 64) {
    const uint64_t bits = mask && i / 64 < mask->size() ? (*mask)[i / 64] : 0;
    if (bits == ~uint64_t{0}) continue;
    for (size_t k = i; k < std::min(logits.size(), i + 64); k++)
      if (!(bits >> (k - i) & 1)) logits[k] = kNever;
  }
  for (const auto& [id, logit] : ends) logits[id] = logit;
}

GrammarAutomaton::State GrammarMatcher::after(std::string_view text) {
  GrammarAutomaton::State state = state_;
  for (const char c : text) state = table_->automaton.step(state, static_cast<uint8_t>(c));
  return state;
}

bool GrammarMatcher::allows(int32_t token) {
  if (is_end(token)) return ended_ || can_end();
  if (ended_ || tokenizer_.is_control(token) || tokenizer_.piece(token).empty()) return false;
  const std::lock_guard lock(table_->mutex);
  return after(tokenizer_.piece(token)) != GrammarAutomaton::kDead;
}

void GrammarMatcher::accept(int32_t token) {
  if (!allows(token))
    value_error("token {} (\"{}\") leads out of the grammar", token, tokenizer_.piece(token));
  if (is_end(token))
    ended_ = true;
  else
    (void)accept_text(tokenizer_.piece(token));
}

bool GrammarMatcher::accept_text(std::string_view text) {
  std::shared_ptr<Table> fresh;
  {
    const std::lock_guard lock(table_->mutex);
    const GrammarAutomaton::State next = ended_ ? GrammarAutomaton::kDead : after(text);
    if (next == GrammarAutomaton::kDead) return false;
    state_ = next;
    // What an endless answer has gone through is forgotten from time to time. Others may still be in this
    // table.
    if (table_->automaton.is_large()) fresh = std::make_shared<Table>(*table_, state_);
  }
  if (!fresh) return true;
  const std::lock_guard lock(grammar_->mutex);
  if (grammar_->table == table_) grammar_->table = fresh;
  table_ = fresh;
  return true;
}

bool GrammarMatcher::can_end() const {
  if (ended_) return true;
  const std::lock_guard lock(table_->mutex);
  return table_->automaton.can_end(state_);
}

bool GrammarMatcher::must_end() {
  if (ended_) return true;
  const std::lock_guard lock(table_->mutex);
  for (int byte = 0; byte < 256; byte++)
    if (table_->automaton.step(state_, static_cast<uint8_t>(byte)) != GrammarAutomaton::kDead) return false;
  return true;
}

}  // namespace lathe
