// Reductions, and running reductions.
#include "ops/table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

using enum Result::Kind;
using Fold = double (*)(const Values&);

double product(const Values& v) { return std::accumulate(v.begin(), v.end(), 1.0, std::multiplies<>()); }
double largest(const Values& v) { return *std::max_element(v.begin(), v.end()); }
double smallest(const Values& v) { return *std::min_element(v.begin(), v.end()); }
double any_of(const Values& v) {
  return std::any_of(v.begin(), v.end(), [](double x) { return x != 0; });
}
double all_of(const Values& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return x != 0; });
}
double first_largest(const Values& v) {
  return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
}
double first_smallest(const Values& v) {
  return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin());
}
template <int kCorrection>
double variance(const Values& v) {
  const double m = mean(v);
  double s = 0;
  for (double x : v) s += (x - m) * (x - m);
  return s / std::max(0.0, static_cast<double>(v.size()) - kCorrection);
}
double deviation(const Values& v) { return std::sqrt(variance<1>(v)); }
double log_sum_exp(const Values& v) {
  double s = 0;
  for (double x : v) s += std::exp(x);
  return std::log(s);
}

// Over all axes; the last, kept; two of three.
Row reduction(const char* name, Tensor (*op)(T, const Axes&, bool), Fold f, double low = -2,
              double high = 2) {
  return {name,
          {in({2, 3, 4}).range(low, high)},
          [=](T x) { return Tensors{op(x, {}, false), op(x, -1, true), op(x, {0, 2}, false)}; },
          [=](A x) { return Arrays{fold(x, {0, 1, 2}, f), fold(x, {2}, f, true), fold(x, {0, 2}, f)}; }};
}
Row one_sum(const char* name, Index shape, Axes axes, std::vector<int> folded) {
  return {name,
          {in(std::move(shape))},
          [=](T x) { return x.sum(axes); },
          [=](A x) { return fold(x, folded, sum); }};
}

Rows sums() {
  return {
      reduction(
          "sum", [](T x, const Axes& a, bool k) { return x.sum(a, k); }, sum)
          .on(kNumbers)
          .gives(Sum)
          .everywhere(),
      reduction(
          "sum: bool", [](T x, const Axes& a, bool k) { return x.sum(a, k); }, sum)
          .on({DType::Bool})
          .gives(Sum),
      one_sum("sum: a scalar", {}, {}, {}),
      one_sum("sum: no axes", {2, 3}, Ints(), {}),
      one_sum("sum: nothing", {2, 0, 3}, 1, {1}),
      one_sum("sum: all of nothing", {0}, {}, {0}),
      one_sum("sum: rows with a remainder", {5, 37}, 1, {1}),
      one_sum("sum: columns", {37, 5}, 0, {0}),
      one_sum("sum: the middle axis", {3, 17, 6}, 1, {1}),
      one_sum("sum: long", {3001}, {}, {0}).everywhere(),
      Row(
          "sum: of an expression", {in({6, 7}), in({7})}, [](T x, T y) { return (x * y + 1).sum(1); },
          [](A x, A y) { return fold(map(x, y, [](double a, double b) { return a * b + 1; }), {1}, sum); }),
      Row(
          "sum: of a sum", {in({6, 7})}, [](T x) { return (x.sum(1, true) * x).sum(0); },
          [](A x) {
            return fold(map(fold(x, {1}, sum, true), x, [](double a, double b) { return a * b; }), {0}, sum);
          }),
      Row(
          "sum: of a permuted, padded and expanded tensor", {in({4, 5})},
          [](T x) { return x.T().pad({1, 2, 0, 1}).unsqueeze(0).expand({3, -1, -1}).sum({0, 2}); },
          [](A x) {
            Array s = fold(x, {0}, sum);
            s.data.push_back(0);
            s.shape[0]++;
            return map(s, [](double v) { return 3 * v; });
          }),
      Row(
          "sum: accumulates in float", {given({2}, {40000, 40000}).of(DType::Float16)},
          [](T x) { return Tensors{x.sum(0, false, DType::Float32), x.sum()}; },
          [](A) { return Arrays{scalar(80000), scalar(INFINITY)}; })
          .gives({DType::Float32, DType::Float16}),
      reduction(
          "mean", [](T x, const Axes& a, bool k) { return x.mean(a, k); }, mean)
          .on(kFloats),
      reduction(
          "mean: integers", [](T x, const Axes& a, bool k) { return x.mean(a, k); }, mean, 0, 99)
          .on({DType::Int32, DType::UInt8, DType::Bool})
          .gives(DType::Float32),
      reduction(
          "var", [](T x, const Axes& a, bool k) { return x.var(a, k); }, variance<1>)
          .on(kFloats),
      reduction(
          "var: no correction", [](T x, const Axes& a, bool k) { return x.var(a, k, 0); }, variance<0>),
      reduction(
          "std", [](T x, const Axes& a, bool k) { return x.std(a, k); }, deviation)
          .on({DType::Float32, DType::Float16}),
      Row(
          "var_mean, std_mean", {in({2, 3, 4})},
          [](T x) {
            const auto [v, m] = x.var_mean({0, 2});
            const auto [s, n] = x.std_mean(-1, true, 0);
            return Tensors{v, m, s, n};
          },
          [](A x) {
            return Arrays{fold(x, {0, 2}, variance<1>), fold(x, {0, 2}, mean),
                          fold(
                              x, {2}, [](const Values& v) { return std::sqrt(variance<0>(v)); }, true),
                          fold(x, {2}, mean, true)};
          })
          .on({DType::Float32, DType::Float64}),
      reduction(
          "logsumexp", [](T x, const Axes& a, bool k) { return x.logsumexp(a, k); }, log_sum_exp),
      Row(
          "logsumexp: large", {given({2}, {1000, 1000})}, [](T x) { return x.logsumexp(); },
          [](A) { return scalar(1000 + std::log(2)); })
          .no_gradient(kCheckedElsewhere),
      Row(
          "logsumexp: infinities", {given({3, 2}, {-INFINITY, -INFINITY, -INFINITY, 1, 1, INFINITY})},
          [](T x) { return x.logsumexp(1); }, [](A) { return Array({3}, {-INFINITY, 1, INFINITY}); })
          .no_gradient(kNotFinite),
  };
}

