#include "viz/trace.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace lathe {
namespace {

// Nodes below a node, itself included.
class NodeCounter {
 public:
  explicit NodeCounter(const Trace& trace) : trace_(trace), seen_(trace.nodes.size()) {}
  uint64_t count(uint32_t root) {
    const auto [it, fresh] = counts_.try_emplace(root, 0);
    if (!fresh) return it->second;
    round_++;
    seen_[root] = round_;
    std::vector<uint32_t> todo{root};
    uint64_t n = 0;
    for (; !todo.empty(); n++) {
      const TraceNode& node = trace_.nodes[todo.back()];
      todo.pop_back();
      for (uint32_t k = 0; k < node.n_srcs; k++)
        if (const uint32_t s = trace_.srcs[node.first_src + k]; std::exchange(seen_[s], round_) != round_)
          todo.push_back(s);
    }
    return it->second = n;
  }

 private:
  const Trace& trace_;
  std::vector<uint32_t> seen_;  // the round that met the node last
  uint32_t round_ = 0;
  std::unordered_map<uint32_t, uint64_t> counts_;
};

struct OpenPass {
  size_t pass;  // in TraceTotals::passes
  uint64_t start, inner_ns = 0, rewrites = 0;
};

}  // namespace

TraceTotals total(const Trace& trace) {
  TraceTotals out;
  NodeCounter counter(trace);
  std::unordered_map<uint32_t, size_t> pass_of_name;
  std::unordered_map<uint32_t, std::vector<OpenPass>> open;  // by thread
  for (size_t i = 0; i < trace.rules.size(); i++) out.rules.push_back({static_cast<uint32_t>(i)});
  for (const TraceEvent& e : trace.events) {
    std::vector<OpenPass>& stack = open[e.thread];
    if (e.kind == TraceEvent::Kind::Match) {
      out.rules[e.what].matches++;
      out.rules[e.what].ns += e.ns;
      out.rewrites++;
      if (!stack.empty()) stack.back().rewrites++;
    } else if (e.kind == TraceEvent::Kind::PassBegin) {
      const auto [it, fresh] = pass_of_name.try_emplace(e.what, out.passes.size());
      if (fresh) out.passes.push_back({.name = trace.texts[e.what]});
      PassTotal& p = out.passes[it->second];
      p.runs++;
      p.nodes_in += counter.count(e.before);
      stack.push_back({it->second, e.ns});
    } else if (!stack.empty()) {
      const OpenPass done = stack.back();
      stack.pop_back();
      PassTotal& p = out.passes[done.pass];
      const uint64_t ns = e.ns - done.start;
      p.failed += e.failed;
      p.nodes_out += e.failed ? 0 : counter.count(e.after);
      p.own_ns += ns - std::min(ns, done.inner_ns);
      // What a pass inside one of its own name does is counted with that one.
      if (std::none_of(stack.begin(), stack.end(), [&](const OpenPass& o) { return o.pass == done.pass; })) {
        p.ns += ns;
        p.rewrites += done.rewrites;
      }
      if (stack.empty()) {
        out.ns += ns;
      } else {
        stack.back().inner_ns += ns;
        stack.back().rewrites += done.rewrites;
      }
    }
  }
  std::sort(out.passes.begin(), out.passes.end(), [](const PassTotal& a, const PassTotal& b) {
    return std::tie(b.ns, a.name) < std::tie(a.ns, b.name);
  });
  std::sort(out.rules.begin(), out.rules.end(), [&](const RuleTotal& a, const RuleTotal& b) {
    if (a.matches == 0 || b.matches == 0) {
      if ((a.matches == 0) != (b.matches == 0)) return b.matches == 0;
      return trace.rule_place(a.rule) < trace.rule_place(b.rule);
    }
    return std::tie(b.ns, a.rule) < std::tie(a.ns, b.rule);
  });
  return out;
}

}  // namespace lathe
