// Runs rule sets: finds the first rule that applies to a node.
#pragma once
#include "uop/pattern.h"

#include <atomic>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// How often a rule has applied, over all matchers it is part of.
struct RuleStat {
  std::string_view file;
  uint32_t line = 0, column = 0;
  std::string_view name;
  uint64_t matches = 0;
};
// Every rule of every matcher made so far, in order of place. Rules that never applied have 0 matches.
std::vector<RuleStat> rule_stats();
std::string rule_name(const RuleInfo& rule);  // "file:line:column", then "(name)" where it has one

// The left sides of a rule list, compiled. Immutable after construction, so any number of threads may match
// at once.
//
// Each root op has a table indexed by classes of the ops of sources 0 and 1 (ops that no rule of this root op
// tells apart are one class); a cell holds the list of forms that may match, in rule order. The list is then
// run form by form.
class RuleIndex {
 public:
  struct Form {
    uint32_t first_step;
    uint16_t n_steps;
    uint16_t rule;
  };

  // `nodes` is only read here.
  void add(const RuleInfo& rule, const pat::PatNode* nodes);
  void finish();

  // Forms that may match `u`: a count, then numbers of forms. A single 0 where none does.
  const uint16_t* shortlist(const UOp& u) const {
    const RootTable* t = roots_[static_cast<int>(u.op())].get();
    if (!t) return lists_.data();
    const std::span<const UOp> srcs = u.srcs();
    const int c0 = t->class0[srcs.empty() ? kNumOps : static_cast<int>(srcs[0].op())];
    const int c1 = t->class1[srcs.size() < 2 ? kNumOps : static_cast<int>(srcs[1].op())];
    return lists_.data() + t->cells[c0 * t->n_classes1 + c1];
  }
  const Form& form(uint16_t i) const { return forms_[i]; }
  // Binds the variables of `m` and returns true when the form matches `u`. Touches no reference count.
  bool match(const Form& form, const UOp& u, Match& m) const;

 private:
  static constexpr uint8_t kEverySrc = 255;
  enum class Test : uint8_t { None, Literal, Number, Invalid };
  struct Step {
    OpSet ops;
    uint32_t dtypes;
    uint8_t parent;
    uint8_t src;  // kEverySrc: all of them
    pat::SrcMode mode;
    uint8_t n_srcs;
    int8_t var;
    bool again;
    Test test;
    uint16_t literal;  // index in literals_
  };
  struct RootTable {
    std::array<uint8_t, kNumOps + 1> class0, class1;  // index kNumOps: no such source
    int n_classes1 = 1;
    std::vector<uint32_t> cells;
  };

  void add_form(const PatternForm& form, const pat::PatNode* nodes, uint16_t rule);
  OpSet ops_of_source(const Form& form, int src) const;
  void build_root(Op op, const std::vector<uint16_t>& forms);
  bool fits(const Step& step, const UOp& u) const;

  std::vector<Form> forms_;
  std::vector<Step> steps_;
  std::vector<pat::NodeTest> node_tests_;  // one a step, null for most
  std::vector<Scalar> literals_;
  std::vector<uint16_t> lists_;
  std::unique_ptr<RootTable> roots_[kNumOps];
  uint16_t n_rules_ = 0;
};

// The right sides that are patterns, compiled to postfix order.
class ReplacementBuilder {
 public:
  void add(const RuleInfo& rule, const pat::PatNode* nodes);
  // The replacement that rule number `rule` gives for `m`.
  UOp build(size_t rule, const Match& m) const;

 private:
  struct Step {
    Op op;
    DType dtype;  // Void: derived
    uint8_t n_srcs;
    int8_t var;  // >= 0: a bound node; -1: an op; -2: a literal
    uint16_t literal;
  };
  std::vector<uint32_t> first_ = {0};  // first step of each rule, and the end
  std::vector<Step> steps_;
  std::vector<UOp> literals_;
};

