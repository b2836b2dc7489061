// Constrained decoding: only tokens that keep the answer within a grammar.
#pragma once
#include "base/result.h"
#include "llm/grammar/automaton.h"
#include "llm/tokenizer/tokenizer.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace lathe {

// A handle to an immutable grammar and to what has been worked out about it, masks of tokens above all: keep
// it for requests to come. May be used by several threads.
class Grammar {
 public:
  // GBNF (see net.h) and JSON Schema (see json_schema.h). Errors have offset and reason.
  static Result<Grammar> from_gbnf(std::string_view text);
  static Result<Grammar> from_json_schema(std::string_view schema);
  // Any JSON value.
  static Grammar json();

 private:
  friend class GrammarMatcher;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// Where one answer is in its grammar. The methods throw a RuntimeError for a grammar that is too ambiguous.
class GrammarMatcher {
 public:
  GrammarMatcher(const Grammar& grammar, const Tokenizer& tokenizer);
  // Sets the logits of tokens that cannot come next to -inf: those with a byte that leads out of the grammar,
  // control tokens, and tokens that end a generation unless the answer may end here.
  void mask(std::span<float> logits);
  bool allows(int32_t token);
  // Moves on. ValueError for a token that is not allowed; then nothing has changed. One that ends a
  // generation leaves nothing to come.
  void accept(int32_t token);
  // The same for text that was given by other means; false, without a change, where it leads out.
  bool accept_text(std::string_view text);
  // Whether the answer is complete, though more may be possible.
  bool can_end() const;
  // Whether nothing but an end is possible.
  bool must_end();

 private:
  GrammarAutomaton::State after(std::string_view text);
  bool is_end(int32_t token) const { return tokenizer_.is_end_of_generation(token); }

  Tokenizer tokenizer_;
  std::shared_ptr<Grammar::Shared> grammar_;
  struct Table;  // automaton and masks
  friend class Grammar;
  std::shared_ptr<Table> table_;
  GrammarAutomaton::State state_ = GrammarAutomaton::kDead;
  bool ended_ = false;
};

}  // namespace lathe
