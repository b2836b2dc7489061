#include "base/knobs.h"
#include "codegen/passes.h"

#include <array>

#include "support/evaluate.h"
#include "support/test.h"

using namespace lathe;
using test::Evaluator;
using test::unknown;

namespace {

Target target() {
  Target t;
  t.dtypes = ~0u;
  return t;
}

bool uses(const UOp& u, std::initializer_list<Op> ops) {
  const OpSet set(ops);
  for (const UOp& v : toposort(u))
    if (set.contains(v.op())) return true;
  return false;
}

// Lowers `op` of x in [lo, hi] and y and compares it with the reference everywhere.
void check_everywhere(Op op, DType d, int lo, int hi, const UOp& y, std::initializer_list<int> divisors) {
  const UOp x = variable("x", lo, hi, d);
  const UOp whole = alu(op, {x, y}), low = decompose_int(whole, target());
  CHECK_FALSE(uses(low, {Op::FloorDiv, Op::FloorMod}));
  const bool is_constant = y.is_const();
  Evaluator f(low, is_constant ? std::vector<UOp>{x} : std::vector<UOp>{x, y});
  for (int v = lo; v <= hi; v++)
    for (const int w : divisors) {
      const Scalar want = *eval(op, d, std::vector<Scalar>{Scalar(v), Scalar(w)});
      const Scalar got = is_constant ? f({Scalar(v)}) : f({Scalar(v), Scalar(w)});
      if (!(got == want))
        FAIL(op_name(op), " of ", dtype_name(d), ": ", v, ", ", w, " gives ", got.to_string());
    }
}

}  // namespace

TEST_CASE("division by constants, all of int8 and uint8") {
  for (const int fast : {0, 1}) {
    KnobScope knob(Knob::DISABLE_FAST_IDIV, fast);
    for (const Op op : {Op::FloorDiv, Op::FloorMod, Op::CDiv, Op::CMod})
      for (int d = -128; d < 256; d++) {
        if (d == 0) continue;
        if (d < 128) {
          check_everywhere(op, DType::Int8, -128, 127, constant(DType::Int8, d), {d});
          check_everywhere(op, DType::Int8, 0, 127, constant(DType::Int8, d), {d});
          check_everywhere(op, DType::Int8, -128, 0, constant(DType::Int8, d), {d});
        }
        if (d > 0) check_everywhere(op, DType::UInt8, 0, 255, constant(DType::UInt8, d), {d});
      }
  }
}

TEST_CASE("division by variables") {
  struct Range {
    int lo, hi;
  };
  for (const Op op : {Op::FloorDiv, Op::FloorMod})
    for (const Range x : {Range{-9, 9}, Range{0, 9}, Range{-9, -1}, Range{-128, 127}})
      for (const Range y :
           {Range{1, 5}, Range{-5, -1}, Range{-5, -2}, Range{-3, 3}, Range{-128, 127}, Range{0, 4}}) {
        const UOp divisor = variable("y", y.lo, y.hi, DType::Int8);
        for (int w = y.lo; w <= y.hi; w += y.hi - y.lo > 20 ? 7 : 1)
          if (w) check_everywhere(op, DType::Int8, x.lo, x.hi, divisor, {w});
      }
  check_everywhere(Op::FloorDiv, DType::UInt8, 0, 255, variable("y", 0, 255, DType::UInt8),
                   {1, 2, 3, 7, 200, 255});
  check_everywhere(Op::FloorMod, DType::UInt8, 0, 255, variable("y", 0, 255, DType::UInt8),
                   {1, 2, 3, 7, 200, 255});
}

TEST_CASE("no quotient traps") {
  // CDiv sees no divisor 0 or -1 that is not known at compile time.
  const UOp x = unknown(DType::Int32, 0), y = unknown(DType::Int32, 1);
  for (const Op op : {Op::FloorDiv, Op::FloorMod}) {
    const UOp low = decompose_int(alu(op, {x, y}), target());
    for (const UOp& u : toposort(low))
      if (u.op() == Op::CDiv || u.op() == Op::CMod) {
        Evaluator divisor(u.src(1), {y});
        CHECK(divisor({Scalar(0)}) == Scalar(1));
        CHECK(divisor({Scalar(-1)}) == Scalar(1));
        CHECK(divisor({Scalar(-7)}) == Scalar(-7));
      }
    Evaluator f(low, {x, y});
    CHECK(f({Scalar(INT32_MIN), Scalar(-1)}) ==
          *eval(op, DType::Int32, std::vector<Scalar>{Scalar(INT32_MIN), Scalar(-1)}));
    f({Scalar(5), Scalar(0)});
  }
}

