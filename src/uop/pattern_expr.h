// Pattern expressions: constexpr trees in preorder, the left and right sides of rewrite rules (pattern.h).
#pragma once
#include "base/error.h"
#include "uop/dtype.h"
#include "uop/op.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace lathe {

class UOp;

// Not constexpr: reaching one while a pattern is built at compile time is the error, and its name is the
// message.
namespace pattern_error {
#define LATHE_PATTERN_ERROR(name) \
  [[noreturn]] inline void name() { ::lathe::detail::check_failed(__FILE__, __LINE__, #name); }
LATHE_PATTERN_ERROR(both_sides_name_this_node)
LATHE_PATTERN_ERROR(commutative_op_needs_its_constant_on_the_right)
LATHE_PATTERN_ERROR(dtype_predicate_accepts_no_dtype)
LATHE_PATTERN_ERROR(each_src_takes_one_plain_node)
LATHE_PATTERN_ERROR(either_order_finds_no_commutative_op)
LATHE_PATTERN_ERROR(left_side_is_just_a_variable)
LATHE_PATTERN_ERROR(late_op_needs_late_rules)
LATHE_PATTERN_ERROR(op_has_another_number_of_sources)
LATHE_PATTERN_ERROR(pattern_has_too_many_alternatives)
LATHE_PATTERN_ERROR(pattern_is_too_long)
LATHE_PATTERN_ERROR(right_side_equals_left_side)
LATHE_PATTERN_ERROR(right_side_needs_a_single_op)
LATHE_PATTERN_ERROR(right_side_needs_a_dtype)
LATHE_PATTERN_ERROR(right_side_needs_exact_sources)
LATHE_PATTERN_ERROR(right_side_cannot_test_a_node)
LATHE_PATTERN_ERROR(right_side_uses_an_unbound_variable)
LATHE_PATTERN_ERROR(rule_has_two_conditions)
#undef LATHE_PATTERN_ERROR
}  // namespace pattern_error

namespace pat {

inline constexpr int kMaxPattern = 24;       // nodes of one side of a rule
inline constexpr int kMaxAlternatives = 32;  // forms one left side expands to
inline constexpr int kMaxVars = 32;

enum class NodeKind : uint8_t {
  Node,     // an op from `ops`
  Literal,  // a Const numerically equal to `literal`
  Number,   // a Const that is not Invalid
  Invalid,  // the Invalid constant
};

enum class SrcMode : uint8_t {
  Any,      // sources are not looked at
  Exact,    // as many sources as sub-patterns
  AtLeast,  // sub-patterns match the first sources
  Each,     // the one sub-pattern matches every source
};

struct Literal {
  enum class Kind : uint8_t { Bool, Int, Float };
  Kind kind = Kind::Int;
  int64_t i = 0;
  double f = 0;
  constexpr bool operator==(const Literal& o) const { return kind == o.kind && i == o.i && f == o.f; }
};

using NodeTest = bool (*)(const UOp&);

constexpr OpSet every_op() {
  OpSet s;
  for (int i = 0; i < kNumOps; i++) s.insert(static_cast<Op>(i));
  return s;
}
inline constexpr OpSet kEveryOp = every_op();
// Not through OpSet's list constructor, whose loop g++ 12 rejects in an immediate function.
constexpr OpSet just(Op op) {
  OpSet s;
  s.insert(op);
  return s;
}
inline constexpr uint32_t kEveryDType = (uint32_t{1} << kNumDTypes) - 1;

// Of a set that is not empty.
constexpr Op first_op(const OpSet& s) {
  int i = 0;
  while (i + 1 < kNumOps && !s.contains(static_cast<Op>(i))) i++;
  return static_cast<Op>(i);
}

struct PatNode {
  OpSet ops = kEveryOp;
  uint32_t dtypes = kEveryDType;  // bit i: DType i is accepted
  NodeKind kind = NodeKind::Node;
  SrcMode mode = SrcMode::Any;
  uint8_t n_srcs = 0;   // sub-patterns
  uint8_t size = 1;     // nodes of this sub-tree
  int8_t var = -1;      // variable that names the node
  bool bare = false;    // a variable on its own: no op was named
  bool either = false;  // sources in both orders
  Literal literal = {};
  NodeTest test = nullptr;
};

// True for literals and constant variables. Rules that make graphs canonical name a constant on the left by
// op<Op::Const>().
constexpr bool is_constant(const PatNode& n) {
  return n.kind == NodeKind::Literal || n.kind == NodeKind::Number;
}
constexpr bool all_commutative(const PatNode& n) {
  if (n.kind != NodeKind::Node || n.mode != SrcMode::Exact || n.n_srcs != 2) return false;
  for (int i = 0; i < kNumOps; i++)
    if (n.ops.contains(static_cast<Op>(i)) && !has_flag(static_cast<Op>(i), kCommutative)) return false;
  return true;
}
constexpr bool same_pattern(const PatNode* a, const PatNode* b) {
  if (a->size != b->size) return false;
  for (int i = 0; i < a->size; i++) {
    const PatNode &p = a[i], &q = b[i];
    if (!(p.ops == q.ops) || p.dtypes != q.dtypes || p.kind != q.kind || p.mode != q.mode ||
        p.n_srcs != q.n_srcs || p.size != q.size || p.var != q.var || p.either != q.either ||
        !(p.literal == q.literal) || p.test != q.test)
      return false;
  }
  return true;
}

// A pattern of N nodes in preorder.
template <int N>
struct Pat {
  static constexpr int kSize = N;
  PatNode n[N];

  // Names the node that this pattern matches: `op<Op::Cast>(x).as(y)`.
  constexpr Pat as(const Pat<1>& variable) const {
    if (n[0].var >= 0) pattern_error::both_sides_name_this_node();
    Pat r = *this;
    r.n[0].var = variable.n[0].var;
    return r;
  }
  constexpr Pat dtype(DType d) const {
    Pat r = *this;
    r.n[0].dtypes &= uint32_t{1} << static_cast<int>(d);
    if (!r.n[0].dtypes) pattern_error::dtype_predicate_accepts_no_dtype();
    return r;
  }
  // `predicate` is evaluated here, for each dtype; matching tests one bit.
  constexpr Pat dtypes(bool (*predicate)(DType)) const {
    Pat r = *this;
    for (int i = 0; i < kNumDTypes; i++)
      if (!predicate(static_cast<DType>(i))) r.n[0].dtypes &= ~(uint32_t{1} << i);
    if (!r.n[0].dtypes) pattern_error::dtype_predicate_accepts_no_dtype();
    return r;
  }
  // A further test of the node, run once the shape of the whole pattern fits.
  constexpr Pat arg_if(NodeTest test) const {
    Pat r = *this;
    if (r.n[0].test) pattern_error::rule_has_two_conditions();
    r.n[0].test = test;
    return r;
  }
};

template <class T>
inline constexpr bool kIsPat = false;
template <int N>
inline constexpr bool kIsPat<Pat<N>> = true;

// What may stand for the sources of an op besides patterns.
struct Unlisted {
  static constexpr int kSize = 0;
  SrcMode mode;  // Any, or Exact for none
};
struct EachSrc {
  static constexpr int kSize = 1;
  Pat<1> pattern;
};

template <class T>
concept Pattern = kIsPat<T>;
template <class T>
concept Number = std::is_arithmetic_v<T>;
template <class T>
concept Operand = Pattern<T> || Number<T>;
template <class... T>
concept Operands = (Operand<T> && ...) && (Pattern<T> || ...);
template <class T>
concept Source = Operand<T> || std::same_as<T, Unlisted> || std::same_as<T, EachSrc>;

template <int N>
constexpr const Pat<N>& to_source(const Pat<N>& p) {
  return p;
}
constexpr Pat<1> to_source(bool v) {
  Pat<1> p{};
  p.n[0].ops = just(Op::Const);
  p.n[0].kind = NodeKind::Literal;
  p.n[0].literal = {Literal::Kind::Bool, v, 0};
  return p;
}
constexpr Pat<1> to_source(std::integral auto v) {
  Pat<1> p = to_source(false);
  p.n[0].literal = {Literal::Kind::Int, static_cast<int64_t>(v), 0};
  return p;
}
constexpr Pat<1> to_source(std::floating_point auto v) {
  Pat<1> p = to_source(false);
  p.n[0].literal = {Literal::Kind::Float, 0, static_cast<double>(v)};
  return p;
}
constexpr Unlisted to_source(Unlisted s) { return s; }
constexpr EachSrc to_source(EachSrc s) { return s; }

template <class T>
using SourceOf = std::remove_cvref_t<decltype(to_source(std::declval<T>()))>;

namespace pattern_detail {

template <int N, class S>
constexpr void append(Pat<N>& to, int& at, const S& s) {
  PatNode& root = to.n[0];
  if constexpr (std::same_as<S, Unlisted>) {
    root.mode = s.mode == SrcMode::Any && root.n_srcs ? SrcMode::AtLeast : s.mode;
  } else if constexpr (std::same_as<S, EachSrc>) {
    root.mode = SrcMode::Each;
    root.n_srcs = 1;
    to.n[at++] = s.pattern.n[0];
  } else {
    root.mode = SrcMode::Exact;
    root.n_srcs++;
    for (int i = 0; i < S::kSize; i++) to.n[at++] = s.n[i];
  }
}

// Whether some op of the set may have the sources of `n`.
constexpr bool some_op_takes(const OpSet& ops, const PatNode& n) {
  for (int i = 0; i < kNumOps; i++) {
    const int arity = kOpTable[i].arity;
    if (!ops.contains(static_cast<Op>(i))) continue;
    if (arity < 0 || (n.mode == SrcMode::Exact ? n.n_srcs == arity : n.n_srcs <= arity)) return true;
  }
  return false;
}

template <class... S>
constexpr auto make_node(OpSet ops, const S&... srcs) {
  constexpr int kNodes = 1 + (0 + ... + S::kSize);
  if (kNodes > kMaxPattern) pattern_error::pattern_is_too_long();
  Pat<kNodes> p{};
  p.n[0].ops = ops;
  p.n[0].size = static_cast<uint8_t>(kNodes);
  [[maybe_unused]] int at = 1;
  (append(p, at, srcs), ...);
  if (!some_op_takes(ops, p.n[0])) pattern_error::op_has_another_number_of_sources();
  return p;
}

constexpr Pat<1> variable(int id, NodeKind kind = NodeKind::Node) {
  Pat<1> p{};
  p.n[0].var = static_cast<int8_t>(id);
  p.n[0].kind = kind;
  p.n[0].bare = kind == NodeKind::Node;
  if (kind != NodeKind::Node) p.n[0].ops = just(Op::Const);
  return p;
}
constexpr Pat<1> invalid_pattern() {
  Pat<1> p{};
  p.n[0].kind = NodeKind::Invalid;
  p.n[0].ops = just(Op::Const);
  return p;
}

}  // namespace pattern_detail

// Variables that match any node. The same variable twice means the same node.
inline constexpr Pat<1> x = pattern_detail::variable(0);
inline constexpr Pat<1> y = pattern_detail::variable(1);
inline constexpr Pat<1> z = pattern_detail::variable(2);
inline constexpr Pat<1> w = pattern_detail::variable(3);
inline constexpr Pat<1> u = pattern_detail::variable(4);
inline constexpr Pat<1> v = pattern_detail::variable(5);
inline constexpr Pat<1> a = pattern_detail::variable(6);
inline constexpr Pat<1> b = pattern_detail::variable(7);
inline constexpr Pat<1> c = pattern_detail::variable(8);
inline constexpr Pat<1> d = pattern_detail::variable(9);
inline constexpr Pat<1> e = pattern_detail::variable(10);
inline constexpr Pat<1> s = pattern_detail::variable(11);
inline constexpr Pat<1> t = pattern_detail::variable(12);
inline constexpr Pat<1> r = pattern_detail::variable(13);
inline constexpr Pat<1> buf = pattern_detail::variable(14);
inline constexpr Pat<1> idx = pattern_detail::variable(15);
inline constexpr Pat<1> val = pattern_detail::variable(16);
inline constexpr Pat<1> gate = pattern_detail::variable(17);
inline constexpr Pat<1> alt = pattern_detail::variable(18);
inline constexpr Pat<1> red = pattern_detail::variable(19);
// Variables that match a Const other than Invalid.
inline constexpr Pat<1> c0 = pattern_detail::variable(24, NodeKind::Number);
inline constexpr Pat<1> c1 = pattern_detail::variable(25, NodeKind::Number);
inline constexpr Pat<1> c2 = pattern_detail::variable(26, NodeKind::Number);
inline constexpr Pat<1> c3 = pattern_detail::variable(27, NodeKind::Number);
// The Invalid constant.
inline constexpr Pat<1> inv = pattern_detail::invalid_pattern();

}  // namespace pat

// ---- ops
// Stands last among the sources: any number of further sources.
constexpr pat::Unlisted any_srcs() { return {pat::SrcMode::Any}; }
// A node without sources.
constexpr pat::Unlisted no_srcs() { return {pat::SrcMode::Exact}; }
// Stands alone: every source matches `p`, a pattern of one unnamed node.
constexpr pat::EachSrc each_src(const pat::Pat<1>& p) {
  if (p.n[0].var >= 0) pattern_error::each_src_takes_one_plain_node();
  return {p};
}

// A node of op O. Without sources: whatever its sources are.
template <Op O, pat::Source... S>
constexpr auto op(const S&... srcs) {
  return pat::pattern_detail::make_node(pat::just(O),
                                        static_cast<const pat::SourceOf<S>&>(pat::to_source(srcs))...);
}
// A node whose op is in the set.
template <OpSet Ops, pat::Source... S>
constexpr auto any_op(const S&... srcs) {
  return pat::pattern_detail::make_node(Ops, static_cast<const pat::SourceOf<S>&>(pat::to_source(srcs))...);
}

// Both orders of the sources of every commutative op of `p` that may come in both: an op with a constant on
// the right has one order only.
template <int N>
constexpr pat::Pat<N> either_order(pat::Pat<N> p) {
  bool found = false;
  for (int i = 0; i < N; i++) {
    pat::PatNode& n = p.n[i];
    if (!pat::all_commutative(n)) continue;
    const pat::PatNode *left = &p.n[i + 1], *right = left + left->size;
    found = true;
    n.either = !pat::is_constant(*right) && !pat::same_pattern(left, right);
  }
  if (!found) pattern_error::either_order_finds_no_commutative_op();
  return p;
}

namespace pat {

// ---- operators: the same graphs as the operators of uop.h
#define LATHE_PATTERN_BINARY(function, name)        \
  template <class A, class B>                       \
    requires Operands<A, B>                         \
  constexpr auto function(const A& l, const B& r) { \
    return op<Op::name>(l, r);                      \
  }
LATHE_PATTERN_BINARY(operator+, Add)
LATHE_PATTERN_BINARY(operator*, Mul)
LATHE_PATTERN_BINARY(operator/, FloorDiv)
LATHE_PATTERN_BINARY(operator%, FloorMod)
LATHE_PATTERN_BINARY(operator&, And)
LATHE_PATTERN_BINARY(operator|, Or)
LATHE_PATTERN_BINARY(operator^, Xor)
LATHE_PATTERN_BINARY(operator<<, Shl)
LATHE_PATTERN_BINARY(operator>>, Shr)
LATHE_PATTERN_BINARY(lt, CmpLt)
LATHE_PATTERN_BINARY(ne, CmpNe)
LATHE_PATTERN_BINARY(maximum, Max)
LATHE_PATTERN_BINARY(pow, Pow)
#undef LATHE_PATTERN_BINARY

// Graphs hold no Neg and no Sub: these are the forms that take their place. Late rules write op<Op::Sub>(x,
// y).
template <Pattern P>
constexpr auto operator-(const P& p) {
  return p * -1;
}
template <class A, Pattern B>
  requires Operand<A>
constexpr auto operator-(const A& l, const B& r) {
  return l + r * -1;
}
template <Pattern A, Number B>
constexpr auto operator-(const A& l, B r) {
  return l + -r;
}

#define LATHE_PATTERN_UNARY(function, name) \
  template <Pattern P>                      \
  constexpr auto function(const P& p) {     \
    return op<Op::name>(p);                 \
  }
LATHE_PATTERN_UNARY(exp2, Exp2)
LATHE_PATTERN_UNARY(log2, Log2)
LATHE_PATTERN_UNARY(sin, Sin)
LATHE_PATTERN_UNARY(sqrt, Sqrt)
LATHE_PATTERN_UNARY(reciprocal, Reciprocal)
LATHE_PATTERN_UNARY(trunc, Trunc)
LATHE_PATTERN_UNARY(cast, Cast)
LATHE_PATTERN_UNARY(bitcast, Bitcast)
#undef LATHE_PATTERN_UNARY

template <Pattern P>
constexpr auto logical_not(const P& p) {
  return ne(p, true);
}
template <Pattern P>
constexpr auto operator!(const P& p) {
  return ne(p, true);
}
template <class A, class B>
  requires Operands<A, B>
constexpr auto eq(const A& l, const B& r) {
  return !ne(l, r);
}
template <class A, class B>
  requires Operands<A, B>
constexpr auto ge(const A& l, const B& r) {
  return !lt(l, r);
}
template <class A, class B, class C>
  requires Operands<A, B, C>
constexpr auto where(const A& condition, const B& yes, const C& no) {
  return op<Op::Where>(condition, yes, no);
}
template <Pattern P>
constexpr auto cast(const P& p, DType d) {
  return op<Op::Cast>(p).dtype(d);
}

}  // namespace pat
}  // namespace lathe
