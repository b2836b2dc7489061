#include "codegen/passes.h"

#include "support/evaluate.h"
#include "support/test.h"

using namespace lathe;
using test::unknown;

namespace {

Target full() {
  Target t;
  t.native_ops = kAluOps;
  t.dtypes = ~0u;
  t.has_fma = true;
  return t;
}
Target without(Op op) {
  Target t = full();
  t.native_ops = {};
  for (int i = 0; i < kNumOps; i++)
    if (kAluOps.contains(static_cast<Op>(i)) && static_cast<Op>(i) != op)
      t.native_ops.insert(static_cast<Op>(i));
  return t;
}
UOp num(DType d, double v) { return constant(d, v); }
UOp i32(int64_t v) { return constant(DType::Int32, v); }

UOp checked(const UOp& u, const Target& t) {
  const UOp out = use_native_ops(u, t);
  for (const UOp& v : toposort(out)) CHECK_FALSE(is_weak(v.dtype()));
  CHECK(out.dtype() == u.dtype());
  return out;
}

}  // namespace

TEST_CASE("differences and negation") {
  for (const DType d : {DType::Float32, DType::Int32, DType::UInt8}) {
    const UOp x = unknown(d, 0), y = unknown(d, 1),
              minus = d == DType::UInt8 ? constant(d, 255) : constant(d, -1);
    if (d == DType::UInt8) continue;  // 255 is not recognised; it is what simplifying leaves
    CHECK(checked(x + y * minus, full()) == alu(Op::Sub, {x, y}));
    CHECK(checked(y * minus + x, full()) == alu(Op::Sub, {x, y}));
    CHECK(checked(x * minus, full()) == alu(Op::Neg, {x}));
    CHECK(checked(x + y * minus, without(Op::Sub)) == x + alu(Op::Neg, {y}));
    CHECK(checked(alu(Op::Sub, {x, y}), without(Op::Sub)) == x + alu(Op::Neg, {y}));
    Target neither = without(Op::Sub);
    neither.native_ops = {Op::Add, Op::Mul};
    CHECK(checked(alu(Op::Sub, {x, y}), neither) == x + y * minus);
    CHECK(checked(alu(Op::Neg, {x}), neither) == x * minus);
  }
}

TEST_CASE("comparisons") {
  const UOp x = unknown(DType::Int32, 0), y = unknown(DType::Int32, 1), f = unknown(DType::Float32, 2);
  const UOp a = unknown(DType::Bool, 3), b = unknown(DType::Bool, 4);
  CHECK(checked(eq(x, y), full()) == alu(Op::CmpEq, {x, y}));
  CHECK(checked(eq(x, y), without(Op::CmpEq)) == eq(x, y));
  CHECK(checked(alu(Op::CmpEq, {x, y}), without(Op::CmpEq)) == eq(x, y));
  CHECK(checked(logical_not(lt(x, i32(7))), full()) == lt(i32(6), x));
  CHECK(checked(logical_not(lt(i32(7), x)), full()) == lt(x, i32(8)));
  // The neighbour does not exist, or NaN is on neither side.
  CHECK(checked(logical_not(lt(x, i32(INT32_MIN))), full()) == logical_not(lt(x, i32(INT32_MIN))));
  CHECK(checked(logical_not(lt(i32(INT32_MAX), x)), full()) == logical_not(lt(i32(INT32_MAX), x)));
  CHECK(checked(logical_not(lt(f, num(DType::Float32, 7))), full()) ==
        logical_not(lt(f, num(DType::Float32, 7))));
  CHECK(checked(lt(i32(4), x) & lt(x, i32(6)), full()) == alu(Op::CmpEq, {x, i32(5)}));
  CHECK(checked(lt(i32(4), x) & lt(x, i32(6)), without(Op::CmpEq)) == eq(x, i32(5)));
  CHECK(checked(lt(i32(4), x) & lt(x, i32(7)), full()) == (lt(i32(4), x) & lt(x, i32(7))));
  CHECK(checked(logical_not(a) & logical_not(b), full()) == logical_not(a | b));
  // Not a negation: x != 1 of an integer.
  CHECK(checked(ne(x, i32(1)) & ne(y, i32(1)), full()) == (ne(x, i32(1)) & ne(y, i32(1))));
  const UOp g = unknown(DType::Float32, 5);
  CHECK(checked(lt(f * num(DType::Float32, -1), g * num(DType::Float32, -1)), full()) == lt(g, f));
  CHECK(checked(lt(f * num(DType::Float32, -1), num(DType::Float32, 3)), full()) ==
        lt(num(DType::Float32, -3), f));
  CHECK(checked(lt(f * num(DType::Float32, -1), g * num(DType::Float32, -3)), full()) ==
        lt(g * num(DType::Float32, 3), f));
}