TEST_CASE("the form of a division") {
  const UOp x = unknown(DType::Int32), i = variable("i", 0, 1000, DType::Int32);
  const auto num = [](int64_t v) { return constant(DType::Int32, v); };
  CHECK(decompose_int(x / num(8), target()) == (x >> num(3)));
  CHECK(decompose_int(x % num(8), target()) == (x & num(7)));
  CHECK(decompose_int(x / num(1), target()) == x);
  CHECK(decompose_int(i / num(7), target()) == alu(Op::CDiv, {i, num(7)}));
  CHECK(decompose_int(i % num(7), target()) == alu(Op::CMod, {i, num(7)}));
  CHECK(decompose_int(i / num(1001), target()) == num(0));
  CHECK(decompose_int(i % num(1001), target()) == i);
  CHECK(decompose_int(alu(Op::CDiv, {i, num(4)}), target()) == (i >> num(2)));
  // Signs unknown: still one division.
  const UOp low = decompose_int(x / num(7), target());
  CHECK(uses(low, {Op::CDiv}));
  CHECK_FALSE(uses(low, {Op::CMod, Op::Where}));
}

TEST_CASE("magic numbers") {
  struct Row {
    int64_t largest, divisor, multiplier;
    int shift;
  };
  constexpr Row kRows[] = {{255, 3, 171, 9},
                           {255, 7, 293, 11},
                           {1000, 7, 1171, 13},
                           {65535, 10, 52429, 19},
                           {16383, 7, 18725, 17},
                           {99, 11, 47, 9},
                           {2147483647, 3, 715827883, 31},
                           {2147483647, 7, 2454267027, 34},
                           {4294967295, 3, 2863311531, 33},
                           {4294967295, 7, 4908534053, 35}};
  for (const Row& r : kRows) {
    const auto m = magic_division(r.largest, r.divisor);
    REQUIRE(m);
    CHECK(m->multiplier == r.multiplier);
    CHECK(m->shift == r.shift);
  }
  for (int d = 1; d < 300; d++)
    for (const int largest : {0, 1, d - 1, d, 1000}) {
      const auto m = magic_division(largest, d);
      REQUIRE(m);
      for (int x = 0; x <= largest; x++)
        if ((x * m->multiplier) >> m->shift != x / d) FAIL(x, " / ", d);
    }
}

TEST_CASE("fast division") {
  KnobScope fast(Knob::DISABLE_FAST_IDIV, 0);
  const auto num = [](DType d, int64_t v) { return constant(d, v); };
  const UOp u = unknown(DType::UInt32);
  for (const Op op : {Op::FloorDiv, Op::FloorMod}) {
    const UOp third = decompose_int(alu(op, {u, num(DType::UInt32, 3)}), target());
    CHECK_FALSE(uses(third, {Op::CDiv, Op::CMod}));
    CHECK(uses(third, {Op::Shr}));
    Evaluator f(third, {u});
    for (const int64_t v :
         {int64_t{0}, int64_t{2}, int64_t{3}, int64_t{4294967295}, int64_t{4294967294}, int64_t{2863311530}})
      CHECK(f({Scalar(v)}) == *eval(op, DType::UInt32, std::vector<Scalar>{Scalar(v), Scalar(3)}));
  }
  CHECK(uses(decompose_int(u / num(DType::UInt32, 7), target()), {Op::CDiv}));  // needs 33 bits

  const UOp r = range(constant(DType::Int32, 1 << 20), 0, AxisType::Loop);
  const auto i32 = [&](int64_t v) { return num(DType::Int32, v); };
  CHECK(decompose_int(r / i32(448), target()) == (((r >> i32(6)) * i32(18725)) >> i32(17)));
  CHECK(decompose_int(variable("b", 0, 1, DType::Int32) / i32(3), target()) == i32(0));

  KnobScope slow(Knob::DISABLE_FAST_IDIV, 1);
  CHECK(decompose_int(u / num(DType::UInt32, 3), target()) == alu(Op::CDiv, {u, num(DType::UInt32, 3)}));
  CHECK(decompose_int(u % num(DType::UInt32, 3), target()) == alu(Op::CMod, {u, num(DType::UInt32, 3)}));
}

