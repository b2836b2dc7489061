#include "uop/simplify.h"

#include "uop/comparison.h"
#include "uop/fold.h"
#include "uop/linear_terms.h"
#include "uop/rewrite.h"

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

using namespace pat;

constexpr OpSet kUnaryOps = ops_with(kUnary), kBinaryOps = ops_with(kBinary),
                kTernaryOps = ops_with(kTernary);
constexpr OpSet kUnaryAndCasts = kUnaryOps | OpSet{Op::Cast, Op::Bitcast};
constexpr OpSet kCommutativeOps = ops_with(kCommutative);
constexpr OpSet kSortedOps = {Op::Xor, Op::CmpNe}, kChainedOps = {Op::Max, Op::Or, Op::And};

constexpr bool is_exact(DType d) { return is_int(d) || is_bool(d); }
constexpr bool is_typed_int(DType d) { return is_int(d) && d != DType::WeakInt; }

constexpr auto bx = x.dtype(DType::Bool);  // x, a bool
constexpr auto ix = x.dtypes(is_exact);    // x, an integer or a bool
constexpr auto wx = x.dtype(DType::WeakInt);
constexpr auto folds = any_op<OpSet{Op::Const, Op::Stack}>();

// A function of the root as a right side; an empty result means no rewrite.
template <UOp (*F)(const UOp&)>
UOp on_root(const Match& m) {
  const UOp u = F(m.root());
  return u ? m.fit(u) : u;
}

// ---- Invalid
// Invalid poisons whatever is computed from it. So a gate moves outwards: where it is false, the value above
// is Invalid too. Gates end up outside of everything but addresses, and no rule below can lose one.
constexpr auto nothing = op<Op::Noop>(no_srcs()).dtype(DType::Void);
constexpr auto address = op<Op::Index>(buf, idx);
UOp load_of_nothing(const Match& m) {
  const UOp& u = m.root();
  return m.fit(u.n_srcs() > 1 ? u.src(1) : constant(u.dtype(), Scalar(0)));
}
constexpr auto gated_store = op<Op::Store>(op<Op::Index>(buf, where(gate, idx, inv)), val);

// Invalid, or lanes of nothing else.
bool is_nothing(const UOp& u) { return u.is_invalid() || (u.op() == Op::Expand && u.src(0).is_invalid()); }
constexpr auto none = any_op<OpSet{Op::Const, Op::Expand}>().arg_if(is_nothing);

bool has_invalid_lane(const UOp& u) {
  return std::any_of(u.srcs().begin(), u.srcs().end(), [](const UOp& lane) {
    return lane.is_invalid() || (lane.op() == Op::Where && lane.src(2).is_invalid());
  });
}
constexpr auto some_invalid = op<Op::Stack>().arg_if(has_invalid_lane);
// Lane by lane, each with a gate of its own.
UOp split_lanes(const Match& m) {
  const UOp& u = m.root();
  if (u.ndim() != 1 || u.op() == Op::Bitcast) return {};  // which may have other lanes than its source
  std::vector<UOp> lanes(static_cast<size_t>(u.shape()[0].value()));
  for (size_t i = 0; i < lanes.size(); i++) {
    SmallVec<UOp, 3> srcs;
    for (const UOp& s : u.srcs())
      srcs.push_back(s.ndim() == 0 ? s
                     : s.op() == Op::Stack && s.n_srcs() == lanes.size()
                         ? s.src(i)
                         : index(s, constant(Scalar(static_cast<int64_t>(i)))));
    lanes[i] = u.with_srcs(srcs);
  }
  return stack(lanes);
}

