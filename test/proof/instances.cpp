#include "proof/instances.h"

#include "uop/expression.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe::proof {
namespace {

using pat::NodeKind;
using pat::PatNode;
using pat::SrcMode;

Scalar to_scalar(const pat::Literal& v) {
  switch (v.kind) {
    case pat::Literal::Kind::Bool: return Scalar(v.i != 0);
    case pat::Literal::Kind::Int: return Scalar(v.i);
    case pat::Literal::Kind::Float: return Scalar(v.f);
  }
  return Scalar();
}

// A variable that may hold any value of its dtype.
UOp any_value(int number, DType d) {
  ParamArg arg;
  arg.slot = -1;
  arg.dtype = d;
  arg.space = AddrSpace::Alu;
  arg.name = std::string(1, "xyzwuvabcdest"[number % 13]) + (number < 13 ? "" : std::to_string(number));
  return UOp::make(Op::Param, {shape_node({})}, ParamPtr(std::make_shared<ParamArg>(std::move(arg))));
}

// Constants to try where a condition looks at them; `few` of them where it looks at several.
std::vector<Scalar> candidates(DType d, bool few) {
  std::vector<Scalar> out;
  if (is_bool(d)) return {Scalar(false), Scalar(true)};
  if (is_float(d)) {
    for (int k = few ? -1 : -3; k <= (few ? 2 : 3); k++)
      out.insert(out.end(), {Scalar(std::ldexp(1.0, k)), Scalar(-std::ldexp(1.0, k))});
    for (const double v :
         {0.0, -0.0, 3.0, -0.75, 1000.0, std::numeric_limits<double>::infinity(), std::nan("")})
      out.emplace_back(v);
    return out;
  }
  const int lowest = is_unsigned(d) ? 0 : d == DType::WeakInt ? -300 : -128;
  const int highest = is_unsigned(d) ? 255 : d == DType::WeakInt ? 300 : 127;
  if (few) {
    for (int i = std::max(lowest, -8); i <= std::min(highest, 8); i++) out.emplace_back(i);
    return out;
  }
  for (int i = lowest; i <= highest; i++) out.emplace_back(i);
  return out;
}

// Where no condition looks at them, constants that no rule takes for special.
std::vector<Scalar> plain_constants(DType d) {
  if (is_bool(d)) return {Scalar(true), Scalar(false)};
  if (is_float(d)) return {Scalar(2.5), Scalar(8.0)};
  return {Scalar(5), Scalar(3), Scalar(1)};
}

// A number in mixed radix: every combination of choices.
class Odometer {
 public:
  std::vector<size_t> digits, radix;
  bool next() {
    for (size_t i = 0; i < digits.size(); i++) {
      if (++digits[i] < radix[i]) return true;
      digits[i] = 0;
    }
    return false;
  }
};

class Enumerator {
 public:
  Enumerator(const RuleList& list, size_t rule, DType typed, const std::function<void(const Instance&)>& f)
      : list_(list),
        info_(list.rules.rules[rule].info),
        typed_(typed),
        f_(f),
        matcher_({single(list.rules, rule)}) {
    for (const DType d : {DType::Bool, DType::WeakInt, DType::WeakFloat, typed})
      if (d != DType::Void && (d != DType::WeakFloat || typed == DType::Void || is_float(typed)))
        dtypes_.push_back(d);
    const PatNode* left = list.rules.nodes + info_.left;
    for (int i = 0; i < info_.n_left; i++) looks_at_constants_ |= left[i].test != nullptr;
    looks_at_constants_ |= info_.when != nullptr;
  }

  InstanceCount run() {
    std::string unsupported;
    const PatNode* left = list_.rules.nodes + info_.left;
    const uint32_t limit = pattern_form_limit(left, info_.n_left);
    for (uint32_t code = 0; code < limit; code++) {
      const PatternForm form = pattern_form(left, code);
      if (form.code != 0 || !form_is_canonical(left, form)) continue;
      try {
        each_op(form);
      } catch (const Unsupported& e) {
        unsupported = e.what();
      }
    }
    if (lanes_left_out_) unsupported = "lanes";
    return {count_, unsupported};
  }

 private:
  static RuleView<UOp> single(RuleView<UOp> view, size_t rule) {
    view.rules = view.rules.subspan(rule, 1);
    return view;
  }
  const PatNode& node(const PatternForm& form, int step) const {
    return list_.rules.nodes[info_.left + form.steps[step].node];
  }
  bool is_leaf(const PatNode& n) const { return n.kind != NodeKind::Node || n.bare || is_invalid(n); }
  // Invalid, or what admits it beside other ops: lanes of it.
  static bool is_invalid(const PatNode& n) {
    if (n.kind != NodeKind::Node) return n.kind == NodeKind::Invalid;
    return n.mode == SrcMode::Any && !n.bare && n.ops.contains(Op::Const) && n.test && n.test(invalid());
  }

