#include "base/knobs.h"
#include "codegen/passes.h"

#include "support/evaluate.h"
#include "support/test.h"

using namespace lathe;
using test::unknown;

namespace {

UOp commit(const UOp& u) {
  const UOp out = commit_weak_types(u, Target());
  for (const UOp& v : toposort(out)) {
    INFO(expression(out));
    if (v.op() == Op::Stack && v.n_srcs() == 0) continue;  // the shape of a variable holds no numbers
    CHECK_FALSE(is_weak(v.dtype()));
  }
  return out;
}
UOp i32(int64_t v) { return constant(DType::Int32, v); }
UOp i64(int64_t v) { return constant(DType::Int64, v); }
UOp loop(int64_t end, int id = 0) { return range(end, id, AxisType::Loop); }
UOp loop32(int64_t end, int id = 0) { return range(i32(end), id, AxisType::Loop); }

bool has_64_bits(const UOp& u) {
  for (const UOp& v : toposort(u))
    if (is_int(v.dtype()) && bit_width(v.dtype()) == 64) return true;
  return false;
}

}  // namespace

TEST_CASE("index arithmetic is as wide as its widest intermediate") {
  CHECK(commit(loop(10) * 4 + 3) == loop32(10) * i32(4) + i32(3));
  CHECK(commit(constant(3)) == i32(3));
  CHECK(commit(constant(Scalar(int64_t{1} << 40))) == i64(int64_t{1} << 40));
  // The product leaves int32, the remainder does not.
  const UOp wide = (loop(1 << 20) * (1 << 20)) % 1000;
  CHECK(commit(wide) == (cast(loop32(1 << 20), DType::Int64) * i64(1 << 20)) % i64(1000));
  CHECK(commit(loop(int64_t{1} << 40)) == range(i64(int64_t{1} << 40), 0, AxisType::Loop));
}

TEST_CASE("literals take the type of their neighbour") {
  const UOp x = unknown(DType::Float16), u = unknown(DType::UInt8), b = unknown(DType::Bool);
  CHECK(commit(x + constant(1)) == x + constant(DType::Float16, 1.0));
  CHECK(commit(x * constant(Scalar(0.1))) == x * constant(DType::Float16, 0.1));
  CHECK(commit(u ^ constant(-1)) == (u ^ constant(DType::UInt8, 255)));
  CHECK(commit(where(b, x, constant(0))) == where(b, x, constant(DType::Float16, 0.0)));
  CHECK(commit(where(b, constant(1), constant(2))) == where(b, i32(1), i32(2)));
  CHECK(commit(logical_not(b)) == logical_not(b));
  CHECK(commit(cast(constant(Scalar(5.5)), DType::Int8)) == constant(DType::Int8, 5));
  CHECK(commit(u << constant(3)) == (u << constant(DType::UInt8, 3)));
  const UOp n = unknown(DType::UInt32);
  CHECK(commit(constant(1) << n) == (constant(DType::UInt32, 1) << n));
  CHECK(commit(x + loop(5)) == x + cast(loop32(5), DType::Float16));
}

TEST_CASE("weak floats get the default float, or what asks for them") {
  const UOp b = unknown(DType::Bool);
  const UOp weak = cast(b, DType::WeakFloat) + constant(Scalar(1e-5));
  const auto in = [&](DType d) { return cast(b, d) + constant(d, 1e-5); };
  CHECK(commit(weak) == in(DType::Float32));
  CHECK(commit(cast(weak, DType::Float64)) == in(DType::Float64));
  CHECK(commit(cast(weak, DType::BFloat16)) == cast(in(DType::Float32), DType::BFloat16));
  CHECK(commit(weak * unknown(DType::Float64)) == in(DType::Float64)*unknown(DType::Float64));
  const UOp i = unknown(DType::Int32);
  CHECK(commit(i + constant(Scalar(0.5))) == cast(i, DType::Float32) + constant(DType::Float32, 0.5));
  {
    KnobScope half(Knob::DEFAULT_FLOAT, "float16");
    CHECK(commit(weak) == in(DType::Float16));
    CHECK(commit(cast(weak, DType::Float32)) == in(DType::Float32));
  }
}

