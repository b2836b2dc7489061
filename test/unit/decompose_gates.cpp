#include "codegen/passes.h"

#include "support/evaluate.h"
#include "support/test.h"

using namespace lathe;
using test::unknown;

namespace {

UOp moved(const UOp& u) {
  const UOp out = move_gates(u, Target());
  for (const UOp& v : toposort(out)) CHECK_FALSE(v.is_invalid());
  return out;
}
UOp gated_load(const UOp& address, const UOp& alternative, const UOp& gate) {
  return UOp::make(Op::Load, {address, alternative, gate});
}
UOp gated_store(const UOp& address, const UOp& value, const UOp& gate) {
  return UOp::make(Op::Store, {address, value, gate});
}
UOp half(double v) { return constant(DType::Float16, v); }
UOp box(const UOp& p, const UOp& offset, int64_t n) {
  const UOp size = constant(Scalar(n));
  return UOp::make(Op::Shrink, {p, stack({&offset, 1}), stack({&size, 1})});
}

const UOp& in() {
  static const UOp p = param(0, {64}, DType::Float16);
  return p;
}
const UOp& out() {
  static const UOp p = param(1, {64}, DType::Float16);
  return p;
}
const UOp& row() {
  static const UOp r = range(16, 0, AxisType::Loop);
  return r;
}
UOp g() { return lt(row(), 5); }
UOp h() { return lt(row(), 9); }
UOp lanes4() {
  const UOp l[] = {constant(0), constant(1), constant(2), constant(3)};
  return stack(l);
}

}  // namespace

TEST_CASE("gates of indices become gates of loads and stores") {
  const UOp at = index(in(), where(g(), row(), invalid()));
  CHECK(moved(load(at)) == gated_load(index(in(), row()), half(0), g()));
  CHECK(moved(store(index(out(), where(g(), row(), invalid())), half(1))) ==
        gated_store(index(out(), row()), half(1), g()));
  // Old gates and nested gates count too; the branches may be swapped.
  CHECK(moved(gated_load(at, half(2), h())) == gated_load(index(in(), row()), half(2), g() & h()));
  const UOp nested = where(g(), where(h(), row(), invalid()), invalid());
  CHECK(moved(load(index(in(), nested))) == gated_load(index(in(), row()), half(0), g() & h()));
  CHECK(moved(load(index(in(), where(g(), invalid(), row())))) ==
        gated_load(index(in(), row()), half(0), logical_not(g())));
  // Arithmetic around a gated index, and a gate that only one branch has.
  CHECK(moved(load(index(in(), where(g(), row(), invalid()) * 2 + 1))) ==
        gated_load(index(in(), row() * 2 + 1), half(0), g()));
  const UOp mixed = where(h(), where(g(), row(), invalid()), constant(0));
  CHECK(moved(load(index(in(), mixed))) ==
        gated_load(index(in(), where(h(), row(), constant(0))), half(0), logical_not(h()) | g()));
  // No gate, no change.
  CHECK(moved(store(index(out(), row()), load(index(in(), row())))) ==
        store(index(out(), row()), load(index(in(), row()))));
}

TEST_CASE("an index loaded through a gate") {
  const UOp table = param(2, {16}, DType::Int32);
  const UOp inner = load(index(table, where(g(), row(), invalid())));
  const UOp want_inner = gated_load(index(table, row()), constant(DType::Int32, 0), g());
  CHECK(moved(load(index(in(), where(h(), inner, invalid())))) ==
        gated_load(index(in(), want_inner), half(0), h()));
}

TEST_CASE("addresses of several lanes") {
  const UOp scalar_gate = box(in(), where(g(), row(), invalid()), 4);
  CHECK(moved(load(scalar_gate)) == gated_load(box(in(), row(), 4), half(0), g()));
  const UOp lane_gate = lt(row() + lanes4(), 5);
  CHECK(moved(load(box(in(), where(lane_gate, row(), invalid()), 4))) ==
        gated_load(box(in(), row(), 4), half(0), lane_gate));
  CHECK(moved(store(box(out(), where(lane_gate, row(), invalid()), 4), half(1))) ==
        gated_store(box(out(), row(), 4), half(1), lane_gate));
  const UOp scattered = row() * 3 + lanes4();
  CHECK(moved(load(index(in(), where(lane_gate, scattered, invalid())))) ==
        gated_load(index(in(), scattered), half(0), lane_gate));
  // One element for all lanes is still an address of four.
  const UOp same = moved(load(index(in(), where(lane_gate, row(), invalid()))));
  CHECK(same.shape() == Shape{4});
  CHECK(same.src(0).shape() == Shape{4});
  const UOp each[] = {where(g(), row(), invalid()), row() + 1, invalid()};
  const UOp want[] = {row(), row() + 1, constant(0)},
            gates[] = {g(), constant(Scalar(true)), constant(Scalar(false))};
  CHECK(moved(load(index(in(), stack(each)))) == gated_load(index(in(), stack(want)), half(0), stack(gates)));
}