constexpr auto kInvalidRules =
    rules(rule(any_op<kUnaryAndCasts>(none), inv), rule(any_op<kBinaryOps>(none, x), inv),
          rule(any_op<kBinaryOps>(x, none), inv), rule(any_op<kUnaryAndCasts>(some_invalid), fn(split_lanes)),
          rule(any_op<kBinaryOps>(some_invalid, x), fn(split_lanes)),
          rule(any_op<kBinaryOps>(x, some_invalid), fn(split_lanes)),
          rule(op<Op::Stack>(each_src(inv)), inv).when([](const Match& m) { return m.root().n_srcs() > 0; }),
          rule(where(none, x, y), inv), rule(where(true, x, y), x), rule(where(false, x, y), y),
          rule(where(x, inv, inv), inv), rule(where(x, inv, y), where(!x, y, inv)),
          rule(any_op<kUnaryAndCasts>(where(x, y, inv)), fn(push_op_into_gate)),
          rule(any_op<kBinaryOps>(where(x, y, inv), z), fn(push_op_into_gate)),
          rule(any_op<kBinaryOps>(z, where(x, y, inv)), fn(push_op_into_gate)),
          rule(where(where(gate, c, inv), x, y), where(gate, where(c, x, y), inv)),
          rule(where(a, where(gate, x, inv), inv), where(a& gate, x, inv)),
          rule(where(a, where(a, x, inv), y), where(a, x, y)),
          rule(where(a, where(gate, x, inv), y), where((!a) | gate, where(a, x, y), inv)),
          rule(where(a, x, where(gate, y, inv)), where(a | gate, where(a, x, y), inv)),
          rule(op<Op::Load>(op<Op::Index>(buf, inv), any_srcs()), fn(load_of_nothing)),
          rule(op<Op::Store>(op<Op::Index>(buf, inv), x, any_srcs()), nothing),
          rule(op<Op::Store>(x, inv, any_srcs()), nothing),
          rule(op<Op::Store>(address, where(gate, val, inv)), gated_store));

// ---- constants
// The reference ALU computes them, so folding and running agree by construction. Ring and bit operations
// truncate at the end, so a literal beyond the type of its neighbour may stand there; kCommitOps look at its
// value, which is the truncated one.
constexpr OpSet kCommitOps = {Op::CmpLt, Op::CmpNe, Op::Max, Op::FloorDiv, Op::FloorMod};
UOp commit_literals(const Match& m) {
  const UOp& u = m.root();
  const DType d = u.op() == Op::Where ? u.dtype() : join(u.src(0).dtype(), u.src(1).dtype());
  if (!is_typed_int(d)) return {};
  SmallVec<UOp, 3> srcs(u.srcs());
  for (UOp& s : srcs) {
    if (!s.is_const() || s.dtype() != DType::WeakInt) continue;
    const UOp committed = constant(d, s.value());
    if (!committed.value().equals(s.value())) s = committed;
  }
  return u.with_srcs(srcs);
}

constexpr auto kFoldRules = rules(
    rule(any_op<kCommitOps>(x, c0), fn(commit_literals)),
    rule(any_op<kCommitOps>(c0, x), fn(commit_literals)),
    rule(where(x, c0, y).dtypes(is_typed_int), fn(commit_literals)),
    rule(where(x, y, c0).dtypes(is_typed_int), fn(commit_literals)),
    rule(any_op<kUnaryOps>(folds), fn(fold_constants)),
    rule(any_op<kBinaryOps>(folds, folds), fn(fold_constants)),
    rule(any_op<kTernaryOps>(folds, folds, folds), fn(fold_constants)),
    rule(op<Op::Cast>(op<Op::Const>()), fn(fold_cast_of_constant)),
    rule(op<Op::Bitcast>(any_op<OpSet{Op::Const, Op::Stack}>(any_srcs())), fn(fold_bitcast_of_constant)),
    rule(any_op<kCommutativeOps>(x.arg_if([](const UOp& u) { return u.is_const(); }), y),
         fn(constant_to_the_right)));

// ---- identities
// Exact for every value, but that x+0 of floats leaves -0 as it is. x*0 and x-x are left alone for floats,
// where x may be infinite or NaN. A value that is undefined, as x//x at 0, may become any.
UOp clears_low_bits(const Match& m) {
  // (x & c0) >> c1 with a mask that is all ones from bit c1 up
  const UOp& u = m.root();
  const DType d = u.src(0).dtype();
  const int128 mask = cast_scalar(m[c0].value(), d).as_int(), count = m[c1].value().as_int();
  const int128 ones = is_unsigned(d) ? max_value(d).as_int() : -1;
  int128 k = count;
  if (u.op() == Op::FloorDiv) {
    if (count <= 0 || (count & (count - 1)) != 0) return {};
    for (k = 0; (count >> static_cast<int>(k)) != 1;) k++;
  }
  if (k < 0 || k > 63 || (mask >> static_cast<int>(k)) != (ones >> static_cast<int>(k))) return {};
  return m.fit(alu(u.op(), {m[x], m[c1]}));
}