  void each_op(const PatternForm& form) {
    Odometer choice;
    ops_.assign(static_cast<size_t>(form.n), {});
    for (int i = 0; i < form.n; i++) {
      const PatNode& n = node(form, i);
      lanes_left_out_ |= n.kind == NodeKind::Node && is_invalid(n);
      if (!is_leaf(n)) {
        if (n.mode != SrcMode::Exact) throw Unsupported("a node of the left side has any number of sources");
        for (int o = 0; o < kNumOps; o++)
          if (n.ops.contains(static_cast<Op>(o)) && (kOpTable[o].arity < 0 || kOpTable[o].arity == n.n_srcs))
            ops_[static_cast<size_t>(i)].push_back(static_cast<Op>(o));
      } else {
        ops_[static_cast<size_t>(i)] = {Op::Const};
      }
      choice.radix.push_back(ops_[static_cast<size_t>(i)].size());
    }
    choice.digits.assign(choice.radix.size(), 0);
    do {
      std::vector<Op> ops;
      for (size_t i = 0; i < choice.digits.size(); i++) ops.push_back(ops_[i][choice.digits[i]]);
      each_dtype(form, ops);
    } while (choice.next());
  }

  // The steps that state a dtype: leaves, each variable once, and casts.
  void each_dtype(const PatternForm& form, const std::vector<Op>& ops) {
    std::vector<int> slots;
    for (int i = 0; i < form.n; i++) {
      const PatNode& n = node(form, i);
      const bool states =
          is_leaf(n) ? !is_invalid(n)
                     : kOpTable[static_cast<int>(ops[static_cast<size_t>(i)])].dtype_rule == DTypeRule::Arg;
      if (states && !form.steps[i].again) slots.push_back(i);
    }
    Odometer choice;
    choice.radix.assign(slots.size(), dtypes_.size());
    choice.digits.assign(slots.size(), 0);
    do {
      std::vector<DType> dtypes(static_cast<size_t>(form.n), DType::Void);
      bool allowed = true, has_typed = typed_ == DType::Void;
      for (size_t k = 0; k < slots.size(); k++) {
        const DType d = dtypes_[choice.digits[k]];
        dtypes[static_cast<size_t>(slots[k])] = d;
        allowed &= (form.steps[slots[k]].dtypes >> static_cast<int>(d) & 1) != 0;
        has_typed |= d == typed_;
      }
      if (allowed && has_typed && !mixes_floats(form, dtypes)) each_constant(form, ops, dtypes);
    } while (choice.next());
  }

  // A variable of a weak type next to typed floats, or an index next to any: nothing makes them without a
  // Cast, and solvers are slow at them.
  bool mixes_floats(const PatternForm& form, const std::vector<DType>& dtypes) const {
    if (std::none_of(dtypes.begin(), dtypes.end(), is_float)) return false;
    for (int i = 0; i < form.n; i++) {
      const PatNode& n = node(form, i);
      if (n.kind != NodeKind::Node || !n.bare || form.steps[i].again) continue;
      const DType d = dtypes[static_cast<size_t>(i)];
      if (d == DType::WeakInt || (d == DType::WeakFloat && typed_ != DType::Void)) return true;
    }
    return false;
  }

  void each_constant(const PatternForm& form, const std::vector<Op>& ops, const std::vector<DType>& dtypes) {
    Instance made{&info_, list_.rules.nodes, form, {}, {}, {}};
    std::vector<std::vector<Scalar>> values;
    const bool floats = std::any_of(dtypes.begin(), dtypes.end(), is_float);
    for (int i = 0; i < form.n; i++) {
      if (node(form, i).kind != NodeKind::Number || form.steps[i].again) continue;
      made.numbers.push_back(i);
    }
    for (const int i : made.numbers) {
      const DType d = dtypes[static_cast<size_t>(i)];
      values.push_back(looks_at_constants_ ? candidates(d, made.numbers.size() > 1 || floats)
                                           : plain_constants(d));
    }
    Odometer choice;
    for (const auto& v : values) choice.radix.push_back(v.size());
    choice.digits.assign(values.size(), 0);
    bool all = true;
    do {
      std::vector<Scalar> chosen;
      for (size_t k = 0; k < values.size(); k++) chosen.push_back(values[k][choice.digits[k]]);
      std::vector<UOp> steps;
      if (!build(form, ops, dtypes, made.numbers, chosen, steps)) return;  // the dtypes do not go together
      if (applies(steps[0])) {
        made.accepted.push_back(chosen);
        if (made.steps.empty()) made.steps = steps;
      } else {
        all = false;
      }
    } while (choice.next());
    if (made.steps.empty()) return;
    if (all || !looks_at_constants_) made.accepted.clear();
    count_++;
    f_(made);
  }

