#include "base/knobs.h"
#include "codegen/decompose/transcendental.h"
#include "codegen/decompose/typed.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/rewrite.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <unordered_map>

namespace lathe {
namespace {

using namespace typed;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  constexpr OpSet kBounded{Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Neg, Op::Where, Op::Trunc, Op::Cast};
  size_t n_nodes = 0;
  const NodeList order = toposort(u, [&](const UOp& n) {
    const bool bounded =
        kBounded.contains(n.op()) && is_float(n.dtype()) && is_float(n.srcs().back().dtype());
    return bounded && ++n_nodes <= kMaxNodes;
  });
  if (n_nodes > kMaxNodes) return kInfinity;
  std::unordered_map<const Node*, double> known;
  const auto of = [&](const UOp& n) {
    if (const auto it = known.find(n.node()); it != known.end()) return it->second;
    if (n.op() == Op::Sin) return 1.0;
    return std::max(std::fabs(n.bounds().lo.as_double()), std::fabs(n.bounds().hi.as_double()));
  };
  for (const UOp& n : order) {
    const auto values = n.op() == Op::Where ? n.srcs().subspan(1) : n.srcs();
    double r = of(values[0]);
    for (const UOp& s : values.subspan(1)) r = combine(n.op(), r, of(s));
    known.emplace(n.node(), std::isnan(r) ? kInfinity : r);
  }
  return of(u);
}

namespace {

struct FloatContext {
  const Target& target;
  int next_range;         // ids that are free
  int64_t next_register;  // slots of scratch that are free
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

// |b|^e with the cases that IEEE 754 gives to pow.
UOp pow_expression(const UOp& base, const UOp& exponent, Precision precision) {
  const UOp magnitude = where(less(base, 0.0), sub(num(base, 0.0), base), base);
  const UOp power = precision == Precision::Full
                        ? power_expression(magnitude, exponent)
                        : exp2_expression(exponent * log2_expression(magnitude, precision), precision);
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

// ---- sin ----------------------------------------------------------------------------------------

// Scratch for one value of the shape of `like`.
class Register {
 public:
  Register(const UOp& like, FloatContext& context)
      : lanes_(like.ndim() ? like.shape()[0].value() : 0),
        buffer_(scratch_buffer(context.next_register++, like.dtype(), std::max<int64_t>(lanes_, 1))) {}
  // Its address once `deps` have happened.
  UOp at(std::span<const UOp> deps) const {
    return elements_from(after(buffer_, deps), lanes_, constant(DType::Int32, 0));
  }
  UOp at(std::initializer_list<UOp> deps) const {
    return at(std::span<const UOp>(deps.begin(), deps.size()));
  }

 private:
  int64_t lanes_;  // 0 for a scalar
  UOp buffer_;
};

// 1 where some lane is true, else 0.
UOp any_lane(const UOp& condition) {
  const UOp v = where(condition, constant(DType::UInt32, 1), constant(DType::UInt32, 0));
  return v.ndim() ? fold_lanes(Op::Or, v) : v;
}

// Where the angle is pi/2 - x, x: of it cos(x) is computed, without the rounding of the difference.
UOp cosine_angle(const UOp& angle) {
  if (angle.op() != Op::Add || !angle.src(1).is_const(cast_scalar(std::numbers::pi / 2, angle.dtype())))
    return {};
  const UOp& minus = angle.src(0);
  return minus.op() == Op::Mul && minus.src(1).is_const(-1) ? minus.src(0) : UOp();
}

// Reducing huge angles is most of the work and hardly ever needed, so it is the body of a loop that runs once
// where some lane needs it, else not at all. The loop reads the angle back from scratch, which keeps its
// computation inside.
UOp lower_sin(const UOp& angle_in, FloatContext& context) {
  const UOp of_cosine = cosine_angle(angle_in);
  const UOp& x = of_cosine ? of_cosine : angle_in;
  const int quarters = of_cosine ? 1 : 0;
  const double limit = x.dtype() == DType::Float32 ? kSinReduction32 : kSinReduction64;
  if (largest_magnitude(x) <= limit) return sin_of_ordinary(x, quarters);
  std::vector<UOp> around;
  for (const Node* r : x.ranges()) around.emplace_back(r);
  const Register angle(x, context), result(x, context);
  const UOp angle_kept = store(angle.at(around), x),
            ordinary_kept = store(result.at(around), sin_of_ordinary(x, quarters));
  // Known to be at most 1, the loop variable would be simplified to 0; of a Bitcast nothing is known.
  const UOp times = bitcast(any_lane(is_huge_angle(x)), DType::Int32);
  const UOp once = range(times, context.next_range++, AxisType::Loop);
  const UOp again = load(angle.at({angle_kept, once}));
  const UOp place = result.at({ordinary_kept, once});
  const UOp huge =
      where(is_huge_angle(again), sin_of_huge(again, context.has_double(), quarters), load(place));
  return load(result.at({UOp::make(Op::End, {store(place, huge), once})}));
}

UOp lower_exp2(const UOp& x) {
  if (x.op() == Op::Mul && x.src(1).is_const())
    if (const auto scale = exp_scale(x.src(1).value(), x.dtype())) return exp_expression(x.src(0), *scale);
  return exp2_expression(x);
}

UOp lower_transcendental(const Match& m) {
  if (!replaces_transcendental(m)) return {};
  const UOp& root = m.root();
  if (is_narrow(root.dtype())) return in_single(m);
  FloatContext& context = m.ctx<FloatContext>();
  switch (root.op()) {
    case Op::Exp2: return m.fit(lower_exp2(root.src(0)));
    case Op::Log2: return m.fit(log2_expression(root.src(0)));
    case Op::Sin: return m.fit(lower_sin(root.src(0), context));
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

// clang-format off
inline constexpr auto kFloatRules = [] {
  using namespace pat;
  return late_rules(
      rule(any_op<OpSet{Op::Exp2, Op::Log2, Op::Sin, Op::Pow}>(any_srcs()), fn(lower_transcendental)),
      rule(op<Op::Sqrt>(x), fn(lower_sqrt)),
      rule(op<Op::Trunc>(x).dtypes(is_float), fn(lower_trunc)),
      rule(op<Op::Reciprocal>(x), fn(lower_reciprocal)));
}();
// clang-format on

}  // namespace

UOp decompose_float(const UOp& sink, const Target& target) {
  static const Matcher<UOp> rules(kFloatRules);
  FloatContext context{target, 0, 0};
  for (const UOp& u : toposort(sink)) {
    if (u.op() == Op::Range) context.next_range = std::max(context.next_range, u.range().id + 1);
    if (u.op() == Op::Buffer) context.next_register = std::max(context.next_register, u.param().slot + 1);
  }
  return graph_rewrite(sink, rules, {.ctx = context, .name = "decompose_float"});
}

}  // namespace lathe
