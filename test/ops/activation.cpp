// Activation functions.
#include "ops/table.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

double relu(double x) { return std::max(x, 0.0); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::log1p(std::exp(x)); }

// Of the polynomial that erf is.
constexpr double kErfError = 1e-7;

Row activation(const char* name, Tensor (*f)(T), double (*reference)(double), double low = -4,
               double high = 4) {
  return {name,
          {in({3, 5}).range(low, high), in({}).range(low, high), in({0, 2}).range(low, high)},
          [=](T x, T scalar, T none) { return Tensors{f(x), f(scalar), f(none)}; },
          [=](A x, A scalar, A none) {
            return Arrays{map(x, reference), map(scalar, reference), map(none, reference)};
          }};
}

Rows piecewise_activations() {
  return {
      activation(
          "relu", [](T x) { return x.relu(); }, relu)
          .on(kNumbers)
          .exact(),
      activation(
          "relu6", [](T x) { return x.relu6(); }, [](double x) { return std::clamp(x, 0.0, 6.0); }, -4, 9)
          .on({DType::Float32, DType::Float16}),
      activation(
          "sigmoid", [](T x) { return x.sigmoid(); }, sigmoid)
          .on(kFloats),
      activation(
          "tanh", [](T x) { return x.tanh(); }, [](double x) { return std::tanh(x); })
          .on(kFloats),
      activation(
          "hardswish", [](T x) { return x.hardswish(); },
          [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; })
          .on({DType::Float32, DType::BFloat16}),
      activation(
          "hardsigmoid", [](T x) { return x.hardsigmoid(); },
          [](double x) { return std::clamp(x / 6 + .5, 0.0, 1.0); }),
      activation(
          "hardsigmoid: other lines", [](T x) { return x.hardsigmoid(.2, .25); },
          [](double x) { return std::clamp(x * .2 + .25, 0.0, 1.0); }),
      activation(
          "hardtanh", [](T x) { return x.hardtanh(); }, [](double x) { return std::clamp(x, -1.0, 1.0); })
          .exact(),
      activation(
          "hardtanh: other bounds", [](T x) { return x.hardtanh(-2, .5); },
          [](double x) { return std::clamp(x, -2.0, .5); })
          .exact(),
      activation(
          "leaky_relu", [](T x) { return x.leaky_relu(); }, [](double x) { return x < 0 ? .01 * x : x; }),
      activation(
          "leaky_relu: steep", [](T x) { return x.leaky_relu(2.5); },
          [](double x) { return x < 0 ? 2.5 * x : x; }),
      activation(
          "elu", [](T x) { return x.elu(); }, [](double x) { return x < 0 ? std::expm1(x) : x; }),
      activation(
          "elu: alpha", [](T x) { return x.elu(.5); },
          [](double x) { return x < 0 ? .5 * std::expm1(x) : x; }),
      activation(
          "celu", [](T x) { return x.celu(); }, [](double x) { return x < 0 ? std::expm1(x) : x; }),
      activation(
          "celu: alpha", [](T x) { return x.celu(2); },
          [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; }),
      activation(
          "selu", [](T x) { return x.selu(); },
          [](double x) { return 1.0507 * (x < 0 ? 1.67326 * std::expm1(x) : x); }),
  };
}

Rows smooth_activations() {
  return {
      activation(
          "gelu", [](T x) { return x.gelu(); },
          [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + .044715 * x * x * x))); })
          .on(kFloats)
          .everywhere(),
      activation(
          "gelu: exact", [](T x) { return x.gelu("none"); },
          [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2))); })
          .within(4, kErfError)
          .gradient_within(kErfError),
      activation(
          "quick_gelu", [](T x) { return x.quick_gelu(); }, [](double x) { return x * sigmoid(1.702 * x); }),
      activation(
          "swish", [](T x) { return x.swish(); }, [](double x) { return x * sigmoid(x); })
          .on(kFloats),
      activation(
          "silu", [](T x) { return x.silu(); }, [](double x) { return x * sigmoid(x); }),
      activation(
          "mish", [](T x) { return x.mish(); }, [](double x) { return x * std::tanh(softplus(x)); }),
      activation(
          "softplus", [](T x) { return x.softplus(); }, softplus),
      activation(
          "softplus: beta", [](T x) { return x.softplus(3); }, [](double x) { return softplus(3 * x) / 3; }),
      activation(
          "logsigmoid", [](T x) { return x.logsigmoid(); }, [](double x) { return std::log(sigmoid(x)); }),
      activation(
          "softsign", [](T x) { return x.softsign(); }, [](double x) { return x / (1 + std::fabs(x)); }),
      Row(
          "elu: gradient far out", {given({4}, {-200, 200, -INFINITY, INFINITY})},
          [](T x) {
            Tensors out;
            for (const Tensor& y : {x.elu(), x.celu(2), x.selu(1, 1)})
              out.push_back(y.sum().gradient({x})[0]);
            return out;
          },
          [](A x) {
            const Array g(x.shape, {0, 1, 0, 1});
            return Arrays{g, g, g};
          })
          .no_gradient(kGradientIsTheOutput),
      Row(
          "relu: at its corner", {given({3}, {0, -0., 1})}, [](T x) { return x.relu(); },
          [](A) { return Array({3}, {0, 0, 1}); })
          .no_gradient(kNotSmooth)
          .exact(),
      Row(
          "sigmoid: far out", {given({4}, {-100, 100, -INFINITY, INFINITY})}, [](T x) { return x.sigmoid(); },
          [](A) { return Array({4}, {0, 1, 0, 1}); })
          .no_gradient(kNotFinite),
      Row(
          "softplus: far out", {given({5}, {-100, 100, -INFINITY, INFINITY, NAN})},
          [](T x) { return Tensors{x.softplus(), x.neg().logsigmoid().neg()}; },
          [](A x) {
            const Array y(x.shape, {std::exp(-100), 100, 0, INFINITY, NAN});
            return Arrays{y, y};
          })
          .on({DType::Float32, DType::BFloat16, DType::Float64})
          .no_gradient(kNotFinite),
      Row(
          "softplus: gradient far out", {given({5}, {-200, 200, -INFINITY, INFINITY, 0})},
          [](T x) { return x.softplus().sum().gradient({x}); },
          [](A x) { return Array(x.shape, {0, 1, 0, 1, .5}); })
          .on({DType::Float32, DType::Float16, DType::Float64})
          .no_gradient(kGradientIsTheOutput),
      // The result is about e^x: its logarithm shows what is left of its digits.
      Row(
          "softplus: small results", {in({3, 5}).range(-60, -20)}, [](T x) { return x.softplus().log(); },
          [](A x) { return map(x, [](double v) { return std::log(softplus(v)); }); })
          .on({DType::Float32, DType::Float64}),
  };
}

}  // namespace

TABLE_TEST_CASE("piecewise activations", piecewise_activations)
TABLE_TEST_CASE("smooth activations", smooth_activations)
