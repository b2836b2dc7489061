#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/comparison.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"
#include "uop/spec_rules.h"

#include <algorithm>

namespace lathe {
namespace {

bool contains_all(const SmallVec<UOp, 8>& clauses, const UOp& gate) {
  return std::ranges::all_of(split_operands(gate, Op::And),
                             [&](const UOp& c) { return std::ranges::find(clauses, c) != clauses.end(); });
}

// `factor` with its loads as they are without the clauses, where they may be: what is loaded in vain is
// multiplied by 0.
UOp without_gate(const UOp& factor, const SmallVec<UOp, 8>& clauses) {
  Rebuilt done;
  return done.walk(toposort(factor), [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    if (!is_gated_load(v)) return v;
    const UOp &memory = v.src(0).src(0), &at = v.src(0).src(1);
    if (!contains_all(clauses, at.src(0)) || !is_inside(memory, at.src(1))) return v;
    return load(index(memory, at.src(1)));
  });
}

size_t gated_loads(const UOp& u) {
  return static_cast<size_t>(std::ranges::count_if(toposort(u), is_gated_load));
}

bool depends_on_all(const UOp& u, const UOp& gate) {
  return std::ranges::all_of(gate.ranges(), [&](const Node* r) { return is_open(u, UOp(r)); });
}

// Whether the value of the factor is a number where the gate is false, too: it is made of what memory holds.
bool is_plain(const UOp& factor) {
  constexpr OpSet kPlain{Op::Load, Op::Index, Op::Cast,  Op::Const, Op::Neg,   Op::Add,  Op::Sub,
                         Op::Mul,  Op::Max,   Op::Where, Op::CmpLt, Op::CmpNe, Op::CmpEq};
  const auto above_addresses = [](const UOp& u) { return u.op() != Op::Index; };
  return std::ranges::all_of(toposort(factor, above_addresses),
                             [&](const UOp& u) { return kPlain.contains(u.op()) && !u.is_invalid(); });
}

// Where(gate, a * b, 0) is Where(gate, a, 0) * b.
UOp factored(const UOp& value) {
  if (value.op() != Op::Where || !value.src(2).is_const(Scalar(0)) || value.src(1).op() != Op::Mul)
    return value;
  const UOp& gate = value.src(0);
  const auto is_load = [](const UOp& u) { return u.op() == Op::Load; };
  if (std::ranges::any_of(toposort(gate), is_load)) return value;  // what data hides may be no number
  const SmallVec<UOp, 8> clauses = split_operands(gate, Op::And);
  SmallVec<UOp, 8> factors = split_operands(value.src(1), Op::Mul);
  UOp* gated = nullptr;
  size_t most = 0;
  for (UOp& f : factors) {
    f = without_gate(f, clauses);
    const size_t n = gated_loads(f);
    if (!depends_on_all(f, gate) || (gated && n <= most)) continue;
    gated = &f;
    most = n;
  }
  if (!most || !std::ranges::all_of(factors, [&](const UOp& f) { return &f == gated || is_plain(f); }))
    return value;
  const bool is_selected =
      is_gated_load(*gated) && contains_all(split_operands(gated->src(0).src(1).src(0), Op::And), gate);
  if (!is_selected) *gated = where(gate, *gated, constant(gated->dtype(), Scalar(0)));
  return join_operands(factors, Op::Mul, {});
}

}  // namespace

UOp gate_factors(const UOp& body) {
  Rebuilt done;
  return done.walk(toposort(body), [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    if (v.op() != Op::Reduce || v.arg_as<ReduceArg>().op != Op::Add) return v;
    const UOp value = factored(v.src(0));
    if (value == v.src(0)) return v;
    SmallVec<UOp, 8> srcs{value};
    for (const UOp& r : v.srcs().subspan(1)) srcs.push_back(r);
    return v.with_srcs(srcs);
  });
}

}  // namespace lathe