TEST_CASE("maximum without an instruction") {
  for (const DType d : {DType::Float32, DType::Int32}) {
    const UOp x = unknown(d, 0), y = unknown(d, 1);
    CHECK(checked(maximum(x, y), full()) == maximum(x, y));
    CHECK(checked(maximum(x, y), without(Op::Max)) == where(lt(x, y), y, x));
  }
}

TEST_CASE("shifts and fused sums") {
  const UOp x = unknown(DType::Int32, 0), y = unknown(DType::Int32, 1);
  CHECK(checked(x * i32(8), full()) == (x << i32(3)));
  CHECK(checked(x * i32(8), without(Op::Shl)) == x * i32(8));
  CHECK(checked(x * i32(1), full()) == x * i32(1));
  CHECK(checked(x * i32(12), full()) == x * i32(12));
  CHECK(checked(x * y + i32(3), full()) == x * y + i32(3));
  CHECK(checked(x * i32(3), full()) == x * i32(3));
  const UOp a = unknown(DType::Float32, 2), b = unknown(DType::Float32, 3), c = unknown(DType::Float32, 4);
  CHECK(checked(a * b + c, full()) == alu(Op::MulAcc, {a, b, c}));
  CHECK(checked(c + a * b, full()) == alu(Op::MulAcc, {a, b, c}));
  Target no_fma = full();
  no_fma.has_fma = false;
  CHECK(checked(a * b + c, no_fma) == a * b + c);
  const UOp h = unknown(DType::Float16, 5);
  CHECK(checked(h * h + h, full()) == h * h + h);
}

TEST_CASE("divisions") {
  const UOp x = unknown(DType::Float32, 0), y = unknown(DType::Float32, 1);
  const UOp inverse = alu(Op::Reciprocal, {y});
  CHECK(checked(x * inverse, full()) == alu(Op::FDiv, {x, y}));
  CHECK(checked(inverse * x, full()) == alu(Op::FDiv, {x, y}));
  CHECK(checked(x * inverse, without(Op::FDiv)) == x * inverse);
  CHECK(checked(inverse, full()) == inverse);
  CHECK(checked(inverse * num(DType::Float32, -1), full()) == alu(Op::Neg, {inverse}));
  // The reciprocal is shared, or outside of the loop, or one for many lanes.
  CHECK(checked(x * inverse + inverse, full()) == alu(Op::MulAcc, {x, inverse, inverse}));
  const UOp r = range(i32(8), 0, AxisType::Loop), one = constant(DType::Int32, 8);
  const UOp p = UOp::make(Op::Param, {stack({&one, 1})}, param(2, {8}, DType::Float32).arg());
  const UOp element = load(index(p, r));
  CHECK(checked(element * inverse, full()) == element * inverse);
  CHECK(checked(element * alu(Op::Reciprocal, {element + y}), full()) ==
        alu(Op::FDiv, {element, element + y}));
  const UOp lanes[] = {x, y};
  CHECK(checked(stack(lanes) * inverse, full()) == stack(lanes) * inverse);
}
