#include "property/rule_instances.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace lathe::test {
namespace {

using pat::NodeKind;
using pat::PatNode;
using pat::SrcMode;

constexpr DType kTypes[] = {DType::WeakInt, DType::Bool,  DType::Int32,
                            DType::Float32, DType::Int64, DType::UInt8};
// What constants of a pattern are, by turns.
constexpr int kNumbers[] = {3, 2, -1, 4, 0, 1, -4, 300, 12, 7, 8};

bool accepts(uint32_t dtypes, DType d) { return dtypes >> static_cast<int>(d) & 1; }

// One graph for one form.
class Builder {
 public:
  Builder(const PatNode* nodes, const PatternForm& form, DType type, size_t turn)
      : nodes_(nodes), form_(form), type_(type), turn_(turn) {}

  // Null where no graph of this form has these types.
  UOp build() {
    std::vector<UOp> made(static_cast<size_t>(form_.n));
    for (int i = form_.n - 1; i >= 0; i--) {  // sources have later steps than their users
      std::vector<UOp> srcs;
      for (int k = i + 1; k < form_.n; k++)
        if (form_.steps[k].parent == i) {
          const size_t at = form_.steps[k].src;
          if (srcs.size() <= at) srcs.resize(at + 1);
          srcs[at] = made[static_cast<size_t>(k)];
        }
      for (const UOp& s : srcs)
        if (!s) return {};
      made[static_cast<size_t>(i)] = node(i, std::move(srcs));
      if (!made[static_cast<size_t>(i)]) return {};
    }
    return made[0];
  }
  const std::vector<UOp>& variables() const { return variables_; }

 private:
  UOp node(int i, std::vector<UOp> srcs) {
    const PatternForm::Step& step = form_.steps[i];
    const PatNode& p = nodes_[step.node];
    if (step.var >= 0 && bound_.size() <= static_cast<size_t>(step.var))
      bound_.resize(static_cast<size_t>(step.var) + 1);
    if (step.var >= 0 && bound_[static_cast<size_t>(step.var)]) return bound_[static_cast<size_t>(step.var)];
    UOp u;
    switch (p.kind) {
      case NodeKind::Invalid: u = invalid(); break;
      case NodeKind::Literal:
        u = p.literal.kind == pat::Literal::Kind::Bool  ? constant(p.literal.i != 0)
            : p.literal.kind == pat::Literal::Kind::Int ? constant(Scalar(p.literal.i))
                                                        : constant(Scalar(p.literal.f));
        break;
      case NodeKind::Number: u = number(); break;
      // A test looks for constants or for Invalid.
      default:
        u = p.test && turn_ % 2 ? tested(p)
            : p.bare            ? leaf(i, step.dtypes)
                                : op_node(p, step.dtypes, std::move(srcs));
    }
    if (step.var >= 0) bound_[static_cast<size_t>(step.var)] = u;
    return u;
  }

  UOp tested(const PatNode& p) {
    if (!p.bare && p.ops.contains(Op::Stack)) return stack({{number(), invalid()}});
    if (!p.bare && p.ops.contains(Op::Expand) && turn_ % 4 == 1) return prepend(invalid(), {2});
    return p.bare ? number() : invalid();
  }

  UOp number() {
    const int v = kNumbers[(turn_ + n_numbers_++ * 3) % std::size(kNumbers)];
    if (is_bool(type_)) return constant(v % 2 != 0);
    return is_float(type_) ? constant(Scalar(v / 2.0)) : turn_ % 2 ? constant(v) : constant(type_, v);
  }

