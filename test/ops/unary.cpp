// Elementwise functions of one operand.
#include "ops/table.h"

#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

using Method = Tensor (Tensor::*)() const;
using Function = double (*)(double);
using enum Result::Kind;

constexpr double kInf = INFINITY;
// Of the polynomial that erf is in every type.
constexpr double kErfError = 5e-8;

Row unary(const char* name, Method method, Function f, double low = -2, double high = 2) {
  return {name,
          {in({3, 5}).range(low, high), in({}).range(low, high), in({0, 2}).range(low, high)},
          [=](T x, T scalar, T none) { return Tensors{(x.*method)(), (scalar.*method)(), (none.*method)()}; },
          [=](A x, A scalar, A none) { return Arrays{map(x, f), map(scalar, f), map(none, f)}; }};
}

double half_to_even(double x) { return std::nearbyint(x); }

Rows powers() {
  return {
      unary("exp2", &Tensor::exp2, std::exp2, -4, 4).on(kFloats),
      unary("exp", &Tensor::exp, std::exp, -4, 4).on(kFloats),
      unary("log2", &Tensor::log2, std::log2, 0, 4).on(kFloats),
      unary("log", &Tensor::log, std::log, 0, 4).on(kFloats),
      unary("log10", &Tensor::log10, std::log10, 0, 4).on(kFloats),
      unary("log1p", &Tensor::log1p, std::log1p, -.9375, 4).on(kFloats),
      unary("sqrt", &Tensor::sqrt, std::sqrt, 0, 4).on(kFloats),
      unary(
          "rsqrt", &Tensor::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0, 4)
          .on(kFloats),
      unary(
          "reciprocal", &Tensor::reciprocal, [](double x) { return 1 / x; }, .25, 4)
          .on(kFloats),
      unary("square", &Tensor::square, [](double x) { return x * x; }).on(kNumbers),
      unary("sqrt: integers", &Tensor::sqrt, std::sqrt, 0, 100).on(kInts).gives(Float),
      unary("exp: integers", &Tensor::exp, std::exp, 0, 4).on(kInts).gives(Float),
      unary("log2: integers", &Tensor::log2, std::log2, 1, 100).on({DType::UInt8, DType::Int64}).gives(Float),
      unary("sigmoid: integers", &Tensor::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); })
          .on({DType::Int8, DType::Bool})
          .gives(DType::WeakFloat),
      Row(
          "exp2: the ends of the range", {given({9}, {-kInf, kInf, NAN, 0, -160, 127.5, 128, -126, 1})},
          [](T x) { return x.exp2(); },
          [](A x) { return map(x, [](double v) { return v >= 128   ? kInf
                                                        : v < -150 ? 0
                                                                   : std::exp2(v); }); })
          .no_gradient(kNotFinite),
      Row(
          "log2: the ends of the range", {given({7}, {0, -0., -1, kInf, NAN, 1, 1e-30})},
          [](T x) { return x.log2(); }, [](A x) { return map(x, [](double v) { return std::log2(v); }); })
          .no_gradient(kNotFinite),
      Row(
          "sqrt: the ends of the range", {given({5}, {0, -1, kInf, NAN, 1e-30})},
          [](T x) { return x.sqrt(); }, [](A x) { return map(x, [](double v) { return std::sqrt(v); }); })
          .no_gradient(kNotFinite),
      Row(
          "reciprocal: the ends of the range", {given({5}, {0, -0., kInf, -kInf, NAN})},
          [](T x) { return x.reciprocal(); }, [](A x) { return map(x, [](double v) { return 1 / v; }); })
          .no_gradient(kNotFinite),
  };
}

Rows trigonometry() {
  return {
      unary("sin", &Tensor::sin, std::sin, -8, 8).on(kFloats),
      unary("cos", &Tensor::cos, std::cos, -8, 8).on(kFloats),
      unary("tan", &Tensor::tan, std::tan, -1.25, 1.25).on({DType::Float32, DType::Float64}),
      unary("asin", &Tensor::asin, std::asin, -.9375, .9375).on(kFloats),
      unary("acos", &Tensor::acos, std::acos, -.9375, .9375).on(kFloats),
      unary("atan", &Tensor::atan, std::atan, -4, 4).on(kFloats),
      unary("sinh", &Tensor::sinh, std::sinh).on(kFloats),
      unary("cosh", &Tensor::cosh, std::cosh).on(kFloats),
      unary("asinh", &Tensor::asinh, std::asinh).on(kFloats),
      unary("acosh", &Tensor::acosh, std::acosh, 1.25, 4).on(kFloats),
      unary("atanh", &Tensor::atanh, std::atanh, -.9375, .9375).on(kFloats).gradient_within(3e-5),
      Row(
          "atan, asinh, atanh: gradient far out and at 0", {given({5}, {0, 1e30, -1e30, kInf, -kInf})},
          [](T x) {
            const Tensor y = x.eq(0).where(x, 0);
            return Tensors{x.atan().sum().gradient({x})[0], x.asinh().sum().gradient({x})[0],
                           y.atanh().sum().gradient({x})[0]};
          },
          [](A x) {
            const Array g(x.shape, {1, 0, 0, 0, 0});
            return Arrays{g, g, g};
          })
          .no_gradient(kGradientIsTheOutput),
      unary("erf", &Tensor::erf, std::erf).within(4, kErfError),
      Row(
          "sin: large arguments", {given({8}, {30, -29, 100, 1e4, -123456, 1e9, 3e30, 1e-30})},
          [](T x) { return x.sin(); }, [](A x) { return map(x, [](double v) { return std::sin(v); }); })
          .no_gradient("differences lose all digits"),
      Row(
          "sin: no number", {given({3}, {kInf, -kInf, NAN})}, [](T x) { return x.sin(); },
          [](A x) { return map(x, [](double) { return double{NAN}; }); })
          .no_gradient(kNotFinite),
      Row(
          "sin: of a scalar", {in({})}, [](T x) { return x.sin(); },
          [](A x) { return map(x, [](double v) { return std::sin(v); }); }),
      Row(
          "sin: of nothing", {in({2, 0})}, [](T x) { return x.sin(); }, [](A x) { return x; }),
      Row(
          "sin: vectors with a remainder", {in({7, 19}).range(-4, 4)}, [](T x) { return x.sin(); },
          [](A x) { return map(x, [](double v) { return std::sin(v); }); }),
  };
}

