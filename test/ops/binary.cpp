// Elementwise operations of two and three operands.
#include "ops/table.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

using Op2 = Tensor (*)(T, T);
using Function2 = double (*)(double, double);

constexpr double kInf = INFINITY;
const std::vector<DType> kFloat = {DType::Float32, DType::Float16, DType::BFloat16};

// (3, 5) with its like, (3, 5) and (0, 5) with (5).
Row pairs(const char* name, Op2 op, Function2 f, double low = -2, double high = 2) {
  const auto input = [&](Index shape) { return in(std::move(shape)).range(low, high); };
  return {name,
          {input({3, 5}), input({3, 5}), input({5}), input({0, 5})},
          [=](T x, T y, T row, T none) { return Tensors{op(x, y), op(x, row), op(none, row)}; },
          [=](A x, A y, A row, A none) { return Arrays{map(x, y, f), map(x, row, f), map(none, row, f)}; }};
}
// The second operand stays away from 0.
Row quotients(const char* name, Op2 op, Function2 f) {
  return {
      name, {in({3, 5}).range(-9, 9), in({3, 5}).range(1, 4)}, op, [=](A x, A y) { return map(x, y, f); }};
}
Row comparison(const char* name, Op2 op, Function2 f) {
  return pairs(name, op, f, -3, 3).on(kNumbers).gives(DType::Bool);
}

double floor_mod(double x, double y) { return x - std::floor(x / y) * y; }

Rows arithmetic() {
  return {
      pairs(
          "add", [](T x, T y) { return x.add(y); }, [](double x, double y) { return x + y; })
          .on(kNumbers),
      pairs(
          "sub", [](T x, T y) { return x.sub(y); }, [](double x, double y) { return x - y; })
          .on(kNumbers),
      pairs(
          "mul", [](T x, T y) { return x.mul(y); }, [](double x, double y) { return x * y; })
          .on(kNumbers),
      Row(
          "usum, uprod", {in({2, 3}).range(1, 3), in({3}).range(1, 3), in({2, 1}).range(1, 3)},
          [](T x, T y, T z) { return Tensors{Tensor::usum({x, y, z}), Tensor::uprod({x, y, z})}; },
          [](A x, A y, A z) {
            return Arrays{map(x, y, z, [](double a, double b, double c) { return a + b + c; }),
                          map(x, y, z, [](double a, double b, double c) { return a * b * c; })};
          })
          .on({DType::Float32, DType::Int8}),
      Row(
          "usum, uprod: bools", {bools({4}), bools({4})},
          [](T x, T y) { return Tensors{Tensor::usum({x, y}), Tensor::uprod({x, y}), Tensor::usum({x})}; },
          [](A x, A y) {
            return Arrays{map(x, y, [](double a, double b) { return a + b > 0; }),
                          map(x, y, [](double a, double b) { return a * b; }), x};
          })
          .gives(DType::Bool),
      pairs(
          "mul: wraps", [](T x, T y) { return x.mul(y); }, [](double x, double y) { return x * y; }, 90, 120)
          .on({DType::Int8, DType::UInt8}),
      pairs(
          "add: bool", [](T x, T y) { return x.add(y); }, [](double x, double y) { return std::max(x, y); })
          .on({DType::Bool}),
      pairs(
          "mul: bool", [](T x, T y) { return x.mul(y); }, [](double x, double y) { return x * y; })
          .on({DType::Bool}),
  };
}