TEST_CASE("shifts by the width or more") {
  for (const DType d : {DType::Int8, DType::UInt8, DType::Int32, DType::UInt64}) {
    const UOp x = unknown(d, 0), n = unknown(d, 1);
    for (const Op op : {Op::Shl, Op::Shr}) {
      const UOp low = decompose_int(alu(op, {x, n}), target());
      for (const UOp& u : toposort(low))
        if (u.op() == Op::Shl || u.op() == Op::Shr) CHECK(u.src(1).bounds().hi.less(Scalar(bit_width(d))));
      Evaluator f(low, {x, n});
      for (const int v : {-128, -3, 0, 1, 77, 127})
        for (const int count : {0, 1, 7, 8, 9, 31, 32, 63, 64, 100}) {
          const Scalar value = cast_scalar(Scalar(v), d);
          CHECK(f({value, Scalar(count)}) == *eval(op, d, std::vector<Scalar>{value, Scalar(count)}));
        }
    }
  }
  const UOp x = unknown(DType::Int32), n = variable("n", 0, 31, DType::Int32);
  CHECK(decompose_int(x << n, target()) == (x << n));
}

TEST_CASE("threefry") {
  const UOp counter = unknown(DType::UInt64, 0), key = unknown(DType::UInt64, 1);
  const UOp low = decompose_int(alu(Op::Threefry, {counter, key}), target());
  CHECK_FALSE(uses(low, {Op::Threefry}));
  Evaluator f(low, {counter, key});
  uint64_t state = 1;
  for (int i = 0; i < 2000; i++) {
    const uint64_t x = state *= 6364136223846793005u, y = state *= 6364136223846793005u;
    CHECK(f({Scalar(x), Scalar(y)}) ==
          *eval(Op::Threefry, DType::UInt64, std::vector<Scalar>{Scalar(x), Scalar(y)}));
  }
  // Counts 0…9 paired with 10…19 under the key words 0, 1337 of the tensor interface: first outputs, then
  // second ones.
  constexpr std::array<uint32_t, 20> kWant = {2221762175, 1752107825, 653745012,  1967534793, 1395205442,
                                              3840423848, 2159346757, 603508235,  3319473678, 3363866483,
                                              3544324138, 1436466838, 2169858556, 2570072943, 2387150698,
                                              3678370550, 2911697663, 403244401,  2560861638, 1692360114};
  const uint64_t key_words = uint64_t{1337} << 32;
  for (uint64_t i = 0; i < 10; i++) {
    const auto v = static_cast<uint64_t>(f({Scalar((i + 10) << 32 | i), Scalar(key_words)}).as_int());
    CHECK(static_cast<uint32_t>(v) == kWant[i]);
    CHECK(static_cast<uint32_t>(v >> 32) == kWant[i + 10]);
  }
  Target native = target();
  native.native_ops.insert(Op::Threefry);
  CHECK(decompose_int(alu(Op::Threefry, {counter, key}), native) == alu(Op::Threefry, {counter, key}));
}

TEST_CASE("integer powers") {
  for (const DType d : {DType::Int32, DType::UInt32, DType::Int64, DType::Int8}) {
    const UOp x = unknown(d, 0), y = unknown(d, 1);
    Evaluator f(decompose_int(alu(Op::Pow, {x, y}), target()), {x, y});
    for (int v = -7; v <= 7; v++)
      for (int w = is_unsigned(d) ? 0 : -4; w < 40; w++) {
        const std::vector<Scalar> in{cast_scalar(Scalar(v), d), Scalar(w)};
        const auto want = eval(Op::Pow, d, in);
        if (want) CHECK(f({in[0], in[1]}) == *want);
      }
  }
}

TEST_CASE("arithmetic of booleans") {
  const UOp a = unknown(DType::Bool, 0), b = unknown(DType::Bool, 1);
  CHECK(decompose_int(a + b, target()) == (a | b));
  CHECK(decompose_int(maximum(a, b), target()) == (a | b));
  CHECK(decompose_int(a * b, target()) == (a & b));
  const UOp x = unknown(DType::Int32);
  CHECK(decompose_int(x + x, target()) == x + x);
}

TEST_CASE("division of vectors") {
  const UOp x = unknown(DType::Int32);
  const UOp lanes[] = {x, constant(DType::Int32, -7), constant(DType::Int32, 5)};
  const UOp low = decompose_int(stack(lanes) / constant(DType::Int32, 3), target());
  REQUIRE(low.ndim() == 1);
  CHECK(Evaluator(low, {x}).lanes({Scalar(-1)}) == std::vector<Scalar>{Scalar(-1), Scalar(-3), Scalar(1)});
}
