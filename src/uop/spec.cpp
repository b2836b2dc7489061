#include "uop/spec.h"

#include "uop/derive.h"
#include "uop/expression.h"
#include "uop/print.h"
#include "uop/spec_rules.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace lathe {
namespace {

constexpr size_t kNumLevels = 3;

// The rules of a level, by op.
class RuleTable {
 public:
  explicit RuleTable(SpecLevel level) : ops_(level_ops(level)) {
    for (const SpecRule& rule : spec_rules())
      for (int op = 0; op < kNumOps && (rule.levels >> static_cast<int>(level) & 1); op++)
        if (rule.ops.contains(static_cast<Op>(op))) by_op_[static_cast<size_t>(op)].push_back(&rule);
  }

  // The first rule that `u` breaks; empty when it is legal.
  std::string_view broken_by(const UOp& u) const {
    if (!knows(u.op())) return "the op does not occur at this level";
    for (const SpecRule* rule : by_op_[static_cast<size_t>(u.op())])
      if (!rule->holds(u)) return rule->text;
    return "";
  }
  bool knows(Op op) const { return ops_.contains(op); }

 private:
  OpSet ops_;
  std::array<std::vector<const SpecRule*>, kNumOps> by_op_;
};

const RuleTable& table_of(SpecLevel level) {
  static const std::array<RuleTable, kNumLevels> tables = {
      RuleTable(SpecLevel::Tensor), RuleTable(SpecLevel::Kernel), RuleTable(SpecLevel::Program)};
  return tables[static_cast<size_t>(level)];
}

// Follows a linear program from its start: what is defined, which loops and Ifs are open, and where values
// live.
class ListChecker {
 public:
  // The rule of the order that `u`, the next element, breaks.
  std::string_view next(const UOp& u) {
    if (!scope_.emplace(u.node(), open_.empty() ? 0 : open_.back().id).second) return "a node occurs once";
    for (size_t i = 0; i < u.n_srcs(); i++)
      if (!is_compile_time_source(u, i))
        if (const std::string_view rule = reachable(u.src(i)); !rule.empty()) return rule;
    if (u.op() == Op::End && u.n_srcs() != 2) return "an End closes exactly one loop";
    if (u.op() == Op::End || u.op() == Op::EndIf) {
      const Node* opener = u.src(u.op() == Op::End ? 1 : 0).node();
      if (open_.empty() || open_.back().opener != opener)
        return "an End closes the innermost open loop or If";
      open_.pop_back();
      scope_[u.node()] = open_.empty() ? 0 : open_.back().id;
    }
    if (u.op() == Op::Range || u.op() == Op::If) open_.push_back({u.node(), ++scopes_});
    return "";
  }
  bool all_closed() const { return open_.empty(); }

 private:
  struct Scope {
    const Node* opener;
    uint32_t id;
  };

  // Arguments, constants and effects are known everywhere; a value only where it was computed.
  std::string_view reachable(const UOp& s) const {
    const auto it = scope_.find(s.node());
    if (it == scope_.end()) return "sources come before their users";
    if (s.op() == Op::Range) return is_open(s.node()) ? "" : "a loop variable is used outside its loop";
    if (it->second == 0 || s.dtype() == DType::Void) return "";
    if (s.op() == Op::Const || s.op() == Op::Param || s.op() == Op::Buffer || s.op() == Op::Special)
      return "";
    if (s.op() == Op::Stack && is_weak(s.dtype())) return "";
    for (const Scope& open : open_)
      if (open.id == it->second) return "";
    return s.op() == Op::After && is_memory(s) ? ""
                                               : "a value is used inside the loop or If that computes it";
  }

  bool is_open(const Node* opener) const {
    return std::any_of(open_.begin(), open_.end(), [&](const Scope& open) { return open.opener == opener; });
  }

