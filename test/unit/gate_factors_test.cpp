// Gates on products move to a factor.
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "unit/tensor_check.h"
#include "uop/comparison.h"

#include <algorithm>

using namespace lathe;

namespace {

const UOp i = range(8, 0, AxisType::Loop), k = range(5, 1, AxisType::Reduce);
UOp memory(int slot, int64_t n) { return param(slot, {SInt(n)}, DType::Float32); }
UOp sum(const UOp& x) { return UOp::make(Op::Reduce, {x, k}, ReduceArg{Op::Add, 0}); }
UOp zero() { return constant(DType::Float32, 0.0); }
const UOp kInside = lt(i + k, 8);

long selections(const UOp& u) { return std::ranges::count(toposort(u), Op::Where, &UOp::op); }

}  // namespace

TEST_CASE("the factor that needs the gate keeps it, the other one loses it") {
  const UOp x = load(index(memory(1, 8), where(kInside, i + k, invalid())));
  const UOp w = load(index(memory(2, 5), where(kInside, k, invalid())));
  const UOp out = gate_factors(sum(where(kInside, x * w, zero())));
  const UOp expected = sum(x * load(index(memory(2, 5), k)));
  CHECK((out == expected || out == sum(load(index(memory(2, 5), k)) * x)));
}

TEST_CASE("a factor computed of a gated load is selected itself") {
  const UOp x = load(index(memory(1, 8), where(kInside, i + k, invalid()))) + constant(DType::Float32, 1.0);
  const UOp w = load(index(memory(2, 5), k));
  const UOp out = gate_factors(sum(where(kInside, x * w, zero())));
  CHECK(out.src(0).op() == Op::Mul);
  CHECK(selections(out) == 2);  // the index, and the factor
}

TEST_CASE("what may be no number under the gate stays as it is") {
  const UOp x = load(index(memory(1, 8), where(kInside, i + k, invalid())));
  const UOp w = load(index(memory(2, 5), k));
  const UOp quotient = sum(where(kInside, x * alu(Op::Reciprocal, {w}), zero()));
  CHECK(gate_factors(quotient) == quotient);
  const UOp hidden = sum(where(lt(w, constant(DType::Float32, 1.0)), x * w, zero()));
  CHECK(gate_factors(hidden) == hidden);
  const UOp largest = UOp::make(Op::Reduce, {where(kInside, x * w, zero()), k}, ReduceArg{Op::Max, 0});
  CHECK(gate_factors(largest) == largest);
}
