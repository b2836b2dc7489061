#include "uop/rewrite.h"

#include "base/knobs.h"
#include "uop/trace.h"

#include <algorithm>
#include <chrono>

namespace lathe {

// 0 is a driver without the hook for tracers, which bench/trace_overhead compares with this one.
#ifndef LATHE_TRACE_HOOK
#define LATHE_TRACE_HOOK 1
#endif

namespace {

constexpr bool kTraceHook = LATHE_TRACE_HOOK;
std::atomic<RewriteTracer*> g_tracer{nullptr};

// Rules may nest new work below what they make; only growth without end gets this many times deeper than
// REWRITE_LIMIT, apart from graphs so deep that rules on the way down take them there.
constexpr size_t kDepthFactor = 100;
constexpr size_t kRulesInMessage = 16;

using Clock = std::chrono::steady_clock;

}  // namespace

RewriteTracer* rewrite_tracer() {
  static const bool started = [] {
    if (RewriteTracer* writer = trace_writer_of_knob()) g_tracer.store(writer, std::memory_order_release);
    return true;
  }();
  return started ? g_tracer.load(std::memory_order_acquire) : nullptr;
}

RewriteTracer* set_rewrite_tracer(RewriteTracer* tracer) {
  rewrite_tracer();  // the knob is not read later, over what is set here
  return g_tracer.exchange(tracer);
}

Rewriter::Rewriter(const Matcher<UOp>& rules, RewriteOptions options)
    : rules_(rules),
      options_(std::move(options)),
      match_(options_.ctx),
      tracer_(kTraceHook ? rewrite_tracer() : nullptr),
      limit_(static_cast<uint32_t>(std::max(1, knob(Knob::REWRITE_LIMIT)))),
      entry_rules_(options_.walk ? nullptr : rules_.entry_rules()),
      needs_opening_(options_.bottom_up || options_.gate),
      fixed_point_bit_(needs_opening_ || options_.walk || options_.enter_calls || options_.ctx
                           ? 0
                           : rules_.fixed_point_bit()) {}

UOp Rewriter::operator()(const UOp& root) {
  ErrorContext context(
      [&] { return fmt::format("rewriting{}{}", *options_.name ? " in pass " : "", options_.name); });
  if (!frames_.empty()) {  // an error ended the last run: its half-done nodes must not look like cycles
    frames_.clear();
    memo_ = FlatMap<const Node*, const UOp*>();
  }
  if (!tracer_ && is_fixed_point(root)) return root;
  TracedPass pass(options_.name, root, kTraceHook ? tracer_ : nullptr);
  const auto [slot, fresh] = memo_.try_emplace(root.node(), nullptr);
  if (fresh) {
    root_ = keep(root);
    depth_limit_ = kDepthFactor * limit_;
    push(root_, slot, nullptr, 0, 0);
    while (!frames_.empty()) step();
  } else {
    result_ = memo_.at(slot).value;
  }
  pass.finish(*result_);
  return *result_;
}

// Puts a node that is new in memo_ on the stack.
void Rewriter::push(const UOp* node, size_t slot, const RuleInfo* rule, uint32_t chain, uint32_t depth) {
  frames_.push_back({node, rule, slot, 0, chain, depth});
  for (const UOp& s : node->srcs()) {
    memo_.prefetch(s.node());
    __builtin_prefetch(s.node());
    __builtin_prefetch(s.node()->src_begin());
  }
}

// Advances the top frame: opens it or its next source, or, when all sources have results, rebuilds it or
// applies the rules.
void Rewriter::step() {
  Frame& f = frames_.back();
  const UOp* node = f.node;
  if (!f.opened && needs_opening_) {
    f.opened = true;
    if (options_.gate && !options_.gate(*node)) return finish(node);
    if (options_.bottom_up) {
      if (UOp r = apply(*options_.bottom_up, *node)) return replace(keep(std::move(r)), &match_.rule());
      if (match_.stopped_) return finish(node);
    }
  }
  if (entry_rules_ && f.next_src == 0)
    if (UOp r = apply(*entry_rules_, *node)) return replace(keep(std::move(r)), &match_.rule());
  if (!visit_sources()) return;
  if (f.changed) {
    node = keep(rebuild(*node));
    if (!options_.walk) return replace(node, nullptr);
  }
  if (UOp r = apply(rules_, *node)) return replace(keep(std::move(r)), &match_.rule());
  if (fixed_point_bit_) node->node()->fixed_points.fetch_or(fixed_point_bit_, std::memory_order_relaxed);
  finish(node);
}

// False when a source was put on the stack.
bool Rewriter::visit_sources() {
  Frame& f = frames_.back();
  const std::span<const UOp> srcs = f.node->srcs();
  for (; f.next_src < srcs.size(); f.next_src++) {
    const UOp& s = srcs[f.next_src];
    if (is_body(*f.node, f.next_src) || is_fixed_point(s)) continue;
    const auto [slot, fresh] = memo_.try_emplace(s.node(), nullptr);
    if (fresh) {
      if (s.n_srcs() == 0 && !needs_opening_ && !rules_.may_apply(s)) {
        memo_.at(slot).value = &s;
        continue;
      }
      push(&s, slot, nullptr, 0, f.depth);
      return false;
    }
    const UOp* result = memo_.at(slot).value;
    if (!result) fail("a rewrite of a node contains the node itself", s, nullptr);
    f.changed |= !(*result == s);
  }
  return true;
}

// The result of the top frame will be that of `by`, which `rule` gave; without a rule it is the same node
// over the results of its sources.
void Rewriter::replace(const UOp* by, const RuleInfo* rule) {
  if (options_.walk) return finish(by);
  Frame& f = frames_.back();
  const uint32_t chain = f.chain + (rule ? 1 : 0), depth = f.depth + (rule ? 1 : 0);
  if (chain > limit_) fail("rules rewrite one node without end", *by, rule);
  if (depth > depth_limit_) extend_depth_limit(*by, rule);
  f.linked = true;
  if (is_fixed_point(*by)) return finish(by);
  const auto [slot, fresh] = memo_.try_emplace(by->node(), nullptr);
  if (fresh) {
    push(by, slot, rule, chain, depth);
    if (!rule) frames_.back().next_src = static_cast<uint32_t>(by->n_srcs());  // they are results already
    return;
  }
  const UOp* result = memo_.at(slot).value;
  if (!result) fail("rules rewrite in a circle", *by, rule);
  finish(result);
}

// Files the result of the top frame, and of the frames below that only wait for it.
void Rewriter::finish(const UOp* result) {
  for (;;) {
    const Frame f = frames_.back();
    frames_.pop_back();
    const size_t slot = memo_.at(f.slot).key == f.node->node() ? f.slot : memo_.position(f.node->node());
    memo_.at(slot).value = result;
    if (frames_.empty()) {
      result_ = result;
      return;
    }
    Frame& below = frames_.back();
    if (below.linked) continue;
    below.changed |= !(*result == below.node->src(below.next_src));
    below.next_src++;
    return;
  }
}

void Rewriter::extend_depth_limit(const UOp& node, const RuleInfo* rule) {
  const size_t given = kDepthFactor * limit_ + toposort(*root_).size();
  if (depth_limit_ >= given) fail("rewrites grow without end", node, rule);
  depth_limit_ = given;
}

UOp Rewriter::rebuild(const UOp& u) const {
  SmallVec<UOp, 8> srcs;
  for (uint32_t i = 0; i < u.n_srcs(); i++)
    srcs.push_back(is_body(u, i) || is_fixed_point(u.src(i)) ? u.src(i) : **memo_.find(u.src(i).node()));
  return u.with_srcs(srcs);
}

UOp Rewriter::apply(const Matcher<UOp>& rules, const UOp& u) {
  match_.stopped_ = false;
  if (!rules.may_apply(u)) return {};
  if (!kTraceHook || !tracer_) {
    UOp r = rules.rewrite(u, match_);
    n_rewrites_ += r ? 1 : 0;
    return r;
  }
  const Clock::time_point start = Clock::now();
  UOp r = rules.rewrite(u, match_);
  const Clock::duration time = Clock::now() - start;
  if (r) {
    n_rewrites_++;
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    tracer_->on_match(match_.rule(), u, r, static_cast<uint64_t>(ns));
  }
  return r;
}

// Lists the rules that fired since `node` was first met, or the last ones.
void Rewriter::fail(std::string_view what, const UOp& node, const RuleInfo* last) const {
  std::vector<const RuleInfo*> rules;
  if (last) rules.push_back(last);
  for (size_t i = frames_.size(); i-- > 0 && rules.size() < kRulesInMessage && !(*frames_[i].node == node);)
    if (frames_[i].rule) rules.push_back(frames_[i].rule);
  std::string text =
      fmt::format("{} (at {} of {}); rules that fired, last first:", what, node.op(), node.dtype());
  for (const RuleInfo* r : rules) text += fmt::format("\n  {}", rule_name(*r));
  throw InternalError(detail::with_context(std::move(text)));
}

UOp graph_rewrite(const UOp& root, const Matcher<UOp>& rules, const RewriteOptions& options) {
  return Rewriter(rules, options)(root);
}

}  // namespace lathe