constexpr auto kIdentityRules =
    rules(rule(x + 0, x), rule(x * 1, x), rule(x ^ 0, x), rule(x | 0, x),
          rule((x & c0).dtypes(is_int), x).when([](const Match& m) {
            const DType d = m.root().dtype();
            return m[x].dtype() == d && cast_scalar(m[c0].value(), d).equals(cast_scalar(Scalar(-1), d));
          }),
          rule(x << 0, x), rule(x >> 0, x), rule(x / 1, x), rule(x / -1, x * -1), rule(x / x, 1),
          rule(x % 1, 0), rule(x % -1, 0), rule(x % x, 0), rule(x & 0, 0), rule((x * 0).dtypes(is_exact), 0),
          rule(x& x, x), rule(x | x, x), rule(maximum(x, x), x), rule(x ^ x, 0),
          rule(either_order(either_order(x ^ y) ^ y), x), rule((x % y) % y, x % y), rule(lt(ix, x), false),
          rule(ne(ix, x), false), rule(op<Op::Trunc>(x).dtypes(is_exact), x),
          rule((x & c0) >> c1, fn(clears_low_bits)), rule((x & c0) / c1, fn(clears_low_bits)));

// ---- booleans
// A bool is 0 or 1, so arithmetic on bools is logic; the truth tables are the proof.
UOp compare_number_of_bool(const Match& m) {
  const Scalar v = cast_scalar(m[c0].value(), join(m.root().src(0).dtype(), m[c0].dtype()));
  if (v.equals(0)) return m.fit(m[x]);
  return m.fit(v.equals(1) ? logical_not(m[x]) : constant(Scalar(true)));
}

constexpr auto kBoolRules = rules(
    rule((x & true).dtype(DType::Bool), x), rule((x | true).dtype(DType::Bool), true),
    rule((x ^ y).dtype(DType::Bool), ne(x, y)), rule(ne(bx, false), x), rule(!!bx, x),
    rule(!lt(wx, 1), fn(on_root<fold_simplex>)),
    rule(lt(bx, y), (!x) & y).when([](const Match& m) { return is_bool(m[y].dtype()); }),
    rule((x * y).dtype(DType::Bool), x& y), rule((x + y).dtype(DType::Bool), x | y),
    rule(maximum(x, y).dtype(DType::Bool), x | y), rule(where(x, true, false).dtype(DType::Bool), x),
    rule(where(x, false, true).dtype(DType::Bool), !x), rule(where(x, y, false).dtype(DType::Bool), x& y),
    rule(where(x, true, y).dtype(DType::Bool), x | y).when([](const Match& m) { return !m[y].is_invalid(); }),
    rule(ne(op<Op::Cast>(bx), c0), fn(compare_number_of_bool)), rule(cast(x, DType::Bool), ne(x, 0)),
    rule(any_op<OpSet{Op::And, Op::Or}>(x, y).dtype(DType::Bool), fn(on_root<fold_clauses>)));

// ---- casts
bool same_dtype(const Match& m) { return m.root().dtype() == m[x].dtype(); }
bool same_widths(const Match& m) {
  const int bits = bit_width(m[x].dtype());
  return bit_width(m.root().dtype()) == bits && bit_width(m.root().src(0).dtype()) == bits;
}
UOp bitcast_at_once(const Match& m) { return bitcast(m[x], m.root().dtype()); }
// A Cast of a Where goes into its branches where one of them is a constant, which it vanishes into.
UOp cast_branches(const Match& m) {
  const UOp &u = m.root(), &w = u.src(0);
  return m.fit(where(w.src(0), cast(cast(w.src(1), w.dtype()), u.dtype()),
                     cast(cast(w.src(2), w.dtype()), u.dtype())));
}

