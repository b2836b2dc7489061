#include "base/knobs.h"
#include "codegen/decompose/transcendental.h"
#include "codegen/decompose/typed.h"
#include "codegen/passes.h"

#include <bit>
#include <cmath>
#include <limits>

#include "support/evaluate.h"
#include "support/test.h"

using namespace lathe;
using test::Evaluator;
using test::unknown;

namespace {

Target target(bool has_fma = false) {
  Target t;
  t.native_ops = {Op::Sqrt,  Op::Trunc, Op::Reciprocal, Op::Neg, Op::Add, Op::Sub,  Op::Mul,
                  Op::FDiv,  Op::CDiv,  Op::CMod,       Op::Shl, Op::Shr, Op::Max,  Op::CmpLt,
                  Op::CmpNe, Op::CmpEq, Op::Xor,        Op::Or,  Op::And, Op::Where};
  t.has_fma = has_fma;
  if (has_fma) t.native_ops.insert(Op::MulAcc);
  t.dtypes = ~0u;
  return t;
}

UOp sin_expression(const UOp& x, bool has_double) {
  return where(is_huge_angle(x), sin_of_huge(x, has_double), sin_of_ordinary(x));
}

UOp lowered(const UOp& u, const Target& t) { return use_native_ops(decompose_float(u, t), t); }

// The distance of two values in units in the last place of the exact one.
double ulp_error(double got, long double exact, int mantissa_bits, int min_exponent) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(static_cast<double>(exact)))
    return got == static_cast<double>(exact) ? 0 : 1e30;
  if (std::isnan(got)) return 1e30;
  int e;
  std::frexp(exact, &e);
  const long double ulp = std::ldexp(1.0L, std::max(e - 1, min_exponent) - mantissa_bits);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / ulp);
}

struct Worst {
  double error = 0, at = 0;
  void see(double e, double x) {
    if (e > error) *this = {e, x};
  }
};

// The value in the type: what the exact result rounds to, for results beyond the range.
long double in_range32(long double v) {
  if (std::fabs(v) >= 0x1.ffffffp127L) return std::copysign(std::numeric_limits<long double>::infinity(), v);
  return v;
}

// Every `step`th float32 in [first, last] and in the negated interval, and special values.
template <class F>
Worst sweep32(const UOp& x, const UOp& y, F exact, uint32_t step, float first = 0,
              float last = std::numeric_limits<float>::max()) {
  Evaluator f(y, {x});
  Worst worst;
  const auto check = [&](float v) {
    const long double want = in_range32(exact(static_cast<long double>(v)));
    worst.see(ulp_error(f({Scalar(static_cast<double>(v))}).as_double(), want, 23, -126),
              static_cast<double>(v));
  };
  const uint32_t lo = std::bit_cast<uint32_t>(first), hi = std::bit_cast<uint32_t>(last);
  for (uint64_t u = lo; u <= hi; u += step) {
    const float v = std::bit_cast<float>(static_cast<uint32_t>(u));
    check(v);
    check(-v);
  }
  constexpr float kInf = std::numeric_limits<float>::infinity(), kTiny = std::numeric_limits<float>::min();
  for (const float v :
       {0.0f, 1.0f, 0.5f, 2.0f, 0x1p-149f, kTiny, std::numeric_limits<float>::max(), kInf, std::nanf(""),
        127.99999f, 128.0f, 126.0f, 149.0f, 150.0f, 151.0f, 1000.0f, 0.70710677f, 0.70710684f, 1.4142135f})
    if ((v >= first && v <= last) || !std::isfinite(v)) {
      check(v);
      check(-v);
    }
  return worst;
}

// The same for float64 at pseudo-random points, spread over exponents.
template <class F>
Worst sample64(const UOp& x, const UOp& y, F exact, double first, double last, int n) {
  Evaluator f(y, {x});
  Worst worst;
  uint64_t state = 88172645463325252u;
  const uint64_t lo = std::bit_cast<uint64_t>(first), hi = std::bit_cast<uint64_t>(last);
  for (int i = 0; i < n; i++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    for (const double sign : {1.0, -1.0}) {
      const double v = sign * std::bit_cast<double>(lo + state % (hi - lo));
      worst.see(ulp_error(f({Scalar(v)}).as_double(), exact(static_cast<long double>(v)), 52, -1022), v);
    }
  }
  return worst;
}

constexpr uint32_t kStep = 4096 * 4 - 3;  // odd, so that low mantissa bits vary

