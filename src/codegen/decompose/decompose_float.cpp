#include "codegen/decompose/decompose_float.h"

#include "base/knobs.h"
#include "codegen/decompose/transcendental.h"
#include "codegen/decompose/typed.h"
#include "uop/rewrite.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace lathe {
namespace {

using namespace typed;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double largest_by_bounds(const UOp& u) {
  const double lo = std::fabs(u.bounds().lo.as_double()), hi = std::fabs(u.bounds().hi.as_double());
  return std::max(lo, hi);
}

// Rounding of sums and products is far smaller than the margin callers leave.
double combine(Op op, double a, double b) {
  switch (op) {
    case Op::Add:
    case Op::Sub: return a + b;
    case Op::Mul: return a == 0 || b == 0 ? 0 : a * b;
    default: return std::max(a, b);
  }
}

}  // namespace

double largest_magnitude(const UOp& u) {
  constexpr size_t kMaxNodes = 64;
  std::unordered_map<const Node*, double> known;
  std::vector<UOp> work{u};
  const auto looks_inside = [](const UOp& n) {
    switch (n.op()) {
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::Max:
      case Op::Neg:
      case Op::Where:
      case Op::Trunc: return is_float(n.dtype());
      case Op::Cast: return is_float(n.src(0).dtype()) && is_float(n.dtype());
      default: return false;
    }
  };
  while (!work.empty()) {
    const UOp n = work.back();
    if (known.size() + work.size() > kMaxNodes) return kInfinity;
    if (known.contains(n.node())) {
      work.pop_back();
      continue;
    }
    if (!looks_inside(n)) {
      known.emplace(n.node(), n.op() == Op::Sin ? 1.0 : largest_by_bounds(n));
      work.pop_back();
      continue;
    }
    const auto values = n.op() == Op::Where ? n.srcs().subspan(1) : n.srcs();
    const size_t before = work.size();
    for (const UOp& s : values)
      if (!known.contains(s.node())) work.push_back(s);
    if (work.size() > before) continue;
    double r = known.at(values[0].node());
    for (const UOp& s : values.subspan(1)) r = combine(n.op(), r, known.at(s.node()));
    known.emplace(n.node(), std::isnan(r) ? kInfinity : r);
    work.pop_back();
  }
  return known.at(u.node());
}

namespace {

struct FloatContext {
  const Target& target;
  bool has(Op op) const { return target.native_ops.contains(op); }
  bool has_double() const { return target.supports_dtype(DType::Float64); }
};

bool replaces_transcendental(const Match& m) {
  if (!is_float(m.root().dtype())) return false;
  const int level = knob(Knob::TRANSCENDENTAL);
  return level >= 2 || (level == 1 && !m.ctx<FloatContext>().has(m.root().op()));
}

// The function in float32, for types narrower than that.
UOp in_single(const Match& m) {
  SmallVec<UOp, 2> srcs;
  for (const UOp& s : m.root().srcs()) srcs.push_back(cast(s, DType::Float32));
  return m.fit(UOp::make(m.root().op(), DType::Void, {srcs.data(), srcs.size()}));
}
bool is_narrow(DType d) { return is_float(d) && bit_width(d) < 32; }

// exp2(e * log2|b|) with the cases that IEEE 754 gives to pow.
UOp pow_expression(const UOp& base, const UOp& exponent, Precision precision) {
  const UOp magnitude = where(less(base, 0.0), sub(num(base, 0.0), base), base);
  const UOp power = exp2_expression(exponent * log2_expression(magnitude, precision), precision);
  // 1^e is 1 and b^0 is 1, even for NaN and infinities.
  const UOp one = num(base, 1.0);
  const UOp positive = where(differs(magnitude, 1.0) & differs(exponent, 0.0), power, one);
  const UOp half = mul(exponent, 0.5);
  const UOp is_fraction = ne(alu(Op::Trunc, {exponent}), exponent);
  const UOp is_odd = ne(alu(Op::Trunc, {half}), half);  // of whole numbers
  const UOp negated = where(is_odd, sub(num(positive, 0.0), positive), positive);
  const UOp of_fraction = where(differs(magnitude, kInfinity), num(base, std::nan("")), positive);
  return where(less(base, 0.0), where(is_fraction, of_fraction, negated), positive);
}

UOp lower_transcendental(const Match& m) {
  if (!replaces_transcendental(m)) return {};
  const UOp& root = m.root();
  if (is_narrow(root.dtype())) return in_single(m);
  const FloatContext& context = m.ctx<FloatContext>();
  switch (root.op()) {
    case Op::Exp2: return m.fit(exp2_expression(root.src(0)));
    case Op::Log2: return m.fit(log2_expression(root.src(0)));
    case Op::Sin:
      return m.fit(sin_expression(root.src(0), largest_magnitude(root.src(0)), context.has_double()));
    default: break;
  }
  const UOp &base = root.src(0), &exponent = root.src(1);
  if (root.dtype() == DType::Float64 || !context.has_double())
    return m.fit(pow_expression(base, exponent, Precision::Full));
  return m.fit(pow_expression(cast(base, DType::Float64), cast(exponent, DType::Float64), Precision::Single));
}

UOp lower_sqrt(const Match& m) {
  if (m.ctx<FloatContext>().has(Op::Sqrt)) return {};
  return m.fit(alu(Op::Pow, {m[pat::x], num(m[pat::x], 0.5)}));
}

// Numbers without a fraction stay: their magnitude is 2^mantissa bits or more, and they may not fit the
// integer.
UOp lower_trunc(const Match& m) {
  const UOp& x = m[pat::x];
  if (m.ctx<FloatContext>().has(Op::Trunc)) return {};
  if (is_narrow(x.dtype())) return in_single(m);
  const bool is_single = x.dtype() == DType::Float32;
  const double limit = is_single ? 0x1p23 : 0x1p52;
  const UOp small = more(x, -limit) & less(x, limit);
  // Casting a large number would have no meaning.
  const UOp cut =
      cast(cast(where(small, x, num(x, 0.0)), is_single ? DType::Int32 : DType::Int64), x.dtype());
  return m.fit(where(small, cut, x));
}

UOp lower_reciprocal(const Match& m) {
  const FloatContext& context = m.ctx<FloatContext>();
  if (context.has(Op::Reciprocal) || !context.has(Op::FDiv)) return {};
  return m.fit(alu(Op::FDiv, {num(m[pat::x], 1.0), m[pat::x]}));
}

inline constexpr auto kFloatRules = [] {
  using namespace pat;
  return late_rules(  //
      rule(any_op<OpSet{Op::Exp2, Op::Log2, Op::Sin, Op::Pow}>(any_srcs()), fn(lower_transcendental)),
      rule(op<Op::Sqrt>(x), fn(lower_sqrt)),                     //
      rule(op<Op::Trunc>(x).dtypes(is_float), fn(lower_trunc)),  //
      rule(op<Op::Reciprocal>(x), fn(lower_reciprocal)));
}();

}  // namespace

UOp decompose_float(const UOp& sink, const Target& target) {
  static const Matcher<UOp> rules(kFloatRules);
  FloatContext context{target};
  return graph_rewrite(sink, rules, {.ctx = context, .name = "decompose_float"});
}

}  // namespace lathe