constexpr auto kCastRules = rules(rule(any_op<OpSet{Op::Cast, Op::Bitcast}>(x), x).when(same_dtype),
                                  rule(op<Op::Cast>(op<Op::Cast>(x)), fn(fold_cast_chain)),
                                  rule(op<Op::Cast>(where(c, x, c0)), fn(cast_branches)),
                                  rule(op<Op::Cast>(where(c, c0, x)), fn(cast_branches)),
                                  rule(bitcast(bitcast(x)), fn(bitcast_at_once)).when(same_widths));

// ---- Where
// Both sides choose the same branch for every value of the conditions.
constexpr auto kWhereRules =
    rules(rule(where(x, y, y), y), rule(where(a, where(b, c, d), d), where(a& b, c, d)),
          rule(where(a, c, where(b, c, d)), where(a | b, c, d)),
          rule(where(!bx, y, z), where(x, z, y)).when([](const Match& m) { return !m[z].is_invalid(); }));

// ---- structure
// What has no effect goes: loops over one value, whose Range is a constant by now, effects that are none,
// stores of what is there already. Lanes are picked where they are known.
UOp drop_constant_ranges(const Match& m) {
  const UOp& u = m.root();
  SmallVec<UOp, 8> srcs{u.src(0)};
  for (const UOp& s : u.srcs().subspan(1))
    if (!s.is_const()) srcs.push_back(s);
  if (srcs.size() == u.n_srcs() && srcs.size() > 1) return {};
  if (srcs.size() > 1) return u.with_srcs(srcs);
  if (u.op() == Op::Reduce && u.arg_as<ReduceArg>().n_axes != 0) return {};
  return u.src(0);
}
UOp lane_of_vector(const Match& m) {
  const UOp &u = m.root(), &lanes = u.src(0);
  if (u.n_srcs() != 2) return {};
  if (lanes.op() == Op::Expand)
    return lanes.ndim() == 1 && lanes.src(0).ndim() == 0 ? m.fit(lanes.src(0)) : UOp();
  const int128 i = m[c0].value().as_int();
  return i >= 0 && i < static_cast<int128>(lanes.n_srcs()) ? m.fit(lanes.src(static_cast<size_t>(i))) : UOp();
}

// Effects in one list: no Noops without sources, no Groups in a list.
UOp flatten_effects(const Match& m) {
  const UOp& u = m.root();
  SmallVec<UOp, 8> out;
  bool changed = false;
  for (const UOp& s : u.srcs()) {
    if (s.op() == Op::Noop && s.n_srcs() == 0) {
      changed = true;
    } else if (s.op() == Op::Group) {
      for (const UOp& e : s.srcs()) out.push_back(e);
      changed = true;
    } else {
      out.push_back(s);
    }
  }
  if (u.op() == Op::Group && out.size() == 1) return out[0];
  return changed ? u.with_srcs(out) : UOp();
}
bool lists_effects(const UOp& u) {
  for (const UOp& s : u.srcs())
    if (s.op() == Op::Group || s.op() == Op::Noop) return true;
  return u.op() == Op::Group && u.n_srcs() == 1;
}

constexpr auto kStructureRules =
    rules(rule(op<Op::Store>(x, op<Op::Load>(x)), nothing),
          rule(op<Op::Store>(address, where(gate, val, op<Op::Load>(address))), gated_store),
          rule(op<Op::Store>(address, where(gate, op<Op::Load>(address), val)),
               op<Op::Store>(op<Op::Index>(buf, where(!gate, idx, inv)), val)),
          rule(op<Op::End>(op<Op::Noop>(no_srcs()), any_srcs()), nothing),
          rule(any_op<OpSet{Op::Sink, Op::Group}>().arg_if(lists_effects), fn(flatten_effects)),
          rule(op<Op::After>(x), x),
          rule(any_op<OpSet{Op::Reduce, Op::End}>(x, any_srcs()), fn(drop_constant_ranges)),
          rule(op<Op::Index>(any_op<OpSet{Op::Stack, Op::Expand}>(), c0), fn(lane_of_vector)));