Rows divisions() {
  return {
      quotients(
          "div", [](T x, T y) { return x.div(y); }, [](double x, double y) { return x / y; })
          .on(kFloats),
      quotients(
          "div: integers", [](T x, T y) { return x.div(y); }, [](double x, double y) { return x / y; })
          .on({DType::Int32, DType::UInt8, DType::Int64})
          .gives(DType::Float32),
      quotients(
          "div_trunc", [](T x, T y) { return x.div_trunc(y); },
          [](double x, double y) { return std::trunc(x / y); })
          .on(kNumbers)
          .exact(),
      quotients(
          "div_floor", [](T x, T y) { return x.div_floor(y); },
          [](double x, double y) { return std::floor(x / y); })
          .on(kNumbers)
          .exact(),
      quotients(
          "mod", [](T x, T y) { return x.mod(y); }, floor_mod)
          .on(kNumbers)
          .within(8),
      quotients(
          "fmod", [](T x, T y) { return x.fmod(y); }, [](double x, double y) { return std::fmod(x, y); })
          .on(kNumbers)
          .within(8),
      Row(
          "div_floor: signs", {given({4}, {7, 7, -7, -7}), given({4}, {2, -2, 2, -2})},
          [](T x, T y) { return Tensors{x.div_floor(y), x.mod(y), x.div_trunc(y), x.fmod(y)}; },
          [](A x, A) {
            return Arrays{{x.shape, {3, -4, -4, 3}},
                          {x.shape, {1, -1, 1, -1}},
                          {x.shape, {3, -3, -3, 3}},
                          {x.shape, {1, 1, -1, -1}}};
          })
          .on({DType::Int32, DType::Int8, DType::Int64, DType::Float32})
          .exact()
          .no_gradient(kNotSmooth),
  };
}

Rows powers_and_extremes() {
  return {
      pairs(
          "pow", [](T x, T y) { return x.pow(y); }, std::pow, .25, 3)
          .on(kFloat)
          .within(8),
      Row(
          "pow: special cases",
          {given({9}, {0, 0, 0, -8, -8, -2, 1, kInf, 4}), given({9}, {0, 2, -1, 3, .5, -2, kInf, 0, .5})},
          [](T x, T y) { return x.pow(y); },
          [](A x, A y) { return map(x, y, [](double b, double e) { return std::pow(b, e); }); })
          .no_gradient(kNotFinite),
      Row(
          "pow: constant exponents", {in({3, 5}).range(.25, 2)},
          [](T x) { return Tensors{x.pow(2), x.pow(3), x.pow(-1), x.pow(.5), x.pow(-2.5), x.pow(0)}; },
          [](A x) {
            Arrays out;
            for (double e : {2., 3., -1., .5, -2.5, 0.})
              out.push_back(map(x, [e](double v) { return std::pow(v, e); }));
            return out;
          })
          .within(8)
          .gradient_within(2e-5),
      Row(
          "pow: constant base", {in({3, 5})}, [](T x) { return Tensor(1.5).pow(x); },
          [](A x) { return map(x, [](double v) { return std::pow(1.5, v); }); }),
      pairs(
          "pow: integers", [](T x, T y) { return x.pow(y); }, std::pow, 0, 3)
          .on({DType::Int32, DType::UInt8}),
      pairs(
          "maximum", [](T x, T y) { return x.maximum(y); }, std::fmax)
          .on(kNumbers)
          .exact(),
      pairs(
          "minimum", [](T x, T y) { return x.minimum(y); }, std::fmin)
          .on(kNumbers)
          .exact(),
      pairs(
          "minimum: the ends of the range", [](T x, T y) { return x.minimum(y); }, std::fmin, -128, 127)
          .on({DType::Int8, DType::UInt8, DType::Bool}),
  };
}

