#include "codegen/decompose/typed.h"
#include "codegen/passes.h"
#include "uop/rebuild.h"
#include "uop/rewrite.h"

#include <unordered_map>

namespace lathe {
namespace {

using namespace typed;

template <Op O>
bool has(const Match& m) {
  return m.ctx<LateContext>().target.native_ops.contains(O);
}
template <Op O>
bool lacks(const Match& m) {
  return !has<O>(m);
}

// ---- products with reciprocals ------------------------------------------------------------------

// x * (1/y) as x / y where nothing else uses the reciprocal, and it runs in the same loops and as many lanes.
UOp use_divisions(const UOp& sink) {
  const NodeList order = toposort(sink);
  std::unordered_map<const Node*, int> users;
  for (const UOp& u : order)
    for (const UOp& s : u.srcs())
      if (s.op() == Op::Reciprocal) users[s.node()]++;
  if (users.empty()) return sink;
  Rebuilt done;
  const auto divides = [&](const UOp& product, const UOp& r) {
    return r.op() == Op::Reciprocal && users[r.node()] == 1 && r.node()->shape == product.node()->shape &&
           r.ranges() == product.ranges();
  };
  return done.walk(order, [&](const UOp& u) {
    for (size_t i = 0; i < 2 && u.op() == Op::Mul; i++)
      if (divides(u, u.src(i)) && !u.src(1 - i).is_const(-1))
        return alu(Op::FDiv, {done.of(u.src(1 - i)), done.of(u.src(i).src(0))});
    return done.over_sources(u);
  });
}

// ---- rules --------------------------------------------------------------------------------------

UOp shift_instead(const Match& m) {
  const std::optional<int> k = log2_of(m[pat::c0]);
  return k && *k > 0 ? m.fit(shl(m[pat::x], *k)) : UOp();
}

// !(x < c) is c-1 < x, and !(c < x) is x < c+1, unless the constant leaves the type.
UOp negate_less(const Match& m) {
  const UOp &x = m[pat::x], &c = m[pat::c0];
  if (!is_int(x.dtype()) || !min_value(c.dtype()).less(c.value())) return {};
  return m.fit(lt(num(c, Scalar(c.value().as_int() - 1)), x));
}
UOp negate_more(const Match& m) {
  const UOp &x = m[pat::x], &c = m[pat::c0];
  if (!is_int(x.dtype()) || !c.value().less(max_value(c.dtype()))) return {};
  return m.fit(lt(x, num(c, Scalar(c.value().as_int() + 1))));
}

// c0 < x < c1 with one number between.
UOp between(const Match& m) {
  const UOp &x = m[pat::x], &lo = m[pat::c0], &hi = m[pat::c1];
  if (!is_int(x.dtype()) || hi.value().as_int() - lo.value().as_int() != 2) return {};
  const UOp middle = num(lo, Scalar(lo.value().as_int() + 1));
  return m.fit(has<Op::CmpEq>(m) ? alu(Op::CmpEq, {x, middle})
                                 : alu(Op::CmpNe, {alu(Op::CmpNe, {x, middle}), constant(Scalar(true))}));
}

bool fuses(const Match& m) {
  const DType d = m.root().dtype();
  return has<Op::MulAcc>(m) && m.ctx<LateContext>().target.has_fma &&
         (d == DType::Float32 || d == DType::Float64);
}

UOp plus_negative(const Match& m) {
  const UOp &x = m[pat::x], &y = m[pat::y];
  return m.fit(x + (has<Op::Neg>(m) ? alu(Op::Neg, {y}) : mul(y, -1)));
}

UOp times_minus_one(const Match& m) { return m.fit(mul(m[pat::x], -1)); }

// -x < y * c is y * -c < x, for c < 0.
UOp flip_product(const Match& m) {
  const UOp &x = m[pat::x], &y = m[pat::y], &c = m[pat::c0];
  if (!c.value().less(Scalar(0))) return {};
  return m.fit(lt(mul(y, Scalar(-c.value().as_double())), x));
}

// -x < c is -c < x.
UOp flip_constant(const Match& m) {
  return m.fit(lt(num(m[pat::c0], Scalar(-m[pat::c0].value().as_double())), m[pat::x]));
}

constexpr bool is_number(DType d) { return !is_bool(d); }
bool both_bool(const Match& m) { return is_bool(m[pat::x].dtype()) && is_bool(m[pat::y].dtype()); }

// clang-format off
inline constexpr auto kLateRules = [] {
  using namespace pat;
  return late_rules(
      rule(either_order(x + op<Op::Neg>(y)).dtypes(is_number), op<Op::Sub>(x, y)).when(has<Op::Sub>),
      rule(either_order(x + y * -1), op<Op::Sub>(x, y)).when(has<Op::Sub>),
      rule(x * -1, op<Op::Neg>(x)).when(has<Op::Neg>),
      rule((x * c0).dtypes(is_int), fn(shift_instead)).when(has<Op::Shl>),
      rule(ne(ne(x, y), true), op<Op::CmpEq>(x, y)).when(has<Op::CmpEq>),
      rule(ne(lt(x, c0), true), fn(negate_less)),
      rule(ne(lt(c0, x), true), fn(negate_more)),
      rule(either_order(lt(c0, x) & lt(x, c1)), fn(between)),
      rule(ne(x, true) & ne(y, true), ne(x | y, true)).when(both_bool),
      rule(lt(op<Op::Neg>(x).dtypes(is_float), op<Op::Neg>(y)), lt(y, x)),
      rule(lt(op<Op::Neg>(x).dtypes(is_float), c0), fn(flip_constant)),
      rule(lt(op<Op::Neg>(x).dtypes(is_float), y * c0), fn(flip_product)),
      rule(either_order(x * y + z), op<Op::MulAcc>(x, y, z)).when(fuses),
      rule(op<Op::Sub>(x, y), fn(plus_negative)).when(lacks<Op::Sub>),
      rule(op<Op::Neg>(x), fn(times_minus_one)).when(lacks<Op::Neg>),
      rule(op<Op::CmpEq>(x, y), ne(ne(x, y), true)).when(lacks<Op::CmpEq>),
      rule(maximum(x, y), where(lt(x, y), y, x)).when(lacks<Op::Max>));
}();
// clang-format on

}  // namespace

RuleView<UOp> native_op_rule_set() { return kLateRules; }

UOp use_native_ops(const UOp& sink, const Target& target) {
  static const Matcher<UOp> rules(kLateRules);
  LateContext context{target};
  const UOp divided = target.native_ops.contains(Op::FDiv) ? use_divisions(sink) : sink;
  return graph_rewrite(divided, rules, {.ctx = context, .name = "use_native_ops"});
}

}  // namespace lathe