// ---- bounds
// A value whose bounds meet is that constant. Bounds hold for every value of the variables, and integer
// bounds are exact.
UOp larger_by_bounds(const Match& m) {
  const UOp &a = m.root().src(0), &b = m.root().src(1);
  if (!a.bounds().lo.less(b.bounds().hi)) return m.fit(a);
  return !b.bounds().lo.less(a.bounds().hi) ? m.fit(b) : UOp();
}

constexpr auto kBoundsRules =
    rules(rule(any_op<OpSet{Op::CmpLt, Op::CmpNe, Op::FloorDiv, Op::FloorMod, Op::Range, Op::Special,
                            Op::Param, Op::And, Op::Shr, Op::Mul, Op::Max}>()
                   .dtypes(is_exact),
               fn(fold_single_value)),
          rule(maximum(x, y).dtypes(is_exact), fn(larger_by_bounds)));

// ---- integers modulo 2^n
// Typed integers are a ring, with wrapping: like terms combine and constants gather on the right. weakint,
// which is exact, has normal forms instead.
constexpr auto kRingRules = rules(
    rule((x + x).dtypes(is_typed_int), x * 2), rule((x * c0 + x * c1).dtypes(is_typed_int), x*(c0 + c1)),
    rule(either_order(x + x * c0).dtypes(is_typed_int), x*(c0 + 1)),
    rule(either_order(either_order(y + x) + x).dtypes(is_typed_int), y + x * 2),
    rule(either_order(either_order(y + x * c0) + x * c1).dtypes(is_typed_int), y + x * (c0 + c1)),
    rule(either_order(either_order(y + x) + x * c0).dtypes(is_typed_int), y + x * (c0 + 1)),
    rule(either_order(either_order(y + x * c0) + x).dtypes(is_typed_int), y + x * (c0 + 1)),
    rule(((x + c0) + c1).dtypes(is_typed_int), x + (c0 + c1)),
    rule(((x * c0) * c1).dtypes(is_typed_int), x*(c0* c1)),
    rule(either_order((x + c0) + y).dtypes(is_typed_int), (x + y) + c0),
    rule(either_order((x * c0) * y).dtypes(is_typed_int), (x * y) * c0));

// ---- narrow arithmetic
// 64-bit arithmetic on widened 32-bit values is done in 32 bits where its bounds say that nothing wraps.
constexpr OpSet kNarrowOps = {Op::Add, Op::Mul, Op::Max, Op::FloorDiv, Op::FloorMod};
UOp narrow_to_32_bits(const Match& m) {
  const UOp& u = m.root();
  constexpr DType d = DType::Int32;
  auto narrow = [](const UOp& s) {
    if (s.op() == Op::Cast && casts_losslessly(s.src(0).dtype(), d)) return cast(s.src(0), d);
    return s.is_const() && fits(s.bounds(), d) ? constant(d, s.value()) : UOp();
  };
  if (!fits(u.bounds(), d)) return {};
  const UOp x = narrow(u.src(0)), y = narrow(u.src(1));
  return x && y ? cast(alu(u.op(), {x, y}), u.dtype()) : UOp();
}
constexpr auto kNarrowRules =
    rules(rule(any_op<kNarrowOps>(cast(x), cast(y)).dtype(DType::Int64), fn(narrow_to_32_bits)),
          rule(any_op<kNarrowOps>(cast(x), op<Op::Const>()).dtype(DType::Int64), fn(narrow_to_32_bits)));

// ---- associative constants
// These ops are associative on every value of every type but NaN, so two constants may meet.
constexpr auto kTwoStageRules = rules(
    rule((x & c0) & c1, x&(c0& c1)), rule((x | c0) | c1, x | (c0 | c1)), rule((x ^ c0) ^ c1, x ^ (c0 ^ c1)),
    // Not of a NaN, which wins over x in one order only, nor of an index where c1 has a width that c0 may not
    // fit.
    rule(maximum(maximum(x, c0), c1), maximum(x, maximum(c0, c1))).when([](const Match& m) {
      return m.root().src(0).dtype() == m.root().dtype() && !std::isnan(m[c0].value().as_double());
    }));

