// The rewrite driver: applies rules over a whole graph.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>

#include "base/flat_map.h"
#include "uop/matcher.h"

namespace lathe {

struct RewriteOptions {
  ContextRef ctx = {};  // reaches rule functions as m.ctx<T>()
  // Rules applied to a node, over and over, before its sources are visited. `return m.stop();` ends the descent there.
  const Matcher<UOp>* bottom_up = nullptr;
  // One pass: every node is visited once and results are not visited again. A node that a bottom-up rule replaces keeps
  // the replacement as it is.
  bool walk = false;
  std::function<bool(const UOp&)> gate = {};  // false: the node is final as it stands and its sources are not visited
  bool enter_calls = false;                   // visit the bodies of Calls (source 0) too
  const char* name = "";                      // of the pass, for traces
};

// Rewrites the graph of `root`. Greedy unless `walk`: sources first, then rules at the node until none applies; what a rule
// returns is rewritten in turn. Each node is rewritten once and its result shared. Uses no recursion.
// InternalError when rules go round in a circle or never end (knob REWRITE_LIMIT), with the rules that fired.
UOp graph_rewrite(const UOp& root, const Matcher<UOp>& rules, const RewriteOptions& options = {});
// Bottom-up rules only.
UOp graph_rewrite_bottom_up(const UOp& root, const Matcher<UOp>& rules, RewriteOptions options = {});

// Sees every application of a rule in drivers started while it is set. One object serves all threads: members may be
// called at the same time.
class RewriteTracer {
 public:
  virtual ~RewriteTracer() = default;
  virtual void on_pass_begin(const char* pass, const UOp& root) = 0;
  // `nanoseconds`: matching, the rule function and building the replacement.
  virtual void on_match(const RuleInfo& rule, const UOp& before, const UOp& after, uint64_t nanoseconds) = 0;
  virtual void on_pass_end(const char* pass, const UOp& result) = 0;
};
// Null for none. Returns the tracer it replaces, which may still be running in other threads.
RewriteTracer* set_rewrite_tracer(RewriteTracer* tracer);

// A rewrite whose results are shared by several roots: what graph_rewrite runs, for one root.
class Rewriter {
 public:
  Rewriter(const Matcher<UOp>& rules, RewriteOptions options);
  UOp operator()(const UOp& root);
  size_t rewrites() const { return n_rewrites_; }  // rules applied so far

 private:
  // A node on the way from the root to the node at work.
  struct Frame {
    const UOp* node;        // what the result is filed under
    const UOp* now;         // what bottom-up rules have made of it
    const RuleInfo* rule;   // the rule that made `node`, null for nodes of the given graph and rebuilt ones
    size_t slot;            // of `node` in memo_, good while its capacity is `capacity`
    size_t capacity;
    uint32_t next_src = 0;
    uint32_t chain = 0;     // rules applied in a row on the way to this result
    uint32_t depth = 0;     // rules applied on the way from the root to here
    bool changed = false;   // some source has another result than itself
    bool linked = false;    // the result is that of the frame above
  };

  bool start(const UOp* node, const Frame* from, const RuleInfo* rule, uint32_t chain);
  void finish(const UOp* result);
  bool enter(Frame& f);                   // false: finished
  bool apply_bottom_up(Frame& f);         // false: finished
  bool visit_sources(size_t frame);       // false: a source was pushed
  void leave(size_t frame);
  void link(size_t frame, const UOp* to, const RuleInfo* rule);
  UOp rebuild(const Frame& f) const;
  UOp apply(const Matcher<UOp>& rules, const UOp& u);
  const UOp* keep(UOp u) { return &kept_.emplace_back(std::move(u)); }
  bool is_callee(const UOp& u, uint32_t src) const { return src == 0 && u.op() == Op::Call && !options_.enter_calls; }
  [[noreturn]] void fail(const char* what, const RuleInfo* last) const;

  const Matcher<UOp>& rules_;
  const RewriteOptions options_;
  Match match_;
  FlatMap<const Node*, const UOp*> memo_;  // null: at work
  std::vector<Frame> frames_;
  std::deque<UOp> kept_;  // everything made here, so that bare pointers stay good; a deque does not move
  RewriteTracer* tracer_ = nullptr;
  uint32_t limit_;
  size_t n_rewrites_ = 0;
};

}  // namespace lathe