Rows rounding_and_signs() {
  return {
      unary("neg", &Tensor::neg, [](double x) { return -x; }).on(kNumbers).exact(),
      unary("neg: bool", &Tensor::neg, [](double x) { return double(x == 0); }).on({DType::Bool}),
      unary("operator-", &Tensor::operator-, [](double x) { return -x; }).exact(),
      unary("logical_not", &Tensor::logical_not, [](double x) { return double(x == 0); })
          .on({DType::Bool, DType::Int32, DType::Float32})
          .gives(DType::Bool),
      unary("operator!", &Tensor::operator!, [](double x) { return double(x == 0); }).on({DType::Bool}),
      unary(
          "bitwise_not", &Tensor::bitwise_not, [](double x) { return -x - 1; }, -9, 9)
          .on(kInts),
      unary("bitwise_not: bool", &Tensor::bitwise_not, [](double x) { return 1 - x; }).on({DType::Bool}),
      unary(
          "operator~", &Tensor::operator~, [](double x) { return -x - 1; }, -9, 9)
          .on({DType::Int32}),
      unary("trunc", &Tensor::trunc, std::trunc, -4, 4).on(kFloats).exact(),
      unary("floor", &Tensor::floor, std::floor, -4, 4).on(kFloats).exact(),
      unary("ceil", &Tensor::ceil, std::ceil, -4, 4).on(kFloats).exact(),
      unary("round", &Tensor::round, half_to_even, -4, 4).on(kFloats).exact(),
      unary("round: integers", &Tensor::round, half_to_even, -9, 9).on({DType::Int32, DType::UInt8}),
      Row(
          "round: halves", {given({8}, {-2.5, -1.5, -.5, .5, 1.5, 2.5, 3, -3})},
          [](T x) { return x.round(); }, [](A x) { return map(x, half_to_even); })
          .exact()
          .no_gradient(kNotSmooth),
      Row(
          "floor: whole numbers", {given({4}, {-2, 0, 2, 5})},
          [](T x) { return Tensors{x.floor(), x.ceil()}; }, [](A x) { return Arrays{x, x}; })
          .exact()
          .no_gradient(kNotSmooth),
      unary("abs", &Tensor::abs, std::fabs, -4, 4).on(kNumbers).exact(),
      unary("sign", &Tensor::sign, [](double x) { return double(x > 0) - double(x < 0); })
          .on(kNumbers)
          .exact(),
      Row(
          "sign: zero", {given({3}, {0, 3, -4})}, [](T x) { return x.sign(); },
          [](A) { return Array({3}, {0, 1, -1}); })
          .exact()
          .no_gradient(kNotSmooth),
  };
}

Rows bounds_and_tests() {
  const Input special = given({6}, {0, kInf, -kInf, NAN, -1, 3e38});
  return {
      Row(
          "clamp", {in({3, 5})}, [](T x) { return x.clamp(-1, 1.5); },
          [](A x) { return map(x, [](double v) { return std::fmin(std::fmax(v, -1), 1.5); }); })
          .on(kFloats)
          .exact(),
      Row(
          "clamp: from below", {in({3, 5}).range(-9, 9)}, [](T x) { return x.clamp(2, {}); },
          [](A x) { return map(x, [](double v) { return std::fmax(v, 2); }); })
          .on(kInts),
      Row(
          "clamp: between tensors", {in({3, 5}), in({5}).range(-2, -1), in({3, 1}).range(1, 2)},
          [](T x, T low, T high) { return x.clamp(low, high); },
          [](A x, A low, A high) {
            return map(x, low, high,
                       [](double v, double l, double h) { return std::fmin(std::fmax(v, l), h); });
          })
          .exact(),
      Row(
          "clip", {in({3, 5})}, [](T x) { return x.clip({}, 1); },
          [](A x) { return map(x, [](double v) { return std::fmin(v, 1); }); })
          .exact(),
      Row(
          "isnan", {special}, [](T x) { return x.isnan(); },
          [](A x) { return map(x, [](double v) { return double(std::isnan(v)); }); })
          .on({DType::Float32, DType::BFloat16})
          .gives(DType::Bool),
      Row(
          "isinf", {special},
          [](T x) { return Tensors{x.isinf(), x.isinf(true, false), x.isinf(false, true)}; },
          [](A x) {
            return Arrays{map(x, [](double v) { return double(std::isinf(v)); }),
                          map(x, [](double v) { return double(v == kInf); }),
                          map(x, [](double v) { return double(v == -kInf); })};
          })
          .gives(DType::Bool),
      Row(
          "isfinite", {special}, [](T x) { return x.isfinite(); },
          [](A x) { return map(x, [](double v) { return double(std::isfinite(v)); }); })
          .gives(DType::Bool),
  };
}

}  // namespace

TABLE_TEST_CASE("powers and logarithms", powers)
TABLE_TEST_CASE("trigonometric functions", trigonometry)
TABLE_TEST_CASE("rounding and signs", rounding_and_signs)
TABLE_TEST_CASE("bounds and tests of numbers", bounds_and_tests)
