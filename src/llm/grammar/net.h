// A context-free grammar over bytes as a net of small automata, one a rule.
#pragma once
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct GrammarNet {
  struct Edge {
    uint8_t low, high;  // bytes that lead to the target, both ends included
    uint32_t target;
  };
  struct Call {
    uint32_t rule;
    uint32_t target;  // where it goes on behind what the rule takes
  };
  struct Node {
    std::vector<Edge> edges;
    std::vector<Call> calls;
    std::vector<uint32_t> jumps;  // without taking a byte
    bool returns = false;         // the rule may end here
    bool is_tail = false;         // all it can do is return: a call that leads here needs no way back
    // Of counted repetitions: from here to this node all nodes do the same, each one time after the other,
    // and each time takes a byte. 0 elsewhere.
    uint32_t run_end = 0;
  };
  struct Rule {
    std::string name;  // empty for the parts of others
    uint32_t start = 0;
    bool is_nullable = false;
  };
  std::vector<Node> nodes;
  std::vector<Rule> rules;
  uint32_t root = 0;  // a rule
  bool has_runs = false;
};

// Reads GBNF, the notation of llama.cpp: `name ::= alternatives`, where an alternative is a sequence of
// "text", [a-z], [^a-z], ., names and (groups), each with *, +, ?, {m}, {m,} or {m,n} behind; # starts a
// comment, and
// \n \r \t \\ \" \[ \] \- \^ \xXX \uXXXX \UXXXXXXXX are escapes. The rule `root` is what is accepted. Errors
// have offset and reason: syntax, names without a rule or with two, rules that call themselves before they
// take a byte, groups deeper than 100, more than 2^18 nodes.
Result<GrammarNet> parse_gbnf(std::string_view text, std::string_view where = "grammar");

// `text` as a string literal of GBNF.
std::string gbnf_literal(std::string_view text);

}  // namespace lathe