  // The type of the graph, or what the place of the variable asks for.
  UOp leaf(int i, uint32_t dtypes) {
    const PatternForm::Step& step = form_.steps[i];
    const PatNode& user = nodes_[form_.steps[step.parent].node];
    auto is_op = [&](Op op) { return i > 0 && user.ops.contains(op) && !user.ops.contains(Op::Const); };
    const bool alu = i > 0 && (user.ops.contains(Op::Add) || user.ops.contains(Op::CmpLt));
    if (!alu && (is_op(Op::Index) || is_op(Op::Load) || is_op(Op::Store)) && step.src == 0) {
      const UOp buffer = param(0, {16}, is_weak(type_) ? DType::Int32 : type_);
      return is_op(Op::Index) ? buffer : index(buffer, variable("i", 0, 15));
    }
    DType d = type_;
    if (!alu && is_op(Op::Where) && step.src == 0) d = DType::Bool;
    if (!alu && is_op(Op::Index) && step.src == 1) d = DType::WeakInt;
    if (!accepts(dtypes, d)) {
      const auto it =
          std::find_if(std::begin(kTypes), std::end(kTypes), [&](DType t) { return accepts(dtypes, t); });
      if (it == std::end(kTypes)) return {};
      d = *it;
    }
    const std::string name = "v" + std::to_string(variables_.size());
    const UOp v = is_bool(d)    ? variable(name, 0, 1, d)
                  : is_float(d) ? variable(name, 1, 9, d)
                                : variable(name, 0, 19, d);
    variables_.push_back(v);
    return v;
  }

  UOp op_node(const PatNode& p, uint32_t dtypes, std::vector<UOp> srcs) {
    std::vector<Op> ops;
    for (int k = 0; k < kNumOps; k++)
      if (p.ops.contains(static_cast<Op>(k)) && static_cast<Op>(k) != Op::Threefry)
        ops.push_back(static_cast<Op>(k));
    const Op op = ops[turn_ % ops.size()];
    if (p.mode == SrcMode::Each) srcs.assign(2, srcs.empty() ? UOp() : srcs[0]);
    DType d = DType::Void;
    for (const DType t : kTypes)
      if (d == DType::Void && accepts(dtypes, t) && t != type_) d = t;
    switch (op) {
      case Op::Const: return number();
      case Op::Stack: return srcs.empty() ? stack({{number(), number()}}) : stack(srcs);
      case Op::Bitcast:  // of 32 bits
        if (srcs.empty() || (srcs[0].dtype() != DType::Int32 && srcs[0].dtype() != DType::Float32)) return {};
        return UOp::make(op, turn_ % 2 ? DType::Int32 : DType::Float32, srcs);
      case Op::Cast: return UOp::make(op, d, srcs);
      case Op::Param: return leaf(0, dtypes);
      case Op::Range: return range(5, static_cast<int>(n_numbers_++), AxisType::Loop);
      case Op::Special: return UOp::make(op, {constant(5)}, TextArg("core_id"));
      case Op::Expand: return srcs.empty() ? broadcast_to(number(), {4}) : prepend(srcs[0], {4});
      case Op::Reduce: {
        const UOp r = range(5, 7, AxisType::Reduce);
        const UOp value = !srcs.empty() ? srcs[0] : leaf(0, dtypes);
        return UOp::make(op, DType::Void, std::vector<UOp>{value, r}, ReduceArg{Op::Add, 0});
      }
      default: break;
    }
    const int arity = info(op).arity;
    while (is_alu(op) && static_cast<int>(srcs.size()) < arity) srcs.push_back(leaf(0, pat::kEveryDType));
    if (arity >= 0 && static_cast<int>(srcs.size()) != arity) return {};
    return UOp::make(op, DType::Void, srcs);
  }

  const PatNode* nodes_;
  const PatternForm& form_;
  DType type_;
  size_t turn_, n_numbers_ = 0;
  std::vector<UOp> bound_, variables_;
};

}  // namespace

std::vector<RuleInstance> rule_instances(const RuleView<UOp>& set) {
  constexpr size_t kTurns = 12;
  std::vector<RuleInstance> out;
  for (size_t r = 0; r < set.rules.size(); r++) {
    const RuleInfo& info = set.rules[r].info;
    const PatNode* nodes = set.nodes + info.left;
    std::unordered_set<UOp> seen;
    for (uint32_t code = 0; code < pattern_form_limit(nodes, info.n_left); code++) {
      const PatternForm form = pattern_form(nodes, code);
      if (form.code || !form_is_canonical(nodes, form)) continue;
      for (const DType type : kTypes)
        for (size_t turn = 0; turn < kTurns; turn++) {
          Builder builder(nodes, form, type, turn);
          UOp u;
          try {
            u = builder.build();
          } catch (const Error&) {  // no graph: integer ops on floats, shapes that do not meet
            continue;
          }
          if (u && seen.insert(u).second) out.push_back({r, u, builder.variables()});
        }
    }
  }
  return out;
}

}  // namespace lathe::test