// ---- floats
// Scaling by a power of two is exact, so such factors may meet; only a value that leaves the range in between
// differs.
bool power_of_two(const UOp& u) {
  int exponent = 0;
  const double v = std::fabs(u.value().as_double());
  return std::isfinite(v) && v != 0 && std::frexp(v, &exponent) == 0.5 && exponent > -64 && exponent < 64;
}
constexpr auto kFloatRules = rules(
    rule((x + x).dtypes(is_float), x * 2.0),
    rule((x * c0 * c1).dtypes(is_float), x*(c0* c1)).when([](const Match& m) {
      return power_of_two(m[c0]) && power_of_two(m[c1]);
    }),
    rule(either_order((x * c0) * y).dtypes(is_float), (x * y) * c0).when([](const Match& m) {
      return m[c0].value().equals(-1);
    }),
    rule(reciprocal((x * c0).dtypes(is_float)), reciprocal(x) * reciprocal(c0)).when([](const Match& m) {
      return power_of_two(m[c0]);
    }));

// ---- powers
// A small constant exponent is multiplications, halves are square roots, negative ones go through the
// reciprocal: the same real number, rounded in other places.
UOp power_by_squaring(const UOp& x, int n) {
  UOp result, square = x;
  for (; n > 0; n >>= 1) {
    if (n & 1) result = result ? result * square : square;
    if (n > 1) square = square * square;
  }
  return result;
}
UOp pow_of_constant_exponent(const Match& m) {
  constexpr double kLargest = 16;
  const UOp& x = m[pat::x];
  const double exponent = m[c0].value().as_double(), size = std::fabs(exponent);
  const bool floating = is_float(m.root().dtype());
  if (size == 0) return m.fit(constant(m.root().dtype(), Scalar(1)));
  if (!(size <= kLargest) || size * 2 != std::floor(size * 2) || (!floating && exponent < 0)) return {};
  const UOp base = exponent < 0 ? alu(Op::Reciprocal, {x}) : cast(x, m.root().dtype());
  UOp power = power_by_squaring(base, static_cast<int>(size));
  if (size != std::floor(size)) {
    const UOp root = alu(Op::Sqrt, {base});
    power = power ? power * root : root;
  }
  return m.fit(power);
}
// c^x for a power of two: the exponent of c is exact.
UOp pow_of_two(const Match& m) {
  const double base = m[c0].value().as_double();
  if (base == 1) return m.fit(constant(m.root().dtype(), Scalar(1)));
  if (!(base > 0) || !power_of_two(m[c0])) return {};
  return m.fit(alu(Op::Exp2, {cast(m[x], m.root().dtype()) * constant(Scalar(std::log2(base)))}));
}
constexpr auto kPowRules =
    rules(rule(pow(x, c0), fn(pow_of_constant_exponent)), rule(pow(c0, x).dtypes(is_float), fn(pow_of_two)));

// ---- exact index arithmetic
// weakint is a ring without wrapping, so sums and products have one normal form and division is the floor of
// the rational number; linear_terms, divmod and comparison prove their steps. Typed integers computed from
// indices are computed as indices, where bounds say that nothing wraps, so that they are seen through.
constexpr OpSet kLiftedOps = {Op::Add, Op::Mul, Op::Max, Op::FloorDiv, Op::FloorMod, Op::CmpLt, Op::CmpNe};
constexpr auto kIndexRules = rules(
    rule((x + y).dtype(DType::WeakInt), fn(on_root<normalize_sum>)),
    rule((x * y).dtype(DType::WeakInt), fn(on_root<normalize_product>)),
    rule((x + y).dtype(DType::WeakInt), fn(on_root<recombine_divmod>)),
    rule((x + y).dtype(DType::WeakInt), fn(on_root<merge_select_terms>)),
    rule(any_op<OpSet{Op::FloorDiv, Op::FloorMod}>(x, y).dtype(DType::WeakInt), fn(on_root<fold_division>)),
    rule(lt(ix, y), fn(on_root<fold_lt>)), rule(ne(wx, y), fn(on_root<fold_ne>)),
    rule(any_op<kSortedOps>(wx, y), fn(order_operands)), rule(ne(bx, y), fn(order_operands)),
    rule(any_op<kChainedOps>(x, y).dtype(DType::WeakInt), fn(on_root<normalize_chain>)),
    rule(any_op<kLiftedOps>(cast(x), cast(y)), fn(lift_to_index)),
    rule(any_op<kLiftedOps>(cast(x), op<Op::Const>()), fn(lift_to_index)),
    rule(any_op<kLiftedOps>(op<Op::Const>(), cast(x)), fn(lift_to_index)));

