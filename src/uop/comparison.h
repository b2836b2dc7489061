// Comparisons of index expressions, and conjunctions and disjunctions of them.
#pragma once
#include "uop/scalar.h"
#include "uop/uop.h"

#include <optional>

namespace lathe {

// A simpler form of a CmpLt (CmpNe) of integers, or null.
UOp fold_lt(const UOp& u);
UOp fold_ne(const UOp& u);
// !(X < 1), where X is a sum of positive multiples of variables that are never negative: X is positive
// exactly when one of them is, so the factors go. Null where it is no such sum.
UOp fold_simplex(const UOp& u);
// A chain of bool And (Or) without duplicates, opposites and needless bounds of one expression, in structural
// order; null where `u` is that.
UOp fold_clauses(const UOp& u);

// A clause that bounds an integer expression: `X < c`, `!(X < c)`, `c < X` or `!(c < X)`.
struct BoundClause {
  UOp x;
  bool is_upper;  // X <= limit, else X >= limit
  int128 limit;
};
std::optional<BoundClause> bound_clause(const UOp& clause);

// The node that `u` is the logical not of, or null.
UOp negated(const UOp& u);
// The logical not of `u`, without a double one.
UOp opposite(const UOp& u);

// Both gates; null is true.
UOp and_gates(const UOp& a, const UOp& b);
// g ? x : Invalid
inline bool is_gated(const UOp& u) {
  return u.op() == Op::Where && u.src(2).is_invalid() && !u.src(1).is_invalid();
}
// A Load of flat memory under no gate but that of its index.
inline bool is_gated_load(const UOp& u) {
  return u.op() == Op::Load && u.n_srcs() == 1 && u.src(0).op() == Op::Index && u.src(0).n_srcs() == 2 &&
         is_gated(u.src(0).src(1));
}
// An index without its gate.
inline const UOp& ungated(const UOp& u) { return is_gated(u) ? u.src(1) : u; }

}  // namespace lathe