namespace detail {

// How often the rule has applied, of rule_stats(); one counter for all matchers.
std::atomic<uint64_t>& rule_counter(const RuleInfo& rule);

// Which results stand for "does not apply".
template <class R>
bool is_no_result(const R& r, [[maybe_unused]] const UOp& root) {
  if constexpr (std::same_as<R, UOp>)
    return !r || r == root;
  else if constexpr (requires { r.empty(); })
    return r.empty();
  else
    return !r;
}

// Names the rule and the node in errors thrown by the functions of rules.
std::string describe_application(const RuleInfo& rule, const UOp& u);

}  // namespace detail

// Whether drivers may note on nodes that a matcher's rules change nothing there or below, and pass over such
// nodes from then on. Only for rules that are functions of the node alone: no context, no knobs.
enum class FixedPoints : uint8_t { Forgotten, Noted };

namespace detail {
uint32_t new_fixed_point_bit();  // 0 when all are taken: then nothing is noted
}  // namespace detail

// A list of rules, ready to run. Result types: UOp (rewriting), std::string (rendering), std::vector<UOp>
// (gradients), bool (verification), or an optional of anything. Building one takes up to a millisecond: keep
// it in a static.
template <class R>
class Matcher {
 public:
  Matcher() { index_.finish(); }
  template <size_t N, size_t K>
  Matcher(const RuleSet<R, N, K>& set)
      : Matcher({RuleView<R>(set)}) {}  // NOLINT(google-explicit-constructor)
  explicit Matcher(std::initializer_list<RuleView<R>> sets)
      : Matcher(std::span(sets.begin(), sets.size()), FixedPoints::Forgotten, nullptr) {}
  // `entry_rules`: tried once on a node before its sources are visited, where that saves work on them. What
  // they do the rules of `sets` must do, too.
  explicit Matcher(std::span<const RuleView<R>> sets, FixedPoints fixed_points, const Matcher* entry_rules)
      : entry_rules_(entry_rules),
        fixed_point_bit_(fixed_points == FixedPoints::Noted ? detail::new_fixed_point_bit() : 0) {
    for (const RuleView<R>& set : sets)
      for (const RuleEntry<R>& entry : set.rules) {
        rules_.push_back(entry);
        counters_.push_back(&detail::rule_counter(entry.info));
        index_.add(entry.info, set.nodes);
        builder_.add(entry.info, set.nodes);
      }
    index_.finish();
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  size_t size() const { return rules_.size(); }

  // The result of the first rule that applies to `u`, or an empty result.
  R rewrite(const UOp& u, ContextRef context = {}) const {
    if (!*index_.shortlist(u)) return R{};
    Match m(context);
    return rewrite(u, m);
  }
  // The same with a Match that is used again and again; `m.rule()` is the rule that applied.
  R rewrite(const UOp& u, Match& m) const {
    const uint16_t* list = index_.shortlist(u);
    for (const uint16_t *i = list + 1, *end = i + *list; i < end; i++) {
      const RuleIndex::Form& form = index_.form(*i);
      if (!index_.match(form, u, m)) continue;
      R result = apply(form.rule, u, m);
      if (!detail::is_no_result(result, u)) {
        counters_[form.rule]->fetch_add(1, std::memory_order_relaxed);
        return result;
      }
      if (m.stopped_) break;
    }
    return R{};
  }
  // False when no rule can apply, judging by the ops of the node and of its first two sources.
  bool may_apply(const UOp& u) const { return *index_.shortlist(u) != 0; }
  const Matcher* entry_rules() const { return entry_rules_; }
  // Of Node::fixed_points; 0 where fixed points are not noted.
  uint32_t fixed_point_bit() const { return fixed_point_bit_; }

 private:
  R apply(size_t rule, const UOp& u, Match& m) const {
    const RuleEntry<R>& entry = rules_[rule];
    m.rule_ = &entry.info;
    ErrorContext context([&] { return detail::describe_application(entry.info, u); });
    if (entry.info.when && !entry.info.when(m)) return R{};
    if constexpr (std::same_as<R, UOp>)
      if (!entry.function) return builder_.build(rule, m);
    return entry.function(m);
  }

  std::vector<RuleEntry<R>> rules_;
  std::vector<std::atomic<uint64_t>*> counters_;  // of each rule
  RuleIndex index_;
  ReplacementBuilder builder_;
  const Matcher* entry_rules_ = nullptr;
  uint32_t fixed_point_bit_ = 0;
};

}  // namespace lathe
