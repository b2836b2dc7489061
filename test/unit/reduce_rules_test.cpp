#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <random>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

UOp sum(const UOp& value, std::vector<UOp> ranges, Op op = Op::Add) {
  ranges.insert(ranges.begin(), value);
  return UOp::make(Op::Reduce, DType::Void, ranges, ReduceArg{op, 0});
}
UOp loop(int64_t end, int id) { return range(end, id, AxisType::Reduce); }
UOp collapsed(const UOp& u) { return graph_rewrite(u, reduce_rules()); }
UOp read(int slot, int64_t size, const UOp& i, DType d = DType::Float32) {
  return load(index(param(slot, {size}, d), i));
}
bool has_reduce(const UOp& u) {
  for (const UOp& n : toposort(u))
    if (n.op() == Op::Reduce) return true;
  return false;
}
UOp one(DType d) { return constant(d, Scalar(1)); }

}  // namespace

TEST_CASE("a one-hot sum becomes a gated load") {
  const UOp r = loop(10, 0), i = range(4, 1, AxisType::Loop);
  const UOp row = read(1, 4, i, DType::Int32);
  const UOp value = read(0, 10, r);
  const UOp zero = constant(DType::Float32, Scalar(0));
  const UOp k = cast(row, DType::WeakInt);
  const UOp gate = simplify(ge(k, 0) & lt(k, 10));
  const UOp want = simplify(where(gate, read(0, 10, where(gate, k, invalid())), zero));
  const UOp ri = cast(r, DType::Int32);
  const UOp forms[] = {
      where(ne(ri, row), zero, value),
      where(ne(row, ri), zero, value),
      where(eq(ri, row), value, zero),
      cast(eq(row, ri), DType::Float32) * value,
      value * where(eq(row, ri), one(DType::Float32), zero),
      where(ne(r, cast(row, DType::WeakInt)), zero, value),
      where(ne(cast(r, DType::Int64), cast(row, DType::Int64)), zero, value),
      where(ne(row, r), zero, value),
  };
  for (const UOp& form : forms) {
    const UOp got = collapsed(sum(form, {r}));
    CHECK_MESSAGE(got == want, expression(got), " instead of ", expression(want));
  }
}

TEST_CASE("a narrow cast of the range is no exact comparison") {
  const UOp r = loop(1000, 0);
  const UOp row = read(1, 4, range(4, 1, AxisType::Loop), DType::UInt8);
  CHECK(
      has_reduce(collapsed(sum(where(ne(cast(r, DType::UInt8), row), constant(0), read(0, 1000, r)), {r}))));
}

TEST_CASE("the other ranges of a one-hot sum stay, and scaled ranges are divided out") {
  const UOp r = loop(10, 0), s = loop(8, 2);
  const UOp k = variable("k", 0, 9);
  const UOp two = collapsed(sum(where(ne(r, k), constant(0), read(0, 80, r * 8 + s)), {r, s}));
  CHECK(two == collapsed(sum(read(0, 80, k * 8 + s), {s})));
  const UOp j = range(20, 3, AxisType::Loop);
  const UOp strided = collapsed(sum(where(eq(r * 2, j), read(0, 10, r), constant(0)), {r}));
  CHECK_MESSAGE(!has_reduce(strided), expression(strided));
  CHECK(strided == simplify(where(ne(j % 2, constant(0)), constant(DType::Float32, Scalar(0)),
                                  read(0, 10, where(ne(j % 2, constant(0)), invalid(), j / 2)))));
}

TEST_CASE("counting where a comparison holds") {
  const UOp r = loop(10, 0);
  const UOp i = range(10, 1, AxisType::Loop), k = variable("k", -5, 20);
  auto count = [&](const UOp& v) { return collapsed(sum(v, {r})); };
  const UOp yes = constant(DType::Int32, Scalar(1)), no = constant(DType::Int32, Scalar(0));
  CHECK(count(where(lt(r, i), yes, no)) == simplify(cast(i, DType::Int32)));
  CHECK(count(where(lt(i, r), no, yes)) == simplify(cast(i + 1, DType::Int32)));
  CHECK(count(where(lt(i, r), yes, no)) == simplify(cast(constant(9) - i, DType::Int32)));
  CHECK(count(where(lt(r, 4), yes, no)) == simplify(constant(DType::Int32, Scalar(4))));
  CHECK(count(where(ge(r, 4), yes, constant(DType::Int32, Scalar(3)))) == constant(DType::Int32, Scalar(18)));
  CHECK(count(where(lt(i, r + 3), yes, no)) ==
        simplify(cast(constant(10) - maximum(i - 2, constant(0)), DType::Int32)));
  CHECK(count(where(ge(r, 2) & lt(r, 7), constant(3), constant(0))) == constant(15));
  CHECK(count(where(lt(r * 3, 10), constant(1), constant(0))) == constant(4));
  CHECK(count(cast(ge(r, 7), DType::Float32)) == constant(DType::Float32, Scalar(3.0)));
  // k may lie outside of the range
  for (int64_t v = -5; v <= 20; v++) {
    const UOp at =
        simplify(substitute(count(where(lt(r, k), constant(1), constant(0))), {{k, constant(Scalar(v))}}));
    CHECK(at == constant(Scalar(std::max<int64_t>(0, std::min<int64_t>(10, v)))));
  }
}