long double sin_exact(long double x) { return std::sin(x); }
long double exp2_exact(long double x) { return std::exp2(x); }
long double log2_exact(long double x) {
  return x < 0 ? std::numeric_limits<long double>::quiet_NaN() : std::log2(x);
}

}  // namespace

TEST_CASE("exp2 of float32") {
  const UOp x = unknown(DType::Float32);
  const Worst plain = sweep32(x, lowered(alu(Op::Exp2, {x}), target()), exp2_exact, kStep);
  const Worst dense = sweep32(x, lowered(alu(Op::Exp2, {x}), target()), exp2_exact, 257, 0.4375f, 0.5625f);
  const Worst fused = sweep32(x, lowered(alu(Op::Exp2, {x}), target(true)), exp2_exact, kStep);
  MESSAGE("exp2 float32: " << plain.error << " ulp at " << plain.at << ", " << dense.error << " at "
                           << dense.at << ", fma " << fused.error << " at " << fused.at);
  CHECK(plain.error < 1.05);
  CHECK(dense.error < 1.05);
  CHECK(fused.error < 0.95);
}

TEST_CASE("log2 of float32") {
  const UOp x = unknown(DType::Float32);
  const Worst plain = sweep32(x, lowered(alu(Op::Log2, {x}), target()), log2_exact, kStep);
  const Worst dense = sweep32(x, lowered(alu(Op::Log2, {x}), target()), log2_exact, 127, 0.6875f, 1.5f);
  const Worst fused = sweep32(x, lowered(alu(Op::Log2, {x}), target(true)), log2_exact, kStep);
  MESSAGE("log2 float32: " << plain.error << " ulp at " << plain.at << ", " << dense.error << " at "
                           << dense.at << ", fma " << fused.error << " at " << fused.at);
  CHECK(plain.error < 1.3);
  CHECK(dense.error < 1.3);
  CHECK(fused.error < 1.3);
}

TEST_CASE("sin of float32") {
  const UOp x = unknown(DType::Float32);
  const UOp y = use_native_ops(sin_expression(x, true), target());
  const Worst plain = sweep32(x, y, sin_exact, kStep);
  const Worst middle = sweep32(x, y, sin_exact, 997, 64.0f, 128.0f);
  const Worst fused = sweep32(x, use_native_ops(sin_expression(x, true), target(true)), sin_exact, kStep);
  MESSAGE("sin float32: " << plain.error << " ulp at " << plain.at << ", " << middle.error << " at "
                          << middle.at << ", fma " << fused.error << " at " << fused.at << ", steps "
                          << Evaluator(y, {x}).n_steps());
  CHECK(plain.error < 1.5);
  CHECK(middle.error < 1.5);
  CHECK(fused.error < 1.3);
}

TEST_CASE("sin of bounded arguments needs no reduction of huge ones") {
  const UOp i = variable("i", 0, 100, DType::Int32);
  const UOp angle = cast(i, DType::Float32) * constant(DType::Float32, 0.25) + constant(DType::Float32, 3.0);
  CHECK(largest_magnitude(angle) == 28.0);
  const UOp y = lowered(alu(Op::Sin, {angle}), target());
  CHECK(Evaluator(y, {i}).n_steps() < 80);
  Evaluator f(y, {i});
  for (int k = 0; k <= 100; k++)
    CHECK(f({Scalar(k)}).as_double() == doctest::Approx(std::sin(k * 0.25 + 3.0)).epsilon(1e-7));

  const UOp x = unknown(DType::Float32);
  CHECK(largest_magnitude(x) == std::numeric_limits<double>::infinity());
  const Worst small = sweep32(x, sin_of_ordinary(x), sin_exact, kStep, 0, 4096);
  MESSAGE("sin float32, |x| <= 4096: " << small.error << " ulp at " << small.at);
  CHECK(small.error < 1.5);
}

TEST_CASE("sin of float32 without float64") {
  const UOp x = unknown(DType::Float32);
  const Worst worst = sweep32(x, sin_expression(x, false), sin_exact, 5 * kStep);
  MESSAGE("sin float32 without float64: " << worst.error << " ulp at " << worst.at);
  CHECK(worst.error < 3);
}