  bool applies(const UOp& left) {
    for (const ContextRef& context : list_.contexts) {
      Match m(context);
      try {
        if (matcher_.rewrite(left, m)) return true;
      } catch (const UserError&) {  // folding may meet a division by zero
      }
    }
    return false;
  }

  // False where the spec forbids the graph.
  bool build(const PatternForm& form, const std::vector<Op>& ops, const std::vector<DType>& dtypes,
             const std::vector<int>& numbers, const std::vector<Scalar>& chosen, std::vector<UOp>& steps) {
    steps.assign(static_cast<size_t>(form.n), {});
    UOp bound[pat::kMaxVars];
    // Leaves first, in order, so that a variable met again is the node it was.
    for (int i = 0; i < form.n; i++) {
      const PatNode& n = node(form, i);
      if (!is_leaf(n)) continue;
      const PatternForm::Step& s = form.steps[i];
      UOp& u = steps[static_cast<size_t>(i)];
      const DType d = dtypes[static_cast<size_t>(i)];
      if (s.again) {
        u = bound[s.var];
        if (!u) throw Unsupported("a variable is met again before the node it names");
      } else if (is_invalid(n)) {
        u = invalid();
      } else if (n.kind == NodeKind::Literal) {
        u = constant(d, to_scalar(n.literal));
        if (!u.value().equals(to_scalar(n.literal))) return false;
      } else if (n.kind == NodeKind::Number) {
        const size_t k = static_cast<size_t>(std::find(numbers.begin(), numbers.end(), i) - numbers.begin());
        u = constant(d, chosen[k]);
      } else {
        u = any_value(s.var >= 0 ? s.var : 20 + i, d);
      }
      if (s.var >= 0) bound[s.var] = u;
    }
    for (int i = form.n - 1; i >= 0; i--) {
      if (is_leaf(node(form, i))) continue;
      std::vector<UOp> srcs(node(form, i).n_srcs);
      for (int k = i + 1; k < form.n; k++)
        if (form.steps[k].parent == i) srcs[form.steps[k].src] = steps[static_cast<size_t>(k)];
      try {
        UOp& u = steps[static_cast<size_t>(i)];
        u = UOp::make(ops[static_cast<size_t>(i)], dtypes[static_cast<size_t>(i)], srcs);
        if (!broken_rule(u, list_.level).empty()) return false;
      } catch (const Error&) {
        return false;
      }
    }
    return true;
  }

  const RuleList& list_;
  const RuleInfo& info_;
  const DType typed_;
  const std::function<void(const Instance&)>& f_;
  const Matcher<UOp> matcher_;
  std::vector<DType> dtypes_;
  std::vector<std::vector<Op>> ops_;
  bool looks_at_constants_ = false;
  int count_ = 0;
  bool lanes_left_out_ = false;
};

}  // namespace

InstanceCount for_each_instance(const RuleList& list, size_t rule, DType typed,
                                const std::function<void(const Instance&)>& f) {
  return Enumerator(list, rule, typed, f).run();
}

Value right_side(const Instance& instance, std::span<const Value> steps, Semantics& semantics) {
  const RuleInfo& rule = *instance.rule;
  std::vector<Value> stack;  // sources of the next node, the first on top
  for (int i = rule.n_right - 1; i >= 0; i--) {
    const PatNode& n = instance.nodes[rule.right + i];
    if (n.var >= 0) {
      int step = 0;
      while (instance.form.steps[step].var != n.var) step++;
      stack.push_back(steps[static_cast<size_t>(step)]);
    } else if (n.kind != NodeKind::Node) {
      stack.push_back(
          semantics.literal(n.kind == NodeKind::Invalid ? invalid() : constant(to_scalar(n.literal))));
    } else {
      Op op = Op::Const;
      DType dtype = DType::Void;
      for (int o = 0; o < kNumOps; o++)
        if (n.ops.contains(static_cast<Op>(o))) op = static_cast<Op>(o);
      for (int d = 0; d < kNumDTypes; d++)
        if (n.dtypes == uint32_t{1} << d) dtype = static_cast<DType>(d);
      std::vector<Value> srcs;
      std::vector<UOp> nodes;
      for (int k = 0; k < n.n_srcs; k++) {
        srcs.push_back(stack.back());
        nodes.push_back(stack.back().node);
        stack.pop_back();
      }
      stack.push_back(semantics.apply(UOp::make(op, dtype, nodes), srcs));
    }
  }
  // Match::fit
  return semantics.convert(stack.back(), steps[0].node.dtype());
}

}  // namespace lathe::proof