Rows products_and_extremes() {
  return {
      reduction(
          "prod", [](T x, const Axes& a, bool k) { return x.prod(a, k); }, product, .5, 1.5)
          .on(kFloats)
          .within(16),
      reduction(
          "prod: integers", [](T x, const Axes& a, bool k) { return x.prod(a, k); }, product, 1, 2)
          .on({DType::Int32, DType::Int64, DType::UInt8}),
      Row(
          "prod: zeros", {given({3, 3}, {1, 2, 3, 0, 2, 3, 0, 0, 3})}, [](T x) { return x.prod(1); },
          [](A x) { return fold(x, {1}, product); }),
      reduction(
          "max", [](T x, const Axes& a, bool k) { return x.max(a, k); }, largest)
          .on(kNumbers)
          .exact(),
      reduction(
          "min", [](T x, const Axes& a, bool k) { return x.min(a, k); }, smallest)
          .on(kNumbers)
          .exact(),
      reduction(
          "max: bool", [](T x, const Axes& a, bool k) { return x.max(a, k); }, largest)
          .on({DType::Bool}),
      Row(
          "max: negative infinity", {given({2}, {-INFINITY, -INFINITY})}, [](T x) { return x.max(); },
          [](A) { return scalar(-INFINITY); })
          .no_gradient(kNotFinite),
      Row(
          "max: the ends of the range", {given({3}, {-128, -128, -127})},
          [](T x) { return Tensors{x.max(), x.min()}; }, [](A) { return Arrays{scalar(-127), scalar(-128)}; })
          .on({DType::Int8, DType::Int32}),
      reduction(
          "any", [](T x, const Axes& a, bool k) { return x.any(a, k); }, any_of)
          .on({DType::Bool, DType::Float32})
          .gives(DType::Bool),
      reduction(
          "all", [](T x, const Axes& a, bool k) { return x.all(a, k); }, all_of)
          .on({DType::Bool, DType::Int32})
          .gives(DType::Bool),
      Row(
          "argmax", {in({3, 5})}, [](T x) { return Tensors{x.argmax(), x.argmax(0), x.argmax(-1, true)}; },
          [](A x) {
            return Arrays{scalar(first_largest(x.data)), fold(x, {0}, first_largest),
                          fold(x, {1}, first_largest, true)};
          })
          .on(kNumbers)
          .gives(DType::Int32),
      Row(
          "argmax: the first of several", {given({2, 4}, {1, 3, 3, 2, 5, 5, 5, 5})},
          [](T x) { return x.argmax(1); }, [](A) { return Array({2}, {1, 0}); })
          .gives(DType::Int32),
      Row(
          "argmin", {in({3, 5})}, [](T x) { return Tensors{x.argmin(), x.argmin(0), x.argmin(-1, true)}; },
          [](A x) {
            return Arrays{scalar(first_smallest(x.data)), fold(x, {0}, first_smallest),
                          fold(x, {1}, first_smallest, true)};
          })
          .on({DType::Float32, DType::Int32, DType::UInt8})
          .gives(DType::Int32),
  };
}

