// A trace of rewrites as data: what uop/trace.h wrote, in the order in which it happened.
#pragma once
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct TraceRule {
  uint32_t file, name;  // texts
  uint32_t line, column;
};
struct TraceNode {
  uint32_t op, dtype, arg;     // texts
  uint32_t first_src, n_srcs;  // in Trace::srcs
};
struct TraceEvent {
  enum class Kind : uint8_t { PassBegin, PassEnd, Match };
  Kind kind;
  uint32_t thread;
  uint32_t what = 0;    // PassBegin: the text of the name; Match: the rule
  uint32_t before = 0;  // node; PassBegin: the root
  uint32_t after = 0;   // node; PassEnd: the result
  bool failed = false;  // PassEnd: an error ended the pass, there is no result
  uint64_t ns = 0;      // Match: how long it took; else the time since the trace began
};

struct Trace {
  std::vector<std::string_view> texts;  // lie in the bytes that were read
  std::vector<TraceNode> nodes;
  std::vector<uint32_t> srcs;
  std::vector<TraceRule> rules;  // those that applied, and in a complete trace all others too
  std::vector<TraceEvent> events;
  std::optional<size_t> cut_at;  // the offset at which the bytes end too early: all before it is here

  std::string rule_place(uint32_t rule) const;  // "src/uop/simplify.cpp:123", then ":45" (its column)
  // The graph below a node in the text form that `parse` reads. Up to `limit` nodes, else "".
  std::string graph_text(uint32_t node, size_t limit) const;
};

// The bytes must outlive the trace, and may be anything: a number that refers to nothing is an error, an end
// in the middle is `cut_at`. Memory grows with the size of the bytes only.
Result<Trace> read_trace(std::span<const std::byte> bytes, std::string_view name);

// ---- sums

struct PassTotal {
  std::string_view name;
  uint64_t runs = 0, failed = 0;
  uint64_t nodes_in = 0, nodes_out = 0;  // of the roots and results, summed over the runs
  uint64_t rewrites = 0;                 // with those of passes inside
  uint64_t ns = 0, own_ns = 0;           // with and without the passes inside
};
struct RuleTotal {
  uint32_t rule;
  uint64_t matches = 0, ns = 0;
};
struct TraceTotals {
  std::vector<PassTotal> passes;  // by time, longest first
  std::vector<RuleTotal> rules;   // by time, longest first; then those that never applied, by place
  uint64_t rewrites = 0, ns = 0;  // ns: of the passes that are in no other
};
TraceTotals total(const Trace& trace);

}  // namespace lathe