TEST_CASE("ranges that are not used, and factors that do not depend on them") {
  const UOp r = loop(10, 0), s = loop(3, 1), i = range(4, 2, AxisType::Loop);
  const UOp x = read(0, 10, r), c = read(1, 4, i);
  CHECK(collapsed(sum(constant(5), {r})) == constant(50));
  CHECK(collapsed(sum(c, {r}, Op::Max)) == c);
  CHECK(collapsed(sum(x, {r, s})) == sum(x, {r}) * constant(DType::Float32, Scalar(3.0)));
  CHECK(collapsed(sum(x * c, {r})) == simplify(sum(x, {r}) * c));
  CHECK(collapsed(sum(x * constant(Scalar(3.0)), {r})) == simplify(sum(x, {r}) * constant(Scalar(3.0))));
  CHECK(collapsed(sum(x * c, {r}, Op::Max)) == simplify(sum(x * c, {r}, Op::Max)));
  CHECK(collapsed(sum(x * c, {r}, Op::Mul)) == simplify(sum(x * c, {r}, Op::Mul)));
  const UOp n = read(2, 10, r, DType::Int32), m = read(3, 4, i, DType::Int32);
  CHECK(collapsed(sum(n + m, {r})) == simplify(sum(n, {r}) + m * constant(DType::Int32, Scalar(10))));
}

// Sums of random selections against adding them up one by one.
TEST_CASE("collapsed sums have the values of the originals") {
  std::mt19937_64 random(7);
  auto number = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(random); };
  int without_loop = 0;
  constexpr int kCases = 400;
  for (int n = 0; n < kCases; n++) {
    const int end = number(1, 9);
    const UOp r = loop(end, 0), k = variable("k", -6, 14), j = variable("j", 0, 5);
    auto affine = [&] { return r * number(-3, 3) + k * number(-1, 1) + j * number(0, 2) + number(-4, 6); };
    auto clause = [&]() -> UOp {
      const UOp a = affine(), b = number(0, 1) ? affine() : constant(number(-3, 12));
      const bool narrow = number(0, 3) == 0;
      const UOp x = narrow ? cast(a, DType::Int32) : a, y = narrow ? cast(b, DType::Int32) : b;
      switch (number(0, 3)) {
        case 0: return lt(x, y);
        case 1: return ge(x, y);
        case 2: return eq(x, y);
        default: return ne(x, y);
      }
    };
    UOp gate = clause();
    for (int i = number(0, 2); i > 0; i--) gate = number(0, 2) ? gate & clause() : gate | clause();
    const UOp a = number(0, 1) ? constant(number(-3, 3)) : number(0, 1) ? j * 3 + 1 : r * 2 + j;
    const UOp b = number(0, 2) ? constant(0) : constant(number(1, 4));
    const UOp value = number(0, 3) ? where(gate, a, b) : cast(gate, DType::WeakInt) * a;
    const UOp u = sum(value, {r}), s = collapsed(u);
    without_loop += !has_reduce(s);
    for (int at_k = -6; at_k <= 14; at_k += 5) {
      for (int at_j = 0; at_j <= 5; at_j += 2) {
        const std::vector<std::pair<UOp, UOp>> point = {{k, constant(at_k)}, {j, constant(at_j)}};
        int128 total = 0;
        for (int i = 0; i < end; i++) {
          const UOp one = simplify(substitute(substitute(value, {{r, constant(i)}}), point));
          REQUIRE(one.is_const());
          total += one.value().as_int();
        }
        const UOp got = collapsed(substitute(s, point));
        if (has_reduce(got)) continue;  // a sum that no rule collapses
        CHECK_MESSAGE(got.is_const(Scalar(total)), expression(u), " -> ", expression(s), " at k=", at_k,
                      " j=", at_j, ": ", expression(got), " instead of ", Scalar(total).to_string());
      }
    }
  }
  CHECK(without_loop > kCases / 4);
}

TEST_CASE("a loop that may be empty is not one that runs") {
  const UOp n = variable("n", 0, 1), r = range(n, 0, AxisType::Reduce), x = variable("x", 1, 9);
  CHECK(collapsed(sum(x, {r})) == simplify(x * n));
  CHECK(has_reduce(collapsed(sum(x, {r}, Op::Max))));
  const UOp loop_over_n = range(variable("n", 0, 5), 0, AxisType::Reduce);
  const UOp largest = collapsed(sum(x * loop_over_n, {loop_over_n}, Op::Max));
  CHECK(largest.op() == Op::Reduce);  // x may not leave: of nothing it is no factor
  const UOp value = read(0, 8, loop_over_n) * read(1, 1, constant(0));
  CHECK(collapsed(sum(value, {loop_over_n})).op() == Op::Reduce);
}
