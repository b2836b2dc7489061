#include "uop/comparison.h"
#include "uop/fold.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"

#include <algorithm>

namespace lathe {
namespace {

// a = t + n·k, with t of small factors; where the clause holds, t lies in period q.
struct Period {
  UOp clause;    // t in [q·n, q·n + c)
  UOp quotient;  // a // n there
  UOp remainder;
};

int128 centred(int128 f, int128 n) {
  const int128 r = floor_mod(f, n);
  return r * 2 > n ? r - n : r;
}

std::optional<Period> unwrap(const UOp& a, int128 n, int128 c) {
  const std::optional<LinearSum> sum = LinearSum::of(a);
  if (!sum) return {};
  LinearSum t, k;
  for (const Term& term : sum->terms) {
    const int128 f = centred(term.factor, n);
    t.add(term.base, f);
    k.add(term.base, (term.factor - f) / n);
  }
  t.constant = centred(sum->constant, n);
  k.constant = (sum->constant - t.constant) / n;
  t.normalize();
  k.normalize();
  const std::optional<IntInterval> range = interval_of(t);
  if (!range || floor_div(range->hi, n) - floor_div(range->lo, n) > 8) return {};
  std::optional<int128> period;
  for (int128 q = floor_div(range->lo, n); q <= floor_div(range->hi, n); q++) {
    const bool possible = std::max(range->lo, q * n) <= std::min(range->hi, q * n + c - 1);
    if (possible && period) return {};
    if (possible) period = q;
  }
  const UOp value = t.to_uop();
  if (!period) return Period{constant(Scalar(false)), constant(0), constant(0)};
  const int128 base = *period * n;
  k.constant += *period;
  UOp clause = constant(Scalar(true));
  if (range->lo < base) clause = logical_not(lt(value, constant(Scalar(base))));
  if (range->hi >= base + c) {
    const UOp below = lt(value, constant(Scalar(base + c)));
    clause = clause.is_const() ? below : clause & below;
  }
  return Period{clause, k.to_uop(), value + constant(Scalar(-base))};
}

// `value` with what the clauses imply. An address that changes is right only where they hold, so it takes
// them into its gate: the load runs whatever the selection around it says. So does the loop of a Range, which
// stays.
UOp replace_under(const UOp& value, const std::vector<std::pair<UOp, UOp>>& by, const UOp& gate) {
  Rebuilt now(by);
  for (const UOp& n : toposort(value, [](const UOp& n) { return n.op() != Op::Range; })) {
    if (now.contains(n)) continue;
    const UOp made = now.over_sources(n);
    SmallVec<UOp, 8> srcs(made.srcs());
    for (size_t i = 1; n.op() == Op::Index && i < srcs.size(); i++) {
      const UOp& at = srcs[i];
      if (at == n.src(i)) continue;
      srcs[i] = is_gated(at) ? where(at.src(0) & gate, at.src(1), invalid()) : where(gate, at, invalid());
    }
    now.set(n, made.with_srcs(srcs));
  }
  return now.of(value);
}

}  // namespace

UOp unwrap_periods(const UOp& where) {
  std::vector<std::pair<UOp, UOp>> clauses, values;
  for (const UOp& clause : split_operands(where.src(0), Op::And)) {
    if (clause.op() != Op::CmpLt || clause.src(0).op() != Op::FloorMod || !clause.src(1).is_const()) continue;
    const UOp& mod = clause.src(0);
    if (mod.dtype() != DType::WeakInt || !mod.src(1).is_const()) continue;
    const int128 n = mod.src(1).value().as_int(), c = clause.src(1).value().as_int();
    if (n <= 1 || c <= 0 || c >= n) continue;
    const std::optional<Period> p = unwrap(mod.src(0), n, c);
    if (!p) continue;
    clauses.emplace_back(clause, p->clause);
    values.emplace_back(mod, p->remainder);
    values.emplace_back(alu(Op::FloorDiv, {mod.src(0), mod.src(1)}), p->quotient);
  }
  if (clauses.empty()) return {};
  const UOp gate = substitute(where.src(0), clauses);
  UOp implied = clauses[0].second;
  for (size_t i = 1; i < clauses.size(); i++) implied = implied & clauses[i].second;
  const UOp value = replace_under(where.src(1), values, implied);
  return alu(Op::Where, {gate, value, where.src(2)}).with_dtype(where.dtype());
}

}  // namespace lathe