TEST_CASE("sin of float32 next to multiples of pi") {
  const UOp x = unknown(DType::Float32);
  Evaluator f(sin_expression(x, true), {x});
  Worst worst;
  for (int k = 1; k < 3000; k++) {
    const float near = static_cast<float>(k * 3.14159265358979323846L);
    for (const float v :
         {std::nextafter(near, 0.0f), near, std::nextafter(near, 1e9f), near * 0x1p40f, near * 0x1p100f}) {
      const double got = f({Scalar(static_cast<double>(v))}).as_double();
      worst.see(ulp_error(got, std::sin(static_cast<long double>(v)), 23, -126), static_cast<double>(v));
    }
  }
  MESSAGE("sin float32 near multiples of pi: " << worst.error << " ulp at " << worst.at);
  CHECK(worst.error < 1.5);
}

TEST_CASE("exp is no exp2 of a rounded product") {
  struct Row {
    double factor;  // of float32
    double scale;   // 0: another function
  };
  const double log2e = 1 / std::log(2.0);
  const Row rows[] = {{log2e, 1},    {-log2e, -1}, {2 * log2e, 2}, {-log2e / 4, -0.25},  {1.702 * log2e, 0},
                      {1, 0},        {0, 0},       {3 * log2e, 0}, {log2e * 1.00001, 0}, {std::nan(""), 0},
                      {-INFINITY, 0}};
  const UOp x = unknown(DType::Float32);
  for (const Row& r : rows) {
    INFO(r.factor);
    const UOp factor = constant(DType::Float32, r.factor);
    const auto scale = exp_scale(factor.value(), DType::Float32);
    CHECK(scale.value_or(0) == r.scale);
    if (!scale) continue;
    const auto exact = [&](long double v) { return std::exp(v * static_cast<long double>(r.scale)); };
    for (const bool fma : {false, true}) {
      const Worst worst = sweep32(x, lowered(alu(Op::Exp2, {x * factor}), target(fma)), exact, 5 * kStep);
      CHECK(worst.error < 1.3);
    }
  }
}

TEST_CASE("functions of float64") {
  const UOp x = unknown(DType::Float64);
  const Target t = target();
  const int n = 20000;
  const Worst e = sample64(x, lowered(alu(Op::Exp2, {x}), t), exp2_exact, 0x1p-60, 1080, n);
  const Worst l = sample64(x, lowered(alu(Op::Log2, {x}), t), log2_exact, 0x1p-1074, 0x1p1000, n);
  const Worst l1 = sample64(x, lowered(alu(Op::Log2, {x}), t), log2_exact, 0.5, 2.5, n);
  const UOp sine = use_native_ops(sin_expression(x, true), t);
  const Worst s = sample64(x, sine, sin_exact, 0x1p-30, 1e8, n);
  MESSAGE("float64: exp2 " << e.error << " at " << e.at << ", log2 " << l.error << " at " << l.at << " and "
                           << l1.error << " at " << l1.at << ", sin " << s.error << " at " << s.at);
  CHECK(e.error < 1.2);
  CHECK(l.error < 2);
  CHECK(l1.error < 2);
  CHECK(s.error < 2);
  // x87 reduces huge arguments with 66 bits of pi only, so these come from glibc's double.
  const Worst huge = sample64(
      x, sine, [](long double v) { return static_cast<long double>(std::sin(static_cast<double>(v))); }, 1e8,
      1e308, n);
  MESSAGE("sin float64, |x| > 1e8: " << huge.error << " at " << huge.at << ", steps "
                                     << Evaluator(sine, {x}).n_steps());
  CHECK(huge.error < 3);
}

TEST_CASE("powers of two are exact, and logarithms of them") {
  for (const DType d : {DType::Float32, DType::Float64}) {
    const UOp x = unknown(d);
    Evaluator e(lowered(alu(Op::Exp2, {x}), target()), {x}), l(lowered(alu(Op::Log2, {x}), target()), {x});
    const int bias = d == DType::Float32 ? 127 : 1023, least = d == DType::Float32 ? -149 : -1074;
    for (int q = least; q <= bias; q++) {
      const double power = std::ldexp(1.0, q);
      CHECK(e({Scalar(static_cast<double>(q))}).as_double() == power);
      CHECK(l({Scalar(power)}).as_double() == q);
    }
  }
}

TEST_CASE("polynomials by Horner's scheme") {
  const UOp x = unknown(DType::Float32);
  constexpr double kSquareOfLess[] = {1, -2, 1};
  Evaluator f(typed::polynomial(x, kSquareOfLess), {x});
  for (int v = 1; v <= 4; v++) CHECK(f({Scalar(static_cast<double>(v))}).as_double() == (v - 1) * (v - 1));
}