TEST_CASE("a gate on a value gates the store") {
  const UOp x = unknown(DType::Float16, 3);
  const UOp at = index(out(), row());
  CHECK(moved(store(at, where(g(), x, invalid()))) == gated_store(at, x, g()));
  CHECK(moved(store(at, where(g(), x, invalid()) * half(2))) == gated_store(at, x * half(2), g()));
  CHECK(moved(store(at, invalid())).op() == Op::Noop);
  CHECK(moved(store(index(out(), invalid()), x)).op() == Op::Noop);
  CHECK(moved(load(index(in(), invalid()))) == half(0));
  const UOp lanes[] = {half(1), half(2)};
  CHECK(moved(store(box(out(), invalid(), 2), stack(lanes))).op() == Op::Noop);
  const UOp zeros[] = {half(0), half(0)};
  CHECK(moved(load(box(in(), invalid(), 2))) == stack(zeros));
}

TEST_CASE("a gated value is 0 in a reduction") {
  const UOp x = unknown(DType::Float32, 3), zero = constant(DType::Float32, 0.0);
  const auto sum = [](const UOp& value) {
    return UOp::make(Op::Reduce, {value, row()}, ReduceArg{Op::Add, 0});
  };
  CHECK(moved(sum(where(g(), x, invalid()))) == sum(where(g(), x, zero)));
  CHECK(moved(sum(where(g(), x, invalid()) + x)) == sum(where(g(), x + x, zero)));
}

TEST_CASE("a choice over a gated load") {
  const UOp at = index(in(), where(g(), row(), invalid())), clean = index(in(), row());
  const UOp both = g() & h();
  const UOp at_both = index(in(), where(both, row(), invalid()));
  CHECK(moved(where(g(), load(at), half(0))) == gated_load(clean, half(0), g()));
  CHECK(moved(where(g(), load(at), constant(0))) == gated_load(clean, half(0), g()));
  CHECK(moved(where(g(), load(at), half(7))) == gated_load(clean, half(7), g()));
  CHECK(moved(where(logical_not(g()), half(7), load(at))) == gated_load(clean, half(7), g()));
  // The gate says more than the condition.
  CHECK(moved(where(g(), where(h(), load(at_both), half(0)), half(0))) == gated_load(clean, half(0), both));
  CHECK(moved(where(g(), load(at_both), half(7))) == where(g(), gated_load(clean, half(0), both), half(7)));
  // The condition says more than the gate.
  CHECK(moved(where(both, load(at), half(7))) == where(h(), gated_load(clean, half(7), g()), half(7)));
  // Behind a cast the alternative is cast back, when that is exact.
  const auto wide = [](const UOp& u) { return cast(u, DType::Float32); };
  CHECK(moved(where(g(), wide(load(at)), constant(DType::Float32, 5.0))) ==
        wide(gated_load(clean, half(5), g())));
  const UOp inexact = where(g(), wide(load(at)), constant(DType::Float32, 0.1));
  CHECK(moved(inexact) == where(g(), wide(gated_load(clean, half(0), g())), constant(DType::Float32, 0.1)));
  // A zero of the other sign is another value.
  CHECK(moved(where(g(), load(at), half(-0.0))) == gated_load(clean, half(-0.0), g()));
  // With a second user of the load it would be loaded twice.
  const UOp l = load(at);
  CHECK(moved(where(g(), l, half(7)) + l) ==
        where(g(), gated_load(clean, half(0), g()), half(7)) + gated_load(clean, half(0), g()));
  // Another condition.
  CHECK(moved(where(h(), load(at), half(7))) == where(h(), gated_load(clean, half(0), g()), half(7)));
}
