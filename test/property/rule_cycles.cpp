// Every rule on its own and on top of every other: rewriting comes to an end, and no value changes.
#include "property/properties.h"
#include "property/rule_instances.h"
#include "property/run.h"
#include "uop/print.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"
#include "uop/spec.h"

#include <algorithm>
#include <map>

#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kRounding = 1e-6;  // powers become products

// Rules on powers and on scaled floats round otherwise, and some ops make much of a little rounding.
bool magnifies_rounding(std::span<const UOp> nodes) {
  constexpr OpSet kRounded = {Op::Pow, Op::Mul}, kMagnifying = {Op::Exp2, Op::Sin, Op::Bitcast};
  const auto any = [&](const OpSet& ops, auto&& counts) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const UOp& u) { return ops.contains(u.op()) && counts(u); });
  };
  return any(kRounded, [](const UOp& u) { return is_float(u.dtype()); }) &&
         any(kMagnifying, [](const UOp&) { return true; });
}

// What ValueTable can compute, and no rounding changes beyond the tolerance.
bool has_values(const UOp& root) {
  constexpr OpSet kValues = {Op::Const, Op::Stack, Op::Param,   Op::Range, Op::Index,
                             Op::Load,  Op::Cast,  Op::Bitcast, Op::Expand};
  const std::vector<UOp> nodes = toposort(root);
  return root.has_shape() && !magnifies_rounding(nodes) &&
         std::all_of(nodes.begin(), nodes.end(),
                     [&](const UOp& u) { return is_alu(u.op()) || kValues.contains(u.op()); });
}

// Legal at some stage before programs.
bool is_legal(const UOp& u) {
  return !find_violation(u, SpecLevel::Kernel) || !find_violation(u, SpecLevel::Tensor);
}

bool fires(const RuleView<UOp>& set, const RuleInstance& i) {
  RuleView<UOp> one = set;
  one.rules = set.rules.subspan(i.rule, 1);
  return static_cast<bool>(Matcher<UOp>({one}).rewrite(i.graph));
}

// One instance in place of a variable of another, and what becomes of it.
void check_on_top(const UOp& graph, bool values) {
  CAPTURE(print(graph));
  if (values && has_values(graph)) {
    const auto failure = check(
        graph,
        {.simplify = simplify, .points = 6, .each_rule = false, .order = false, .tolerance = kRounding});
    if (failure) FAIL_CHECK(property_name(failure->property), ": ", failure->detail);
    return;
  }
  try {
    (void)simplify(graph);
  } catch (const UserError& e) {  // a division by zero is one
    CHECK(e.kind() == UserError::Kind::Zero);
  } catch (const InternalError& e) {
    FAIL_CHECK(e.what());
  }
}

}  // namespace

TEST_CASE("the left side of every rule comes to a fixed point that has its value") {
  const RuleView<UOp> set = symbolic_rule_set();
  std::vector<bool> applies(set.rules.size());
  for (const RuleInstance& i : rule_instances(set)) {
    CAPTURE(rule_name(set.rules[i.rule].info));
    CAPTURE(print(i.graph));
    if (fires(set, i)) applies[i.rule] = true;
    if (has_values(i.graph)) {
      const auto failure = check(i.graph, {.simplify = simplify, .order = false, .tolerance = kRounding});
      if (failure) FAIL_CHECK(property_name(failure->property), ": ", failure->detail);
    } else {
      const UOp simple = simplify(i.graph);
      CHECK(simplify(simple) == simple);
    }
  }
  // A rule that is a pattern on both sides and asks nothing else applies to what its pattern says.
  for (size_t r = 0; r < set.rules.size(); r++) {
    const RuleInfo& info = set.rules[r].info;
    if (info.n_right > 0 && !info.when) CHECK_MESSAGE(applies[r], "no instance of ", rule_name(info));
  }
  CHECK(std::count(applies.begin(), applies.end(), true) * 5 > std::ssize(applies) * 4);
}

TEST_CASE("no two rules go round in a circle") {
  constexpr size_t kEach = 5;  // instances of a rule, mostly of different dtypes
  const RuleView<UOp> set = symbolic_rule_set();
  std::map<std::pair<size_t, DType>, size_t> taken;
  std::vector<RuleInstance> instances;
  for (const RuleInstance& i : rule_instances(set))
    if (fires(set, i) && is_legal(i.graph) && taken[{i.rule, i.graph.dtype()}]++ < kEach)
      instances.push_back(i);
  size_t n = 0;
  for (const RuleInstance& outer : instances)
    for (const UOp& place : outer.variables)
      for (const RuleInstance& inner : instances) {
        if (inner.graph.dtype() != place.dtype() || !inner.graph.has_shape() || inner.graph.ndim() > 0)
          continue;
        const UOp graph = substitute(outer.graph, {{place, inner.graph}});
        if (n++ % kSlowdown == 0 && is_legal(graph)) check_on_top(graph, n % 2 == 0);
      }
  CHECK(n > 10000);
}