TEST_CASE("special values of float64") {
  const UOp x = unknown(DType::Float64);
  const double inf = std::numeric_limits<double>::infinity();
  Evaluator e(lowered(alu(Op::Exp2, {x}), target()), {x}), l(lowered(alu(Op::Log2, {x}), target()), {x}),
      s(sin_expression(x, true), {x});
  CHECK(e({Scalar(inf)}).as_double() == inf);
  CHECK(e({Scalar(-inf)}).as_double() == 0);
  CHECK(e({Scalar(1024.0)}).as_double() == inf);
  CHECK(e({Scalar(-1074.0)}).as_double() == 0x1p-1074);
  CHECK(e({Scalar(-2000.0)}).as_double() == 0);
  CHECK(std::isnan(e({Scalar(std::nan(""))}).as_double()));
  CHECK(l({Scalar(inf)}).as_double() == inf);
  CHECK(l({Scalar(0.0)}).as_double() == -inf);
  CHECK(l({Scalar(-0.0)}).as_double() == -inf);
  CHECK(l({Scalar(8.0)}).as_double() == 3);
  CHECK(std::isnan(l({Scalar(-1.0)}).as_double()));
  CHECK(std::isnan(l({Scalar(std::nan(""))}).as_double()));
  CHECK(std::isnan(s({Scalar(inf)}).as_double()));
  CHECK(std::isnan(s({Scalar(-inf)}).as_double()));
  CHECK(std::isnan(s({Scalar(std::nan(""))}).as_double()));
  CHECK(s({Scalar(0.0)}).as_double() == 0);
}

TEST_CASE("functions of float16 and bfloat16 are those of float32, rounded") {
  for (const DType d : {DType::Float16, DType::BFloat16})
    for (const Op op : {Op::Exp2, Op::Log2, Op::Sin}) {
      const UOp x = unknown(d);
      const UOp in_single = cast(x, DType::Float32);
      const UOp y =
          op == Op::Sin ? cast(sin_expression(in_single, true), d) : lowered(alu(op, {x}), target());
      Evaluator f(y, {x});
      int differ = 0;
      for (uint64_t code = 0; code < 65536; code += 3) {
        const Scalar v = decode(code, d);
        const Scalar want = *eval(op, d, std::vector<Scalar>{v});
        const Scalar got = f({v});
        const int64_t distance = static_cast<int64_t>(encode(got, d)) - static_cast<int64_t>(encode(want, d));
        if (!(got.equals(want))) differ++;
        if (!got.equals(want) && std::abs(distance) > 1)
          FAIL(op_name(op), " of ", v.to_string(), ": ", got.to_string());
      }
      MESSAGE(op_name(op) << " of " << dtype_name(d) << ": " << differ << " of 21846 are one place off");
      CHECK(differ < 40);
    }
}

TEST_CASE("pow") {
  const UOp b = unknown(DType::Float32, 0), e = unknown(DType::Float32, 1);
  Evaluator f(lowered(alu(Op::Pow, {b, e}), target()), {b, e});
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const double values[] = {0,    1,   -1,   2,      -2,      0.5,  -0.5, 3,     -3,   0.3,
                           -0.3, 3.3, -3.3, 10,     -10,     1e-3, 1e10, inf,   -inf, nan,
                           7,    -7,  127,  0x1p30, -0x1p30, 1.5,  -1.5, 100.25};
  Worst worst;
  for (const double x : values)
    for (const double y : values) {
      const double bx = static_cast<double>(static_cast<float>(x)),
                   ey = static_cast<double>(static_cast<float>(y));
      const long double want =
          x == 0 && y < 0 ? static_cast<long double>(inf)
                          : in_range32(std::pow(static_cast<long double>(bx), static_cast<long double>(ey)));
      const double got = f({Scalar(bx), Scalar(ey)}).as_double();
      INFO("pow(", x, ", ", y, ") = ", got);
      const double error = ulp_error(got, want, 23, -126);
      CHECK(error < 0.51);
      worst.see(error, x);
    }
  MESSAGE("pow float32: " << worst.error);
  CHECK(f({Scalar(0.0), Scalar(0.0)}).as_double() == 1);
  CHECK(f({Scalar(nan), Scalar(0.0)}).as_double() == 1);

  const UOp b64 = unknown(DType::Float64, 0), e64 = unknown(DType::Float64, 1);
  Evaluator g(lowered(alu(Op::Pow, {b64, e64}), target()), {b64, e64});
  for (const double x : {0.1, 0.5, 1.7, 3.0, 1e5})
    for (const double y : {-3.5, -1.0, 0.25, 2.0, 30.0})
      CHECK(g({Scalar(x), Scalar(y)}).as_double() == doctest::Approx(std::pow(x, y)).epsilon(1e-13));
}

