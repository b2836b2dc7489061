// The rewrite driver: applies rules over a whole graph.
#pragma once
#include "base/flat_map.h"
#include "uop/matcher.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace lathe {

struct RewriteOptions {
  ContextRef ctx = {};  // reaches rule functions as m.ctx<T>()
  // Rules applied to a node, over and over, before its sources are visited. `return m.stop();` ends the
  // descent there.
  const Matcher<UOp>* bottom_up = nullptr;
  // One pass: every node is visited once and results are not visited again. A node that a bottom-up rule
  // replaces keeps the replacement as it is.
  bool walk = false;
  std::function<bool(const UOp&)> gate =
      {};                    // false: the node is final as it stands and its sources are not visited
  bool enter_calls = false;  // visit the bodies of Calls (source 0) too
  const char* name = "";     // of the pass, for traces
};

// Rewrites the graph of `root`. Greedy unless `walk`: sources first, then rules at the node until none
// applies; what a rule returns is rewritten in turn. Each node is rewritten once and its result shared. Uses
// no recursion. InternalError when rules go round in a circle or never end (knob REWRITE_LIMIT), with the
// rules that fired.
UOp graph_rewrite(const UOp& root, const Matcher<UOp>& rules, const RewriteOptions& options = {});

// Sees every application of a rule in drivers started while it is set. One object serves all threads: members
// may be called at the same time, and must not throw.
class RewriteTracer {
 public:
  virtual ~RewriteTracer() = default;
  virtual void on_pass_begin(std::string_view pass, const UOp& root) = 0;
  // `nanoseconds`: matching, the rule function and building the replacement.
  virtual void on_match(const RuleInfo& rule, const UOp& before, const UOp& after, uint64_t nanoseconds) = 0;
  virtual void on_pass_end(std::string_view pass, const UOp& result) = 0;  // null: an error ended the pass
};
// Null for none, which is what there is unless the knob TRACE names a file (uop/trace.h).
RewriteTracer* rewrite_tracer();
// Returns the tracer it replaces, which may still be running in other threads.
RewriteTracer* set_rewrite_tracer(RewriteTracer* tracer);

// What runs in its scope is one pass to the tracer, with the passes it starts inside.
class [[nodiscard]] TracedPass {
 public:
  TracedPass(std::string_view name, const UOp& root, RewriteTracer* tracer = rewrite_tracer())
      : tracer_(tracer), name_(name) {
    if (tracer_) tracer_->on_pass_begin(name_, root);
  }
  ~TracedPass() {
    if (tracer_) tracer_->on_pass_end(name_, {});
  }
  TracedPass(const TracedPass&) = delete;
  TracedPass& operator=(const TracedPass&) = delete;
  void finish(const UOp& result) {
    if (tracer_) tracer_->on_pass_end(name_, result);
    tracer_ = nullptr;
  }

 private:
  RewriteTracer* tracer_;
  std::string_view name_;
};

// A rewrite whose results are shared by several roots: what graph_rewrite runs, for one root.
class Rewriter {
 public:
  Rewriter(const Matcher<UOp>& rules, RewriteOptions options);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;
  UOp operator()(const UOp& root);
  size_t rewrites() const { return n_rewrites_; }  // rules applied so far

 private:
  // What a rewrite has made, alive until its end so that bare pointers to nodes and handles stay good.
  class KeptNodes {
   public:
    const UOp* add(UOp u) {
      if (free_ == end_) grow();
      *free_ = std::move(u);
      return free_++;
    }

   private:
    static constexpr size_t kFirst = 16, kMore = 256;
    void grow() {
      chunks_.push_back(std::make_unique<UOp[]>(kMore));
      free_ = chunks_.back().get();
      end_ = free_ + kMore;
    }
    UOp first_[kFirst];
    std::vector<std::unique_ptr<UOp[]>> chunks_;
    UOp* free_ = first_;
    UOp* end_ = first_ + kFirst;
  };

  // A node on the way from the root to the node at work.
  struct Frame {
    const UOp* node;
    const RuleInfo* rule;  // the rule that made `node`; null for nodes of the given graph and rebuilt ones
    size_t slot;           // of `node` in memo_, unless memo_ has grown since
    uint32_t next_src = 0;
    uint32_t chain = 0;    // rules applied in a row to what will be the result here
    uint32_t depth = 0;    // rules applied on the way from the root to here
    bool opened = false;   // the gate and the bottom-up rules have been asked
    bool changed = false;  // some source has another result than itself
    bool linked = false;   // the result is that of the frame above
  };

  void step();
  bool visit_sources();
  void push(const UOp* node, size_t slot, const RuleInfo* rule, uint32_t chain, uint32_t depth);
  void replace(const UOp* by, const RuleInfo* rule);
  void finish(const UOp* result);
  void extend_depth_limit(const UOp& node, const RuleInfo* rule);
  UOp rebuild(const UOp& u) const;
  UOp apply(const Matcher<UOp>& rules, const UOp& u);
  const UOp* keep(UOp u) { return kept_.add(std::move(u)); }
  bool is_body(const UOp& u, uint32_t src) const {
    return src == 0 && u.op() == Op::Call && !options_.enter_calls;
  }
  bool is_fixed_point(const UOp& u) const {
    return u.node()->fixed_points.load(std::memory_order_relaxed) & fixed_point_bit_;
  }
  [[noreturn]] void fail(std::string_view what, const UOp& node, const RuleInfo* last) const;

  const Matcher<UOp>& rules_;
  const RewriteOptions options_;
  Match match_;
  FlatMap<const Node*, const UOp*> memo_;  // result of each node; null while at work
  std::vector<Frame> frames_;
  KeptNodes kept_;
  const UOp* root_ = nullptr;
  const UOp* result_ = nullptr;
  size_t depth_limit_ = 0;
  RewriteTracer* tracer_ = nullptr;
  const uint32_t limit_;
  const Matcher<UOp>* const entry_rules_;
  const bool needs_opening_;
  const uint32_t fixed_point_bit_;  // 0: fixed points of this rewrite are not noted on nodes
  size_t n_rewrites_ = 0;
};

}  // namespace lathe
