#include "uop/matcher.h"

#include "uop/eval.h"
#include "uop/fold.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>

namespace lathe {

using pat::NodeKind;
using pat::PatNode;
using pat::SrcMode;

// Stands for a missing source in sets of ops.
constexpr Op kNoSource = static_cast<Op>(kNumOps);
static_assert(kNumOps < 128, "an OpSet has room for it");

UOp Match::fit(const UOp& u) const {
  UOp r = u;
  const DType d = root().dtype();
  if (r.dtype() != d && d != DType::Void && !r.is_invalid())
    r = r.is_const() ? constant(d, r.value()) : cast(r, d);
  if (r.node()->shape != root().node()->shape && r.has_shape() && root().has_shape())
    r = broadcast_to(r, root().shape());
  return r;
}

// ---- left sides

namespace {

Scalar to_scalar(const pat::Literal& v) {
  switch (v.kind) {
    case pat::Literal::Kind::Bool: return Scalar(v.i != 0);
    case pat::Literal::Kind::Int: return Scalar(v.i);
    case pat::Literal::Kind::Float: return Scalar(v.f);
  }
  return Scalar();
}

}  // namespace

void RuleIndex::add(const RuleInfo& rule, const PatNode* nodes) {
  const PatNode* left = nodes + rule.left;
  const uint32_t limit = pattern_form_limit(left, rule.n_left);
  for (uint32_t code = 0; code < limit; code++) {
    const PatternForm form = pattern_form(left, code);
    if (form.code == 0 && form_is_canonical(left, form)) add_form(form, left, n_rules_);
  }
  n_rules_++;
}

void RuleIndex::add_form(const PatternForm& form, const PatNode* nodes, uint16_t rule) {
  CHECK(forms_.size() < 65535, "a matcher holds at most 65535 forms of rules");
  forms_.push_back({static_cast<uint32_t>(steps_.size()), static_cast<uint16_t>(form.n), rule});
  for (int i = 0; i < form.n; i++) {
    const PatternForm::Step& s = form.steps[i];
    const PatNode& n = nodes[s.node];
    const bool each = i > 0 && nodes[form.steps[s.parent].node].mode == SrcMode::Each;
    Step step{n.ops,   s.dtypes,   s.parent, each ? kEverySrc : s.src, n.mode, n.n_srcs, s.var,
              s.again, Test::None, 0};
    if (n.kind == NodeKind::Number) step.test = Test::Number;
    if (n.kind == NodeKind::Invalid) step.test = Test::Invalid;
    if (n.kind == NodeKind::Literal) {
      step.test = Test::Literal;
      step.literal = static_cast<uint16_t>(literals_.size());
      literals_.push_back(to_scalar(n.literal));
    }
    steps_.push_back(step);
    node_tests_.push_back(n.test);
  }
}

// Ops that a form accepts as source `src` of its root, with kNoSource where it accepts a root with fewer
// sources.
OpSet RuleIndex::ops_of_source(const Form& form, int src) const {
  const Step* steps = &steps_[form.first_step];
  const Step& root = steps[0];
  const bool each = root.mode == SrcMode::Each,
             listed = each || (root.mode != SrcMode::Any && src < root.n_srcs);
  const OpSet none = each || !listed ? pat::just(kNoSource) : OpSet{};
  if (!listed) return root.mode == SrcMode::Exact ? none : none | pat::kEveryOp;
  for (int i = 1; i < form.n_steps; i++)
    if (steps[i].parent == 0 && (steps[i].src == src || steps[i].src == kEverySrc))
      return none | steps[i].ops;
  return none | pat::kEveryOp;
}

namespace {

// Classes of ops by the forms that accept them.
struct OpClasses {
  std::array<uint8_t, kNumOps + 1> class_of{};
  std::vector<std::vector<bool>> accepts;  // by class, then form
};

OpClasses classify(const std::vector<OpSet>& ops) {
  OpClasses r;
  for (int o = 0; o <= kNumOps; o++) {
    std::vector<bool> accepts(ops.size());
    for (size_t i = 0; i < ops.size(); i++) accepts[i] = ops[i].contains(static_cast<Op>(o));
    const auto it = std::find(r.accepts.begin(), r.accepts.end(), accepts);
    r.class_of[o] = static_cast<uint8_t>(it - r.accepts.begin());
    if (it == r.accepts.end()) r.accepts.push_back(std::move(accepts));
  }
  return r;
}

}  // namespace

void RuleIndex::build_root(Op op, const std::vector<uint16_t>& forms) {
  OpClasses classes[2];
  for (int src = 0; src < 2; src++) {
    std::vector<OpSet> ops;
    for (const uint16_t f : forms) ops.push_back(ops_of_source(forms_[f], src));
    classes[src] = classify(ops);
  }
  auto table = std::make_unique<RootTable>();
  table->class0 = classes[0].class_of;
  table->class1 = classes[1].class_of;
  table->n_classes1 = static_cast<int>(classes[1].accepts.size());
  std::map<std::vector<uint16_t>, uint32_t> places = {{{}, 0}};
  for (const std::vector<bool>& first : classes[0].accepts)
    for (const std::vector<bool>& second : classes[1].accepts) {
      std::vector<uint16_t> list;
      for (size_t i = 0; i < forms.size(); i++)
        if (first[i] && second[i]) list.push_back(forms[i]);
      const auto [it, fresh] = places.try_emplace(list, static_cast<uint32_t>(lists_.size()));
      if (fresh) {
        lists_.push_back(static_cast<uint16_t>(list.size()));
        lists_.insert(lists_.end(), list.begin(), list.end());
      }
      table->cells.push_back(it->second);
    }
  roots_[static_cast<int>(op)] = std::move(table);
}

void RuleIndex::finish() {
  lists_.push_back(0);  // the empty list, at 0
  for (int o = 0; o < kNumOps; o++) {
    std::vector<uint16_t> forms;
    for (size_t i = 0; i < forms_.size(); i++)
      if (steps_[forms_[i].first_step].ops.contains(static_cast<Op>(o)))
        forms.push_back(static_cast<uint16_t>(i));
    if (!forms.empty()) build_root(static_cast<Op>(o), forms);
  }
}

inline bool RuleIndex::fits(const Step& step, const UOp& u) const {
  if (!step.ops.contains(u.op()) || !(step.dtypes >> static_cast<int>(u.dtype()) & 1)) return false;
  if (step.mode == SrcMode::Exact ? u.n_srcs() != step.n_srcs
                                  : step.mode == SrcMode::AtLeast && u.n_srcs() < step.n_srcs)
    return false;
  switch (step.test) {
    case Test::None: return true;
    case Test::Number: return !u.value().is_invalid();
    case Test::Invalid: return u.value().is_invalid();
    case Test::Literal: return u.value().equals(literals_[step.literal]);
  }
  return false;
}

bool RuleIndex::match(const Form& form, const UOp& u, Match& m) const {
  const UOp* nodes[pat::kMaxPattern];
  const Step* steps = &steps_[form.first_step];
  const pat::NodeTest* tests = &node_tests_[form.first_step];
  uint32_t bound = 0;
  for (int i = 0; i < form.n_steps; i++) {
    const Step& step = steps[i];
    if (step.src == kEverySrc) {
      for (const UOp& s : nodes[step.parent]->srcs())
        if (!fits(step, s) || (tests[i] && !tests[i](s))) return false;
      continue;
    }
    const UOp* n = i == 0 ? &u : &nodes[step.parent]->src(step.src);
    if (!fits(step, *n)) return false;
    if (step.var >= 0) {
      if (step.again && !(*m.vars_[step.var] == *n)) return false;
      m.vars_[step.var] = n;
      bound |= uint32_t{1} << step.var;
    }
    nodes[i] = n;
  }
  for (int i = 0; i < form.n_steps; i++)
    if (tests[i] && steps[i].src != kEverySrc && !tests[i](*nodes[i])) return false;
  m.root_ = &u;
  m.bound_ = bound;
  m.stopped_ = false;
  return true;
}

// ---- right sides

void ReplacementBuilder::add(const RuleInfo& rule, const PatNode* nodes) {
  for (int i = rule.n_right - 1; i >= 0; i--) {  // preorder from behind: sources come before their users
    const PatNode& n = nodes[rule.right + i];
    Step step{Op::Const, DType::Void, n.n_srcs, n.var, 0};
    if (n.var < 0 && n.kind == NodeKind::Node) {
      step.op = pat::first_op(n.ops);
      if (std::has_single_bit(n.dtypes)) step.dtype = static_cast<DType>(std::countr_zero(n.dtypes));
    } else if (n.var < 0) {
      step.var = -2;
      step.literal = static_cast<uint16_t>(literals_.size());
      literals_.push_back(n.kind == NodeKind::Invalid ? invalid() : constant(to_scalar(n.literal)));
    }
    steps_.push_back(step);
  }
  first_.push_back(static_cast<uint32_t>(steps_.size()));
}

namespace {

UOp make_replacement_node(Op op, DType dtype, std::span<const UOp> srcs) {
  if (op == Op::Cast) return cast(srcs[0], dtype);
  if (op == Op::Bitcast) return bitcast(srcs[0], dtype);
  const UOp made = UOp::make(op, dtype, srcs);
  const bool folds = dtype == DType::Void && !srcs.empty() && has_eval(op) &&
                     std::all_of(srcs.begin(), srcs.end(), [](const UOp& s) { return s.is_const(); });
  const UOp folded = folds ? fold_scalars(made) : UOp();
  return folded ? folded : made;
}

}  // namespace

UOp ReplacementBuilder::build(size_t rule, const Match& m) const {
  UOp stack[pat::kMaxPattern + 1];  // grows downwards, so that sources lie in order
  int top = pat::kMaxPattern;
  for (uint32_t i = first_[rule]; i < first_[rule + 1]; i++) {
    const Step& step = steps_[i];
    if (step.var != -1) {
      stack[--top] = step.var >= 0 ? *m.vars_[step.var] : literals_[step.literal];
      continue;
    }
    UOp made = make_replacement_node(step.op, step.dtype, {&stack[top], step.n_srcs});
    for (int k = 0; k < step.n_srcs; k++) stack[top + k] = UOp();
    top += step.n_srcs;
    stack[--top] = std::move(made);
  }
  return m.fit(stack[top]);
}

// ---- statistics

namespace {

using RuleKey = std::tuple<std::string, uint32_t, uint32_t, std::string>;

// Leaked on purpose: static matchers may die after any static here would.
struct Counters {
  std::mutex mutex;
  std::map<RuleKey, std::atomic<uint64_t>> by_rule;  // node-based: keys and counters stay in place
};
Counters& counters() {
  static Counters* const c = new Counters;
  return *c;
}

}  // namespace

std::atomic<uint64_t>& detail::rule_counter(const RuleInfo& r) {
  std::lock_guard lock(counters().mutex);
  return counters().by_rule[{r.file, r.line, r.column, r.name}];
}

std::vector<RuleStat> rule_stats() {
  std::lock_guard lock(counters().mutex);
  std::vector<RuleStat> stats;
  for (const auto& [key, matches] : counters().by_rule) {
    const auto& [file, line, column, name] = key;
    stats.push_back({file, line, column, name, matches.load(std::memory_order_relaxed)});
  }
  return stats;
}

std::string rule_name(const RuleInfo& rule) {
  const std::string name = *rule.name ? fmt::format(" ({})", rule.name) : "";
  return fmt::format("{}:{}:{}{}", rule.file, rule.line, rule.column, name);
}

uint32_t detail::new_fixed_point_bit() {
  static std::atomic<int> taken{0};
  const int bit = taken.fetch_add(1);
  return bit < 32 ? uint32_t{1} << bit : 0;
}

std::string detail::describe_application(const RuleInfo& rule, const UOp& u) {
  return fmt::format("applying rule {} to {}", rule_name(rule), u.op());
}

}  // namespace lathe
