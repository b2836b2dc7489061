#include "codegen/tensor_core.h"

#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"
#include "uop/simplify.h"

#include <algorithm>
#include <map>

namespace lathe {
namespace {

struct Interval {
  int64_t lo, hi;
  bool contains(const Interval& o) const { return lo <= o.lo && o.hi <= hi; }
};
constexpr Interval kByte{0, 255}, kSigned{-128, 127}, kShort{-32768, 32767};

// A factor as an operand: what is added to it so that it fits the dtype.
struct Operand {
  UOp factor;
  DType dtype;
  int64_t offset = 0;
};

// What a sum of products becomes: Σ a·b, less the same sum with the operand that has an offset replaced by
// it.
struct Match {
  Operand a, b;
};

Interval bounds_of(const UOp& u) {
  const Bounds& b = u.bounds();
  return {b.lo.as_i64(), b.hi.as_i64()};
}

bool is_gated_by_zero(const UOp& u) { return u.op() == Op::Where && u.src(2).is_const(Scalar(0)); }
const UOp& without_gates(const UOp& u) {
  const UOp* x = &u;
  while (is_gated_by_zero(*x)) x = &x->src(1);
  return *x;
}

// In the arithmetic of x's type; half of all numbers is the highest bit.
UOp plus(const UOp& x, int64_t offset) {
  if (!offset) return x;
  const UOp more = constant(x.dtype(), Scalar(offset));
  if (more.is_const(Scalar(0))) return x;
  return more.value().as_i64() == 128 || more.value().as_i64() == -128 ? x ^ more : x + more;
}

// Offsets go to the factor that is shared by all lanes: the other one's sum is then shared by all that this
// one is multiplied with. Of two alike, to the one that comes closer to 0, or else that is read more often.
bool takes_offset(const UOp& x, const UOp& y) {
  const bool wide_x = static_cast<bool>(open_axis(x, AxisType::Vector)),
             wide_y = static_cast<bool>(open_axis(y, AxisType::Vector));
  if (wide_x != wide_y) return wide_y;
  const int64_t lo_x = bounds_of(x).lo, lo_y = bounds_of(y).lo;
  return lo_x != lo_y ? lo_x > lo_y : trips_of(x) >= trips_of(y);
}

std::optional<Match> match_bytes(UOp x, UOp y) {
  if (!kByte.contains(bounds_of(x))) std::swap(x, y);
  const Interval p = bounds_of(x), q = bounds_of(y);
  if (kByte.contains(p) && kSigned.contains(q)) return Match{{x, DType::UInt8}, {y, DType::Int8}};
  if (kByte.contains(p) && kByte.contains(q)) return Match{{x, DType::UInt8}, {y, DType::Int8, -128}};
  if (!kSigned.contains(p) || !kSigned.contains(q)) return {};
  if (!takes_offset(x, y)) std::swap(x, y);
  return Match{{x, DType::UInt8, -bounds_of(x).lo}, {y, DType::Int8}};
}

// The factors of what `r` sums, or nothing.
std::optional<Match> match_products(const UOp& r, int64_t group) {
  if (r.arg_as<ReduceArg>().op != Op::Add) return {};
  const UOp& value = is_gated_by_zero(r.src(0)) ? r.src(0).src(1) : r.src(0);
  const bool is_product = value.op() == Op::Mul;  // else one with 1
  UOp x = is_product ? value.src(0) : value;
  const UOp y = is_product ? value.src(1) : constant(r.dtype(), Scalar(1));
  // A product that counts under a gate only is one of a factor that is 0 without.
  if (!(value == r.src(0))) x = where(r.src(0).src(0), x, r.src(0).src(2));
  if (r.dtype() == DType::Float32) {
    const auto is_wide = [](const UOp& u) {
      const UOp& v = without_gates(u);
      return v.op() == Op::Cast && v.src(0).dtype() == DType::BFloat16;
    };
    if (group != 2 || !is_wide(x) || !is_wide(y)) return {};
    return Match{{x, DType::BFloat16}, {y, DType::BFloat16}};
  }
  if (r.dtype() != DType::Int32) return {};
  if (group == 4) return match_bytes(x, y);
  if (group != 2 || !kShort.contains(bounds_of(x)) || !kShort.contains(bounds_of(y))) return {};
  return Match{{x, DType::Int16}, {y, DType::Int16}};
}

// The factor plus its offset, which fits the dtype: all arithmetic is modulo its width, so that sums of
// literals leave the cast and meet the offset.
UOp operand(const Operand& o) {
  UOp x = without_gates(o.factor);
  const bool has_gates = !(x == o.factor);
  int64_t offset = has_gates ? 0 : o.offset;
  const auto peel = [&] {
    while (x.op() == Op::Add && x.src(1).is_const()) {
      offset += x.src(1).value().as_i64();
      x = UOp(x.src(0));
    }
  };
  if (is_float(o.dtype)) {
    x = UOp(x.src(0));
  } else {
    peel();
    if (x.op() == Op::Cast && is_int(x.src(0).dtype()) && bit_width(x.src(0).dtype()) <= bit_width(o.dtype)) {
      x = UOp(x.src(0));
      if (bit_width(x.dtype()) == bit_width(o.dtype)) peel();
    }
    x = plus(cast(x, o.dtype), offset);
  }
  if (!has_gates) return x;
  SmallVec<UOp, 2> gates;
  for (const UOp* u = &o.factor; is_gated_by_zero(*u); u = &u->src(1)) gates.push_back(u->src(0));
  for (size_t i = gates.size(); i-- > 0;) x = where(gates[i], x, constant(o.dtype, Scalar(0)));
  return plus(x, o.offset);
}

const DotInstruction* instruction(const UOp& reduce, const Match& m, const Target& target) {
  return target.dot(m.a.dtype, m.b.dtype, reduce.dtype());
}

UOp dot_range(const UOp& reduce) {
  for (const UOp& s : reduce.srcs().subspan(1))
    if (s.op() == Op::Range && s.range().type == AxisType::Dot) return s;
  return {};
}

UOp dot_of(const UOp& a, const UOp& b, const UOp& reduce, const UOp& r) {
  const UOp none = constant(reduce.dtype(), Scalar(0));
  const UOp dot = UOp::make(Op::Dot, {none, a, b, r});
  SmallVec<UOp, 8> srcs{dot};
  for (const UOp& s : reduce.srcs().subspan(1))
    if (!(s == r)) srcs.push_back(s);
  return srcs.size() == 1 ? dot : reduce.with_srcs(srcs);
}

UOp lower_sum(const UOp& reduce, const UOp& r, const Target& target) {
  const int64_t group = r.src(0).value().as_i64();
  const auto m = match_products(reduce, group);
  if (!m || !instruction(reduce, *m, target))
    return substitute(reduce, {{r, range(group, r.range().id, AxisType::Unroll)}});
  const UOp a = operand(m->a), b = operand(m->b), sum = dot_of(a, b, reduce, r);
  if (m->a.offset) return sum - dot_of(constant(m->a.dtype, Scalar(m->a.offset)), b, reduce, r);
  if (m->b.offset) return sum - dot_of(a, constant(m->b.dtype, Scalar(m->b.offset)), reduce, r);
  return sum;
}

// `x` + `dot` as one Dot, where it is one that starts from 0.
UOp added(const UOp& x, const UOp& dot) {
  if (dot.op() != Op::Dot || !dot.src(0).is_const(Scalar(0))) return {};
  if (!x.is_const() && x.dtype() != dot.dtype()) return {};
  SmallVec<UOp, 8> srcs(dot.srcs());
  srcs[0] = x.is_const() ? constant(dot.dtype(), x.value()) : x;  // a literal may be weak
  return dot.with_srcs(srcs);
}

class DotWidening {
 public:
  UOp run(const UOp& body) {
    next_id_ = next_range_id(body);
    return done_.walk(toposort(body), [&](const UOp& u) { return visit(u); });
  }