Values running(const Values& v, double (*f)(double, double)) {
  Values out;
  for (double x : v) out.push_back(out.empty() ? x : f(out.back(), x));
  return out;
}
Values sums_up_to(const Values& v) {
  return running(v, [](double a, double b) { return a + b; });
}
Values products_up_to(const Values& v) {
  return running(v, [](double a, double b) { return a * b; });
}
Values logs_up_to(const Values& v) {
  return running(v,
                 [](double a, double b) { return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b))); });
}
Values first_positions(const Values& v, bool (*better)(double, double)) {
  Values out;
  size_t best = 0;
  for (size_t i = 0; i < v.size(); i++) {
    if (better(v[i], v[best])) best = i;
    out.push_back(static_cast<double>(best));
  }
  return out;
}
Values largest_up_to(const Values& v) {
  return running(v, [](double a, double b) { return std::max(a, b); });
}
Values smallest_up_to(const Values& v) {
  return running(v, [](double a, double b) { return std::min(a, b); });
}

Rows running_reductions() {
  const auto cummax = [](int axis) {
    return [=](A x) {
      return Arrays{along(x, axis, largest_up_to), along(x, axis, [](const Values& v) {
                      return first_positions(v, [](double a, double b) { return a > b; });
                    })};
    };
  };
  const auto cummin = [](int axis) {
    return [=](A x) {
      return Arrays{along(x, axis, smallest_up_to), along(x, axis, [](const Values& v) {
                      return first_positions(v, [](double a, double b) { return a < b; });
                    })};
    };
  };
  return {
      Row(
          "cumsum", {in({3, 4})}, [](T x) { return x.cumsum(1); },
          [](A x) { return along(x, 1, sums_up_to); })
          .everywhere()
          .on({DType::Float32, DType::Float64, DType::Int32, DType::Int64}),
      Row(
          "cumsum: first axis", {in({5, 2})}, [](T x) { return x.cumsum(); },
          [](A x) { return along(x, 0, sums_up_to); }),
      Row(
          "cumsum: a scalar", {in({})}, [](T x) { return x.cumsum(); }, [](A x) { return x; }),
      Row(
          "cumsum: nothing", {in({2, 0})}, [](T x) { return x.cumsum(1); }, [](A x) { return x; }),
      Row(
          "cumsum: in stages", {in({2, 700}).integers()}, [](T x) { return x.cumsum(1); },
          [](A x) { return along(x, 1, sums_up_to); })
          .exact()
          .no_gradient(kCheckedElsewhere),
      Row(
          "cumprod", {in({3, 4}).range(.5, 1.5)}, [](T x) { return x.cumprod(1); },
          [](A x) { return along(x, 1, products_up_to); })
          .within(8)
          .on({DType::Float32, DType::Float64}),
      Row(
          "cumprod: integers", {in({3, 4}).range(1, 3)}, [](T x) { return x.cumprod(0); },
          [](A x) { return along(x, 0, products_up_to); })
          .on({DType::Int32}),
      Row(
          "logcumsumexp", {in({3, 4})}, [](T x) { return Tensors{x.logcumsumexp(), x.logcumsumexp(1)}; },
          [](A x) { return Arrays{along(x, 0, logs_up_to), along(x, 1, logs_up_to)}; })
          .on(kFloats),
      Row(
          "logcumsumexp: in stages", {in({600})}, [](T x) { return x.logcumsumexp(); },
          [](A x) { return along(x, 0, logs_up_to); })
          .within(16)
          .no_gradient(kCheckedElsewhere),
      Row(
          "logcumsumexp: infinities, integers",
          {given({4}, {-INFINITY, -INFINITY, 1000, INFINITY}), given({2}, {0, 1}).of(DType::Int32)},
          [](T x, T y) { return Tensors{x.logcumsumexp(), y.logcumsumexp()}; },
          [](A, A y) {
            return Arrays{{{4}, {-INFINITY, -INFINITY, 1000, INFINITY}}, along(y, 0, logs_up_to)};
          })
          .no_gradient(kNotFinite),
      Row(
          "cummax", {in({3, 5})}, [](T x) { return x.cummax(1); }, cummax(1))
          .exact()
          .gives({Same, DType::Int32})
          .on({DType::Float32, DType::Int32, DType::UInt8}),
      Row(
          "cummax: in stages", {in({700}).range(-99, 99).integers()}, [](T x) { return x.cummax(); },
          cummax(0))
          .exact()
          .gives({Same, DType::Int32})
          .no_gradient(kNotSmooth),
      Row(
          "cummin", {in({5, 3})}, [](T x) { return x.cummin(0); }, cummin(0))
          .exact()
          .gives({Same, DType::Int32})
          .on({DType::Float32, DType::Int32}),
  };
}

}  // namespace

TABLE_TEST_CASE("sums and means", sums)
TABLE_TEST_CASE("products, extremes and their positions", products_and_extremes)
TABLE_TEST_CASE("running reductions", running_reductions)