Rows blends() {
  return {
      Row(
          "copysign", {in({3, 5}), in({3, 5})}, [](T x, T y) { return x.copysign(y); },
          [](A x, A y) { return map(x, y, [](double a, double b) { return std::copysign(a, b); }); })
          .on(kFloat)
          .exact(),
      Row(
          "copysign: of zeros", {given({4}, {3, -3, 3, -3}), given({4}, {0, 0, -0., -0.})},
          [](T x, T y) { return x.copysign(y); }, [](A x, A) { return Array(x.shape, {3, 3, -3, -3}); })
          .exact()
          .no_gradient(kNotSmooth),
      pairs(
          "logaddexp", [](T x, T y) { return x.logaddexp(y); },
          [](double x, double y) { return std::log(std::exp(x) + std::exp(y)); }),
      Row(
          "logaddexp: far apart and infinite",
          {given({9}, {-kInf, kInf, kInf, -kInf, -kInf, 3, NAN, 200, -3e38}),
           given({9}, {-kInf, kInf, -kInf, kInf, 2, kInf, 1, -200, 3e38})},
          [](T x, T y) { return Tensors{x.logaddexp(y), y.logaddexp(x)}; },
          [](A x, A y) {
            const Array larger =
                map(x, y, [](double a, double b) { return std::isnan(a) ? a : std::max(a, b); });
            return Arrays{larger, larger};
          })
          .no_gradient(kNotFinite),
      Row(
          "logaddexp: gradient at infinities",
          {given({7}, {-kInf, kInf, kInf, -kInf, -kInf, 3, 2}),
           given({7}, {-kInf, kInf, -kInf, kInf, 2, kInf, 2})},
          [](T x, T y) { return x.logaddexp(y).sum().gradient({x, y}); },
          [](A x, A y) {
            const auto share = [](double a, double b) { return a == b ? .5 : a > b; };
            return Arrays{map(x, y, share), map(y, x, share)};
          })
          .on(kFloat)
          .everywhere()
          .no_gradient(kGradientIsTheOutput),
      Row(
          "lerp", {in({3, 5}), in({3, 5}), in({5}).range(0, 1)}, [](T x, T y, T w) { return x.lerp(y, w); },
          [](A x, A y, A w) {
            return map(x, y, w, [](double a, double b, double t) { return a + (b - a) * t; });
          })
          .on(kFloat),
      Row(
          "lerp: bytes",
          {in({3, 5}).range(0, 255), in({3, 5}).range(0, 255), in({3, 5}).range(0, 1).of(DType::Float32)},
          [](T x, T y, T w) { return x.lerp(y, w); },
          [](A x, A y, A w) {
            return map(x, y, w, [](double a, double b, double t) {
              return a + std::floor(((b - a) * std::trunc(t * 128 + .5) + 64) / 128);
            });
          })
          .on({DType::UInt8}),
  };
}

Rows bits() {
  const auto whole = [](const char* name, Op2 op, Function2 f) {
    return pairs(name, op, f, -99, 99).on(kInts);
  };
  const auto both = [](const char* name, Op2 op, Function2 f) {
    return pairs(name, op, f, 0, 1).on({DType::Bool});
  };
  return {
      whole(
          "bitwise_and", [](T x, T y) { return x.bitwise_and(y); },
          [](double x, double y) { return double(int64_t(x) & int64_t(y)); }),
      whole(
          "bitwise_or", [](T x, T y) { return x.bitwise_or(y); },
          [](double x, double y) { return double(int64_t(x) | int64_t(y)); }),
      whole(
          "bitwise_xor", [](T x, T y) { return x.bitwise_xor(y); },
          [](double x, double y) { return double(int64_t(x) ^ int64_t(y)); }),
      both(
          "bitwise_and: bool", [](T x, T y) { return x.bitwise_and(y); },
          [](double x, double y) { return x * y; }),
      both(
          "bitwise_or: bool", [](T x, T y) { return x.bitwise_or(y); }, std::fmax),
      both(
          "bitwise_xor: bool", [](T x, T y) { return x.bitwise_xor(y); },
          [](double x, double y) { return double(x != y); }),
      Row(
          "lshift", {in({3, 5}).range(-30, 30), in({3, 5}).range(0, 7)}, [](T x, T y) { return x.lshift(y); },
          [](A x, A y) { return map(x, y, [](double a, double b) { return a * std::exp2(b); }); })
          .on(kInts),
      Row(
          "rshift", {in({3, 5}).range(-99, 99), in({3, 5}).range(0, 7)}, [](T x, T y) { return x.rshift(y); },
          [](A x, A y) {
            return map(x, y, [](double a, double b) { return std::floor(a * std::exp2(-b)); });
          })
          .on(kInts),
  };
}