 private:
  UOp visit(const UOp& u) {
    const UOp v = done_.over_sources(u);
    if (v.op() == Op::Add) {
      if (const UOp sum = added(v.src(0), v.src(1))) return sum;
      if (const UOp sum = added(v.src(1), v.src(0))) return sum;
    }
    if (v.op() != Op::Dot || v.n_srcs() != 4 || v.src(3).range().type != AxisType::Dot) return v;
    keep_.push_back(v);
    SmallVec<UOp, 8> srcs{v.src(0)};
    std::vector<UOp> ranges;
    for (size_t i = 1; i < 3; i++) {
      srcs.push_back(widened(v.src(i), v.src(3)));
      for (const Node* r : srcs.back().ranges())
        if (UOp(r).range().type == AxisType::Vector) ranges.emplace_back(r);
    }
    for (size_t i = 0; i < ranges.size(); i++)
      if (i == 0 || !(ranges[i] == ranges[0])) srcs.push_back(ranges[i]);
    return v.with_srcs(srcs);
  }

  // `x` over one range that counts through the groups of all its lanes.
  UOp widened(const UOp& x, const UOp& dot) {
    const UOp lanes = open_axis(x, AxisType::Vector);
    const int64_t group = dot.src(0).value().as_i64();
    const int64_t n = lanes ? lanes.src(0).value().as_i64() : 1;
    UOp& all = wide_[{lanes.node(), dot.node()}];
    if (!all) all = range(n * group, next_id_++, AxisType::Vector);
    Rebuilt& done = over_[all.node()];
    if (lanes) done.set(lanes, all / group);
    done.set(dot, lanes ? all % group : all);
    const auto depends = [&](const UOp& u) {
      return !done.contains(u) && (is_open(u, dot) || (lanes && is_open(u, lanes)));
    };
    for (const UOp& u : toposort(x, depends)) done.set(u, simplify(done.over_sources(u)));
    return done.of(x);
  }