// A sum gets its order as a whole before its parts are visited: term by term, it would be rebuilt for each.
constexpr auto kEntryRules = rules(rule((x + y).dtype(DType::WeakInt), fn(on_root<order_sum>)));

// ---- selections
// Below c ? t : f, c is true in t and false in f; what two selections of one condition make is selected by
// it.
constexpr OpSet kMergedOps = {Op::Add, Op::Mul, Op::Max,      Op::And,
                              Op::Or,  Op::Xor, Op::FloorDiv, Op::FloorMod};

constexpr auto kSelectRules =
    rules(rule(either_order(where(c, x, 0) + where(c, 0, y)), where(c, x, y)),
          rule(any_op<kMergedOps>(where(c, x, y), where(c, z, w)), fn(merge_selects)),
          rule(either_order(either_order(y + op<Op::Where>(c, x, z).as(a)) + op<Op::Where>(c, v, w).as(b))
                   .dtypes(is_typed_int),
               fn(merge_selects_in_sum)),
          rule(where(lt(ix, y), y, x), maximum(x, y)), rule(where(lt(x, c0), c0, x), maximum(x, c0)),
          rule(where(lt(y, ix), x, y), maximum(x, y)), rule(where(c, op<Op::Load>(x), 0), fn(select_by_gate)),
          rule(where(c, 0, op<Op::Load>(x)), fn(select_by_gate)),
          rule((x & y).dtype(DType::Bool), fn(conjoin_by_gate)), rule(where(c, x, y), fn(assume_condition)));

// ---- lanes
// Lanes of one scalar, written out: kernels hold no Expand.
UOp stack_of_copies(const Match& m) {
  const UOp &u = m.root(), &x = u.src(0);
  if (u.ndim() != 1 || x.ndim() != 0 || !u.shape()[0].is_const()) return {};
  const std::vector<UOp> lanes(static_cast<size_t>(u.shape()[0].value()), x);
  return lanes.empty() ? UOp() : stack(lanes);
}
constexpr auto kLaneRules = rules(rule(op<Op::Expand>(x, y), fn(stack_of_copies)));

constexpr auto kSymbolic = kInvalidRules + kFoldRules + kIdentityRules + kBoolRules + kCastRules +
                           kWhereRules + kStructureRules + kBoundsRules + kRingRules + kNarrowRules +
                           kTwoStageRules + kFloatRules + kPowRules + kIndexRules + kSelectRules;

}  // namespace

RuleView<UOp> symbolic_rule_set() { return kSymbolic; }

Matcher<UOp> make_symbolic_matcher(std::initializer_list<RuleView<UOp>> more) {
  static const Matcher<UOp>* const entry_rules = new Matcher<UOp>(kEntryRules);
  std::vector<RuleView<UOp>> sets{kSymbolic};
  sets.insert(sets.end(), more);
  return Matcher<UOp>(sets, FixedPoints::Noted, entry_rules);
}

const Matcher<UOp>& symbolic_rules() {
  static const Matcher<UOp>* const matcher = new Matcher<UOp>(make_symbolic_matcher());
  return *matcher;
}

UOp simplify(const UOp& u) { return graph_rewrite(u, symbolic_rules(), {.name = "simplify"}); }

UOp simplify_lanes(const UOp& u) {
  static const Matcher<UOp>* const matcher = new Matcher<UOp>(make_symbolic_matcher({kLaneRules}));
  return graph_rewrite(u, *matcher, {.name = "simplify lanes"});
}

}  // namespace lathe