Rows comparisons() {
  const Input left = given({6}, {NAN, 1, kInf, -kInf, 0, 2}), right = given({6}, {1, NAN, kInf, 3, -0., 2});
  return {
      comparison(
          "eq", [](T x, T y) { return x.eq(y); }, [](double x, double y) { return double(x == y); }),
      comparison(
          "ne", [](T x, T y) { return x.ne(y); }, [](double x, double y) { return double(x != y); }),
      comparison(
          "lt", [](T x, T y) { return x.lt(y); }, [](double x, double y) { return double(x < y); }),
      comparison(
          "gt", [](T x, T y) { return x.gt(y); }, [](double x, double y) { return double(x > y); }),
      comparison(
          "le", [](T x, T y) { return x.le(y); }, [](double x, double y) { return double(x <= y); }),
      comparison(
          "ge", [](T x, T y) { return x.ge(y); }, [](double x, double y) { return double(x >= y); }),
      Row(
          "lt: equal and unordered operands", {left, right},
          [](T x, T y) { return Tensors{x.eq(y), x.ne(y), x.lt(y), x.gt(y), x.le(y), x.ge(y)}; },
          [](A x, A y) {
            return Arrays{map(x, y, [](double a, double b) { return a == b; }),
                          map(x, y, [](double a, double b) { return a != b; }),
                          map(x, y, [](double a, double b) { return a < b; }),
                          map(x, y, [](double a, double b) { return a > b; }),
                          map(x, y, [](double a, double b) { return a <= b; }),
                          map(x, y, [](double a, double b) { return a >= b; })};
          })
          .on({DType::Float32, DType::Float16})
          .gives(DType::Bool),
      Row(
          "where", {bools({3, 5}), in({3, 5}), in({5})}, [](T c, T x, T y) { return c.where(x, y); },
          [](A c, A x, A y) {
            return map(c, x, y, [](double k, double a, double b) { return k != 0 ? a : b; });
          })
          .on(kNumbers)
          .exact(),
      Row(
          "where: literals", {bools({3, 5}), in({3, 5})},
          [](T c, T x) { return Tensors{c.where(x, 7), c.where(-1, x)}; },
          [](A c, A x) {
            return Arrays{map(c, x, [](double k, double a) { return k != 0 ? a : 7; }),
                          map(c, x, [](double k, double a) { return k != 0 ? -1 : a; })};
          })
          .on({DType::Float32, DType::Float16, DType::Int64})
          .exact(),
      Row(
          "isclose",
          {given({6}, {1, 1, 0, NAN, kInf, kInf}), given({6}, {1.000001, 1.1, 1e-9, NAN, kInf, -kInf})},
          [](T x, T y) {
            return Tensors{x.isclose(y), x.isclose(y, .2), x.isclose(y, 0, 0),
                           x.isclose(y, 1e-5, 1e-8, true)};
          },
          [](A x, A) {
            return Arrays{{x.shape, {1, 0, 1, 0, 1, 0}},
                          {x.shape, {1, 1, 1, 0, 1, 0}},
                          {x.shape, {0, 0, 0, 0, 1, 0}},
                          {x.shape, {1, 0, 1, 1, 1, 0}}};
          })
          .gives(DType::Bool),
      Row(
          "allclose", {given({2}, {1, 2}), given({2}, {1.000001, 2.1})},
          [](T x, T y) { return Tensors{x.allclose(y), x.allclose(y, .1)}; },
          [](A, A) { return Arrays{scalar(0), scalar(1)}; })
          .gives(DType::Bool),
  };
}