  Rebuilt done_;
  std::vector<UOp> keep_;  // what over_ knows by address
  std::map<std::pair<const Node*, const Node*>, UOp> wide_;
  std::map<const Node*, Rebuilt> over_;
  int next_id_ = 0;
};

}  // namespace

const char* why_no_dot(const UOp& body, const UOp& axis, int64_t amount) {
  if (axis.range().type != AxisType::Reduce) return "not a reduction loop";
  for (const UOp& u : reduces_over(body, axis)) {
    if (dot_range(u)) return "the reduction has a dot axis";
    if (!match_products(u, amount))
      return "no dot instruction sums this: it has to be int32 products of 4 factors of 8 bits or 2 of 16, "
             "or "
             "float32 products of 2 that were bfloat16";
  }
  return nullptr;
}

std::optional<Interleaved> interleaved_in(const UOp& index, int64_t item_size) {
  const UOp r = item_size == 1 || item_size == 2 ? open_axis(index, AxisType::Vector) : UOp();
  if (!r) return {};
  Interleaved out{{}, 4 / item_size, r.src(0).value().as_i64() / (4 / item_size), 0};
  const UOp run = r / out.n_runs, turn = r % out.n_runs;
  bool has_run = false;
  for (const UOp& t : split_operands(index, Op::Add)) {
    if (!is_open(t, r))
      out.base = out.base ? out.base + t : t;
    else if (t == run && !has_run)
      has_run = true;
    else if (t.op() == Op::Mul && t.src(0) == turn && t.src(1).is_const() && !out.stride)
      out.stride = t.src(1).value().as_i64();
    else
      return {};
  }
  if (!out.base) out.base = constant(0);
  return has_run && out.stride ? std::optional(out) : std::nullopt;
}

int64_t dot_steps(const UOp& body, const UOp& axis, const Target& target) {
  for (int64_t steps : {4, 2}) {
    if (!axis.src(0).is_const() || axis.src(0).value().as_i64() % steps || why_no_dot(body, axis, steps))
      continue;
    for (const UOp& u : reduces_over(body, axis))
      if (instruction(u, *match_products(u, steps), target)) return steps;
  }
  return 0;
}

UOp to_dots(const UOp& body, const Target& target) {
  Rebuilt done;
  return done.walk(toposort(body), [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    const UOp r = v.op() == Op::Reduce ? dot_range(v) : UOp();
    return r ? lower_sum(v, r, target) : v;
  });
}

UOp widen_dots(const UOp& body) {
  const NodeList order = toposort(body);
  const bool any = std::ranges::any_of(order, [](const UOp& u) { return u.op() == Op::Dot; });
  return any ? DotWidening().run(body) : body;
}

}  // namespace lathe