  std::unordered_map<const Node*, uint32_t> scope_;  // id of the innermost loop or If where a node stands
  std::vector<Scope> open_;
  uint32_t scopes_ = 0;
};

[[noreturn]] void fail(const UOp& node, std::string_view rule, const std::string& place) {
  const ExpressionLimits limits{.characters = 400, .depth = 40};
  std::string text = fmt::format("UOp verification failed {}: {}", place, rule);
  if (info(node.op()).dtype_rule != DTypeRule::Arg)
    if (const DType d = derive_dtype(node.op(), node.srcs(), node.arg()); d != node.dtype())
      text += fmt::format("\n  bad dtype {}, expected {} on {}", node.dtype(), d, node.op());
  throw InternalError(detail::with_context(
      fmt::format("{}\n  node: {}\n  expression: {}", text, print_node(node), expression(node, limits))));
}

void fail(const SpecViolation& v, SpecLevel level, std::string_view pass) {
  fail(v.node, v.rule,
       fmt::format("at {} on {} after {} ({} level)", v.position, v.node.op(), pass, spec_level_name(level)));
}

}  // namespace

std::string_view spec_level_name(SpecLevel level) {
  static constexpr std::array<std::string_view, kNumLevels> kNames = {"tensor", "kernel", "program"};
  return kNames[static_cast<size_t>(level)];
}

std::string_view broken_rule(const UOp& u, SpecLevel level) { return table_of(level).broken_by(u); }

std::optional<SpecViolation> find_violation(const UOp& root, SpecLevel level) {
  const RuleTable& table = table_of(level);
  size_t position = 0;
  for (const UOp& u : toposort(root)) {
    if (const std::string_view rule = table.broken_by(u); !rule.empty())
      return SpecViolation{position, u, rule};
    position++;
  }
  return std::nullopt;
}

std::optional<SpecViolation> find_violation(std::span<const UOp> linear) {
  const RuleTable& table = table_of(SpecLevel::Program);
  ListChecker order;
  for (size_t i = 0; i < linear.size(); i++) {
    std::string_view rule = table.broken_by(linear[i]);
    if (rule.empty()) rule = order.next(linear[i]);
    if (!rule.empty()) return SpecViolation{i, linear[i], rule};
  }
  if (linear.empty()) return SpecViolation{0, sink({}), "a program ends in a Sink"};
  if (linear.back().op() != Op::Sink)
    return SpecViolation{linear.size() - 1, linear.back(), "a program ends in a Sink"};
  if (!order.all_closed())
    return SpecViolation{linear.size() - 1, linear.back(), "every loop and If is closed"};
  return std::nullopt;
}

void verify(const UOp& root, SpecLevel level, std::string_view pass) {
  if (const auto v = find_violation(root, level)) fail(*v, level, pass);
}

void verify(std::span<const UOp> linear, std::string_view pass) {
  if (const auto v = find_violation(linear)) fail(*v, SpecLevel::Program, pass);
}

void verify_node(const UOp& u) {
  thread_local bool is_busy = false;
  if (is_busy) return;  // checks of symbolic shapes make nodes of their own
  // A Range of one value folds before the node that closes it lets go of it.
  const auto is_folded = [](const UOp& s) { return s.is_const(); };
  if (OpSet{Op::End, Op::Reduce, Op::Stage}.contains(u.op()) && u.n_srcs() > 1 &&
      std::any_of(u.srcs().begin() + 1, u.srcs().end(), is_folded))
    return;
  struct Busy {
    Busy() { is_busy = true; }
    ~Busy() { is_busy = false; }
  };
  const Busy busy;
  std::string_view rule = "the op does not occur at any level";
  for (size_t i = 0; i < kNumLevels && !rule.empty(); i++)
    if (const RuleTable& table = table_of(static_cast<SpecLevel>(i)); table.knows(u.op()))
      rule = table.broken_by(u);
  if (rule.empty() && derive_shape(u.op(), u.dtype(), u.srcs(), u.arg()) != u.node()->shape)
    rule = "the shape follows from the sources";
  if (!rule.empty()) fail(u, rule, fmt::format("on {} as it was made", u.op()));
}

}  // namespace lathe