Rows broadcasting() {
  const auto add = [](T x, T y) { return x + y; };
  const auto sum = [](A x, A y) { return map(x, y, [](double a, double b) { return a + b; }); };
  const auto mul = [](T x, T y) { return x * y; };
  const auto product = [](A x, A y) { return map(x, y, [](double a, double b) { return a * b; }); };
  return {
      Row("operator+", {in({2, 3, 4}), in({4})}, add, sum),
      Row("operator+: rows and columns", {in({3, 1}), in({1, 5})}, add, sum).everywhere(),
      Row("operator+: a scalar tensor", {in({2, 3}), in({})}, add, sum),
      Row("operator+: two scalars", {in({}), in({})}, add, sum),
      Row("operator+: nothing", {in({0, 3}), in({3})}, add, sum),
      Row("operator+: odd sizes", {in({5, 1, 7}), in({3, 1})}, add, sum),
      Row("operator*", {in({2, 1, 3}), in({4, 1})}, mul, product),
      Row(
          "operator*: with itself", {in({7})}, [](T x) { return x * x; },
          [](A x) { return map(x, [](double v) { return v * v; }); }),
      Row(
          "operator-: literals", {in({3, 5})}, [](T x) { return 2 - x - 1; },
          [](A x) { return map(x, [](double v) { return 1 - v; }); }),
      Row(
          "operator/", {in({3, 5}).range(1, 3)}, [](T x) { return 3 / x / 2; },
          [](A x) { return map(x, [](double v) { return 1.5 / v; }); }),
      Row(
          "operator%", {in({3, 5}).range(-9, 9)}, [](T x) { return x % 4; },
          [](A x) { return map(x, [](double v) { return floor_mod(v, 4); }); })
          .on({DType::Int32, DType::Float32})
          .within(8),
      Row(
          "operator&, operator|, operator^", {in({3, 5}).range(0, 99)},
          [](T x) { return Tensors{x & 12, x | 12, x ^ 12}; },
          [](A x) {
            return Arrays{map(x, [](double v) { return int64_t(v) & 12; }),
                          map(x, [](double v) { return int64_t(v) | 12; }),
                          map(x, [](double v) { return int64_t(v) ^ 12; })};
          })
          .on({DType::Int32}),
      Row(
          "operator<<, operator>>", {in({3, 5}).range(0, 9)}, [](T x) { return Tensors{x << 2, x >> 1}; },
          [](A x) {
            return Arrays{map(x, [](double v) { return v * 4; }),
                          map(x, [](double v) { return std::floor(v / 2); })};
          })
          .on({DType::Int32, DType::UInt8}),
      Row(
          "operator<, operator>, operator<=, operator>=, operator==, operator!=", {in({3, 5}).range(-3, 3)},
          [](T x) { return Tensors{x < 1, x > 1, x <= 1, x >= 1, x == 1, x != 1}; },
          [](A x) {
            return Arrays{map(x, [](double v) { return v < 1; }),  map(x, [](double v) { return v > 1; }),
                          map(x, [](double v) { return v <= 1; }), map(x, [](double v) { return v >= 1; }),
                          map(x, [](double v) { return v == 1; }), map(x, [](double v) { return v != 1; })};
          })
          .on({DType::Int32, DType::Float32})
          .gives(DType::Bool),
      Row("add: at the join of two dtypes", {in({3, 5}).of(DType::Float16), in({3, 5}).of(DType::Int32)}, add,
          sum)
          .gives(DType::Float16),
      Row("add: half and float", {in({3, 5}).of(DType::Float16), in({3, 5}).of(DType::Float32)}, add, sum),
      Row("add: int8 and uint8", {ints({3, 5}, -9, 9).of(DType::Int8), ints({3, 5}, 0, 9).of(DType::UInt8)},
          add, sum)
          .gives(DType::Int16),
      Row(
          "add: a literal of a wider kind", {ints({3, 5}, -9, 9).of(DType::Int8)}, [](T x) { return x + .5; },
          [](A x) { return map(x, [](double v) { return v + .5; }); })
          .gives(DType::WeakFloat),
  };
}

}  // namespace

TABLE_TEST_CASE("arithmetic", arithmetic)
TABLE_TEST_CASE("divisions", divisions)
TABLE_TEST_CASE("powers and extremes", powers_and_extremes)
TABLE_TEST_CASE("signs and blends", blends)
TABLE_TEST_CASE("bits", bits)
TABLE_TEST_CASE("comparisons", comparisons)
TABLE_TEST_CASE("broadcasting and operators", broadcasting)
