// Gated indices: what a gate says about the index behind it.
#pragma once
#include "uop/matcher.h"
#include "uop/uop.h"

#include <optional>

namespace lathe {

// An equal conjunction whose clauses are simplified under each other: a clause about an expression that
// others contain comes first, later ones may use it. Gates on loaded values stay as they are.
UOp simplify_gate(const UOp& gate);

// A simpler form of integer or bool `u` that is equal wherever `gate` holds. Addresses inside `u` have gates
// of their own and do not change.
UOp simplify_under(const UOp& gate, const UOp& u);

// Bounds of the integer `u` where `gate` holds, found by bounds of the terms of its clauses too. Nothing
// where the gate provably never holds.
std::optional<Bounds> bounds_under(const UOp& gate, const UOp& u);

// All gated indices of a graph: both of the above, with the symbolic rules.
UOp simplify_gates(const UOp& root);
RuleView<UOp> gate_rule_set();  // the rules of it, without the symbolic ones

}  // namespace lathe