TEST_CASE("both sides of a comparison fit its type") {
  const UOp u = unknown(DType::UInt8), i = unknown(DType::Int32), r = loop(1000);
  CHECK(commit(lt(u, constant(100))) == lt(u, constant(DType::UInt8, 100)));
  CHECK(commit(lt(u, constant(300))) == lt(cast(u, DType::Int32), i32(300)));
  CHECK(commit(ne(r, u)) == ne(loop32(1000), cast(u, DType::Int32)));
  CHECK(commit(ne(loop(200), u)) == ne(cast(loop32(200), DType::UInt8), u));
  CHECK(commit(lt(i, constant(Scalar(int64_t{1} << 40)))) ==
        lt(cast(i, DType::Int64), i64(int64_t{1} << 40)));
  CHECK(commit(lt(r, constant(Scalar(int64_t{1} << 40)))) ==
        lt(cast(loop32(1000), DType::Int64), i64(int64_t{1} << 40)));
  CHECK(commit(lt(r, constant(7))) == lt(loop32(1000), i32(7)));
}

TEST_CASE("variables and shapes") {
  const UOp v = variable("n", 1, 100), w = variable("m", 0, int64_t{1} << 40);
  const UOp cv = commit(v), cw = commit(w);
  CHECK(cv.param().dtype == DType::Int32);
  CHECK(cw.param().dtype == DType::Int64);
  CHECK(cv.bounds().hi == Scalar(100));
  CHECK(commit(range(v, 3, AxisType::Loop)) == range(cv, 3, AxisType::Loop));
  const UOp p = param(0, {7, 3}, DType::Float32);
  CHECK(commit(p).src(0).src(0) == i32(7));
  CHECK(commit(p).shape() == p.shape());
}

TEST_CASE("an index into a small buffer is int32") {
  const UOp small = param(0, {60000}, DType::Float32),
            large = param(0, {(int64_t{1} << 31) + 64}, DType::Float32);
  const UOp i = unknown(DType::Int64, 1), row = loop(8);
  const UOp at = i * 8 + row;
  CHECK(commit(index(small, at)).src(1) == cast(i, DType::Int32) * i32(8) + loop32(8));
  CHECK(commit(index(large, at)).src(1) == i * i64(8) + cast(loop32(8), DType::Int64));

  // Bounds alone would make this 64 bits wide; the gate says that only the low half counts.
  const UOp wild = cast(unknown(DType::Int32, 2), DType::WeakInt) * 128 + row;
  const UOp gate = lt(row, 4);
  const UOp gated = commit(index(small, where(gate, wild, invalid())));
  CHECK_FALSE(has_64_bits(gated));
  CHECK(gated.src(1).src(2).is_invalid());

  const UOp first[] = {where(gate, range(int64_t{1} << 28, 1, AxisType::Loop) * 24, invalid())},
            four[] = {constant(4)};
  const auto box = [&](const UOp& p) {
    return commit(UOp::make(Op::Shrink, {p, stack(first), stack(four)}));
  };
  CHECK(has_64_bits(box(large)));
  CHECK(box(large).src(1).dtype() == DType::Int64);
  CHECK(box(small).src(1).dtype() == DType::Int32);
  CHECK(box(small).shape() == Shape{4});

  // A quotient needs all of its operand.
  const UOp high = commit(index(small, (i * 3) / 5));
  CHECK(high.src(1) == cast((i * i64(3)) / i64(5), DType::Int32));
}

TEST_CASE("loads, stores and stacks") {
  const UOp p = param(0, {4}, DType::Float16), b = unknown(DType::Bool, 1);
  const UOp at = index(p, constant(2)), committed = commit(at);
  CHECK(commit(UOp::make(Op::Load, {at, constant(0), b})) ==
        UOp::make(Op::Load, {committed, constant(DType::Float16, 0.0), b}));
  CHECK(commit(store(at, constant(Scalar(5.0)))) == store(committed, constant(DType::Float16, 5.0)));
  const UOp sum = cast(b, DType::WeakFloat) + constant(Scalar(0.5));
  CHECK(commit(store(at, sum)) ==
        store(committed, cast(cast(b, DType::Float32) + constant(DType::Float32, 0.5), DType::Float16)));
  const UOp lanes[] = {loop(3), constant(Scalar(int64_t{1} << 33))};
  const UOp wide[] = {cast(loop32(3), DType::Int64), i64(int64_t{1} << 33)};
  CHECK(commit(stack(lanes)) == stack(wide));
}
