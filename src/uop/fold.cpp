#include "uop/fold.h"

#include "uop/eval.h"

namespace lathe {
namespace {

bool is_scalar_stack(const UOp& u) { return u.op() == Op::Stack && u.n_srcs() > 0 && u.ndim() == 1; }

// Lane `i` of a constant operand, null where it is none.
UOp constant_lane(const UOp& u, size_t i) {
  const UOp& lane = is_scalar_stack(u) ? u.src(u.n_srcs() > 1 ? i : 0) : u;
  return lane.is_const() ? lane : UOp();
}

// The value of one lane; null where it does not fold.
UOp fold_lane(const UOp& u, size_t lane) {
  SmallVec<Scalar, 3> values;
  for (const UOp& s : u.srcs()) {
    const UOp c = constant_lane(s, lane);
    if (!c) return {};
    values.push_back(c.value());
  }
  const std::optional<Scalar> v = eval(u, values);
  return v ? constant(u.dtype(), *v) : UOp();
}

}  // namespace

UOp fold_scalars(const UOp& u) { return fold_lane(u, 0); }

UOp fold_constants(const Match& m) {
  const UOp& u = m.root();
  if (u.op() == Op::Threefry) return {};
  size_t lanes = 0;
  for (const UOp& s : u.srcs()) {
    if (is_scalar_stack(s))
      lanes = std::max(lanes, s.n_srcs());
    else if (!s.is_const())
      return {};
  }
  if (!lanes) {
    const UOp folded = fold_lane(u, 0);
    return folded ? m.fit(folded) : folded;
  }
  SmallVec<UOp, 16> out;
  for (size_t i = 0; i < lanes; i++) {
    out.push_back(fold_lane(u, i));
    if (!out.back()) return {};
  }
  return stack(out);
}

UOp fold_cast_of_constant(const Match& m) {
  const UOp& u = m.root();
  return u.src(0).is_invalid() ? u.src(0) : constant(u.dtype(), u.src(0).value());
}

UOp fold_bitcast_of_constant(const Match& m) {
  const UOp &u = m.root(), &x = u.src(0);
  if (x.is_invalid()) return x;
  if (is_weak(x.dtype()) || is_weak(u.dtype()) || item_size(x.dtype()) != item_size(u.dtype())) return {};
  const auto fold = [&](const UOp& c) {
    return UOp::make(Op::Const, u.dtype(), {}, bitcast_scalar(c.value(), c.dtype(), u.dtype()));
  };
  if (x.is_const()) return fold(x);
  SmallVec<UOp, 16> lanes;
  for (const UOp& lane : x.srcs()) {
    if (!lane.is_const() || lane.dtype() != x.dtype()) return {};
    lanes.push_back(fold(lane));
  }
  return lanes.empty() ? UOp() : stack(lanes);
}

UOp fold_single_value(const Match& m) {
  const UOp& u = m.root();
  if (is_float(u.dtype()) || u.dtype() == DType::Void) return {};
  // Bounds look through Invalid, which a fold would lose; a gate reaches this node's own sources before its
  // bounds are asked.
  if (u.op() != Op::Param)
    for (const UOp& s : u.srcs())
      if (s.is_invalid() || s.op() == Op::Stack) return {};
  // A loop that may be empty is not one that runs once.
  if (u.op() == Op::Range && u.src(0).bounds().lo.less(Scalar(1))) return {};
  const Bounds& b = u.bounds();
  return b.is_single() ? m.fit(constant(u.dtype(), b.lo)) : UOp();
}

UOp constant_to_the_right(const Match& m) {
  const UOp &u = m.root(), &a = u.src(0), &b = u.src(1);
  return a.is_const() && !b.is_const() ? m.fit(alu(u.op(), {b, a})) : UOp();
}

UOp order_operands(const Match& m) {
  const UOp &u = m.root(), &a = u.src(0), &b = u.src(1);
  if (b.is_const() || compare_structure(b, a) >= 0) return {};
  return m.fit(alu(u.op(), {b, a}));
}

}  // namespace lathe