TEST_CASE("pow without float64") {
  Target t = target();
  t.dtypes &= ~(1u << static_cast<int>(DType::Float64));
  const UOp b = unknown(DType::Float32, 0), e = unknown(DType::Float32, 1);
  Evaluator f(lowered(alu(Op::Pow, {b, e}), t), {b, e});
  CHECK(f({Scalar(2.0), Scalar(10.0)}).as_double() == 1024);
  CHECK(f({Scalar(-2.0), Scalar(3.0)}).as_double() == -8);
  Worst worst;
  for (const float x : {1e-30f, 0.1f, 0.7f, 0.999f, 1.0001f, 1.4f, 1.42f, 3.5f, 1e5f, 3e37f})
    for (const float y : {-40.f, -3.3f, -0.5f, 0.01f, 0.9f, 2.5f, 17.1f, 80.f, 9000.f}) {
      const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
      if (exact > 1e38L || exact < 1e-37L) continue;
      worst.see(ulp_error(f({Scalar(double{x}), Scalar(double{y})}).as_double(), exact, 23, -126), x);
    }
  MESSAGE("pow float32 without float64: " << worst.error << " at " << worst.at);
  CHECK(worst.error < 1.5);
}

TEST_CASE("ops a target lacks or has") {
  const UOp x = unknown(DType::Float32);
  Target t = target();
  for (const Op op : {Op::Exp2, Op::Log2, Op::Sin}) {
    t.native_ops.insert(op);
    CHECK(decompose_float(alu(op, {x}), t) == alu(op, {x}));
    KnobScope everywhere(Knob::TRANSCENDENTAL, 2);
    CHECK_FALSE(decompose_float(alu(op, {x}), t) == alu(op, {x}));
  }
  {
    KnobScope nowhere(Knob::TRANSCENDENTAL, 0);
    CHECK(decompose_float(alu(Op::Sin, {x}), target()) == alu(Op::Sin, {x}));
  }
  Target bare;
  bare.dtypes = ~0u;
  bare.native_ops = {Op::FDiv};
  Evaluator root(decompose_float(alu(Op::Sqrt, {x}), bare), {x});
  CHECK(root({Scalar(2.0)}).as_double() == doctest::Approx(std::sqrt(2.0)).epsilon(1e-7));
  CHECK(root({Scalar(0.0)}).as_double() == 0);
  Evaluator cut(decompose_float(alu(Op::Trunc, {x}), bare), {x});
  for (const double v :
       {0.0, 1.5, -1.5, 0.999, -0.999, 1e30, -1e30, 8388607.5, std::numeric_limits<double>::infinity()}) {
    const double in_type = static_cast<double>(static_cast<float>(v));
    CHECK(cut({Scalar(in_type)}).as_double() == std::trunc(in_type));
  }
  CHECK(std::isnan(cut({Scalar(std::nan(""))}).as_double()));
  CHECK(decompose_float(alu(Op::Reciprocal, {x}), bare) == alu(Op::FDiv, {constant(DType::Float32, 1.0), x}));
}

TEST_CASE("vectors keep their lanes") {
  const UOp lanes[] = {unknown(DType::Float32, 0), constant(DType::Float32, 3.0),
                       constant(DType::Float32, -1e6)};
  for (const Op op : {Op::Exp2, Op::Log2, Op::Sin}) {
    const UOp x = stack(lanes);
    const UOp y = op == Op::Sin ? sin_expression(x, true) : lowered(alu(op, {x}), target());
    REQUIRE(y.ndim() == 1);
    Evaluator f(y, {lanes[0]});
    const std::vector<Scalar> out = f.lanes({Scalar(0.75)});
    REQUIRE(out.size() == 3);
    const double in[] = {0.75, 3, -1e6};
    for (size_t i = 0; i < 3; i++) {
      const double want = eval(op, DType::Float32, std::vector<Scalar>{Scalar(in[i])})->as_double();
      if (std::isnan(want))
        CHECK(std::isnan(out[i].as_double()));
      else
        CHECK(out[i].as_double() == doctest::Approx(want).epsilon(1e-6));
    }
  }
}
