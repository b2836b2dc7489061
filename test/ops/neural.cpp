// The softmax family, normalisation, attention, dropout.
#include "base/knobs.h"
#include "ops/table.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

Values softmax(const Values& v) {
  const double m = v.empty() ? 0 : *std::max_element(v.begin(), v.end());
  Values out;
  for (double x : v) out.push_back(std::exp(x - m));
  const double s = sum(out);
  for (double& x : out) x /= s;
  return out;
}
Values logs_of_softmax(const Values& v) {
  Values out = softmax(v);
  for (double& x : out) x = std::log(x);
  return out;
}
Values normalized(const Values& v, double eps) {
  const double m = mean(v);
  double squares = 0;
  for (double x : v) squares += (x - m) * (x - m);
  Values out;
  for (double x : v) out.push_back((x - m) / std::sqrt(squares / static_cast<double>(v.size()) + eps));
  return out;
}
Values unit_length(const Values& v, double p) {
  double s = 0;
  for (double x : v) s += p == 0 ? x != 0 : std::pow(std::fabs(x), p);
  Values out;
  for (double x : v) out.push_back(x / (p == 0 ? s : std::pow(s, 1 / p)));
  return out;
}

Rows softmaxes() {
  return {
      Row(
          "softmax", {in({3, 7})}, [](T x) { return x.softmax(); }, [](A x) { return along(x, 1, softmax); })
          .on(kFloats)
          .everywhere(),
      Row(
          "softmax: first axis", {in({5, 3})}, [](T x) { return x.softmax(0); },
          [](A x) { return along(x, 0, softmax); }),
      Row(
          "softmax: the middle axis", {in({2, 5, 3})}, [](T x) { return x.softmax(1); },
          [](A x) { return along(x, 1, softmax); }),
      Row(
          "softmax: a wide row", {in({2, 67})}, [](T x) { return x.softmax(); },
          [](A x) { return along(x, 1, softmax); }),
      Row(
          "softmax: in another dtype", {in({3, 7}).of(DType::Float16)},
          [](T x) { return x.softmax(-1, DType::Float32); }, [](A x) { return along(x, 1, softmax); }),
      Row(
          "softmax: large and masked", {given({2, 3}, {1000, 1001, 1002, 0, -INFINITY, 0})},
          [](T x) { return x.softmax(); }, [](A x) { return along(x, 1, softmax); })
          .no_gradient(kNotFinite),
      Row(
          "softmax: a scalar", {in({})}, [](T x) { return x.softmax(); }, [](A) { return scalar(1); }),
      Row(
          "log_softmax", {in({3, 7})}, [](T x) { return x.log_softmax(); },
          [](A x) { return along(x, 1, logs_of_softmax); })
          .on({DType::Float32, DType::Float16})
          .everywhere(),
      Row(
          "log_softmax: first axis", {in({5, 3})}, [](T x) { return x.log_softmax(0); },
          [](A x) { return along(x, 0, logs_of_softmax); }),
      Row(
          "softmin", {in({3, 7})}, [](T x) { return x.softmin(); },
          [](A x) { return along(map(x, [](double v) { return -v; }), 1, softmax); }),
  };
}

Rows normalizations() {
  return {
      Row(
          "normalize", {in({3, 5})},
          [](T x) { return Tensors{x.normalize(), x.normalize(1), x.normalize(3, 0)}; },
          [](A x) {
            return Arrays{along(x, 1, [](const Values& v) { return unit_length(v, 2); }),
                          along(x, 1, [](const Values& v) { return unit_length(v, 1); }),
                          along(x, 0, [](const Values& v) { return unit_length(v, 3); })};
          })
          .within(8)
          .gradient_within(2e-5),
      Row(
          "normalize: counts", {given({1, 4}, {3, 0, -2, 5})}, [](T x) { return x.normalize(0); },
          [](A x) { return along(x, 1, [](const Values& v) { return unit_length(v, 0); }); })
          .no_gradient(kNotSmooth),
      Row(
          "layernorm", {in({3, 7})}, [](T x) { return x.layernorm(); },
          [](A x) { return along(x, 1, [](const Values& v) { return normalized(v, 1e-5); }); })
          .within(16)
          .on({DType::Float32, DType::Float16})
          .everywhere(),
      Row(
          "layernorm: two axes", {in({3, 2, 4})}, [](T x) { return x.layernorm({1, 2}, 1e-3); },
          [](A x) {
            return reshape(along(reshape(x, {3, 8}), 1, [](const Values& v) { return normalized(v, 1e-3); }),
                           {3, 2, 4});
          })
          .within(16),
      Row(
          "batchnorm", {in({2, 3, 4}), in({3}), in({3}), in({3}), in({3}).range(.5, 2)},
          [](const Tensors& t) {
            return Tensors{t[0].batchnorm(t[1], t[2], t[3], t[4]), t[0].batchnorm({}, {}, t[3], t[4])};
          },
          [](const Arrays& a) {
            const auto norm = [&](I i, double w, double b) {
              return (a[0](i) - a[3].at(i[1])) * a[4].at(i[1]) * w + b;
            };
            return Arrays{build(a[0].shape, [&](I i) { return norm(i, a[1].at(i[1]), a[2].at(i[1])); }),
                          build(a[0].shape, [&](I i) { return norm(i, 1, 0); })};
          })
          .within(16),
      Row(
          "batchnorm: with statistics of the batch", {in({4, 3, 2})},
          [](T x) { return x.batchnorm({}, {}, x.mean({0, 2}), (x.var({0, 2}, false, 0) + 1e-5).rsqrt()); },
          [](A x) {
            const Array channels = reshape(permute(x, {1, 0, 2}), {3, 8});
            return permute(
                reshape(along(channels, 1, [](const Values& v) { return normalized(v, 1e-5); }), {3, 4, 2}),
                {1, 0, 2});
          })
          .within(16),
  };
}

// Queries (…, n, d) of heads that share keys and values in groups; `bias` (n, m) is added to the scores.
Array attention(A q, A k, A v, const std::function<double(int64_t, int64_t)>& bias) {
  const size_t r = q.shape.size();
  const int64_t d = q.shape.back(), m = k.shape[r - 2], share = r > 2 ? q.shape[r - 3] / k.shape[r - 3] : 1;
  Index shape = q.shape;
  shape.back() = v.shape.back();
  return build(shape, [&](I i) {
    const auto other = [&](int64_t row, int64_t column) {
      Index at = i;
      if (r > 2) at[r - 3] /= share;
      at[r - 2] = row;
      at[r - 1] = column;
      return at;
    };
    Values scores;
    for (int64_t j = 0; j < m; j++) {
      double s = 0;
      for (int64_t c = 0; c < d; c++) {
        Index own = i;
        own.back() = c;
        s += q(own) * k(other(j, c));
      }
      scores.push_back(s / std::sqrt(static_cast<double>(d)) + bias(i[r - 2], j));
    }
    const Values p = softmax(scores);
    double out = 0;
    for (int64_t j = 0; j < m; j++) out += p[static_cast<size_t>(j)] * v(other(j, i.back()));
    return out;
  });
}
double no_bias(int64_t, int64_t) { return 0; }
double causal(int64_t i, int64_t j) { return j > i ? -INFINITY : 0; }

Rows attentions() {
  return {
      Row(
          "scaled_dot_product_attention", {in({2, 3, 4}), in({2, 5, 4}), in({2, 5, 6})},
          [](T q, T k, T v) { return q.scaled_dot_product_attention(k, v); },
          [](A q, A k, A v) { return attention(q, k, v, no_bias); })
          .within(16)
          .on({DType::Float32, DType::Float16})
          .everywhere(),
      Row(
          "scaled_dot_product_attention: causal", {in({5, 4}), in({5, 4}), in({5, 4})},
          [](T q, T k, T v) { return q.scaled_dot_product_attention(k, v, {}, {.is_causal = true}); },
          [](A q, A k, A v) { return attention(q, k, v, causal); })
          .within(16),
      Row(
          "scaled_dot_product_attention: a mask of numbers", {in({3, 4}), in({5, 4}), in({5, 4}), in({3, 5})},
          [](T q, T k, T v, T m) { return q.scaled_dot_product_attention(k, v, m); },
          [](A q, A k, A v, A m) {
            return attention(q, k, v, [&](int64_t i, int64_t j) { return m.at(i, j); });
          })
          .within(16),
      Row(
          "scaled_dot_product_attention: a mask of bools",
          {in({2, 4}), in({3, 4}), in({3, 4}), given({2, 3}, {1, 0, 1, 1, 1, 0}).of(DType::Bool)},
          [](T q, T k, T v, T m) { return q.scaled_dot_product_attention(k, v, m); },
          [](A q, A k, A v, A m) {
            return attention(q, k, v, [&](int64_t i, int64_t j) { return m.at(i, j) != 0 ? 0 : -INFINITY; });
          })
          .within(16),
      Row(
          "scaled_dot_product_attention: shared keys", {in({4, 3, 4}), in({2, 5, 4}), in({2, 5, 4})},
          [](T q, T k, T v) { return q.scaled_dot_product_attention(k, v, {}, {.enable_gqa = true}); },
          [](A q, A k, A v) { return attention(q, k, v, no_bias); })
          .within(16),
  };
}

Rows dropouts() {
  return {
      Row(
          "dropout", {in({3, 4})}, [](T x) { return x.dropout(.5); }, [](A x) { return x; })
          .exact(),
      Row(
          "sequential", {in({3, 4})},
          [](T x) {
            return Tensors{x.sequential({[](T v) { return v * 3; }, [](T v) { return v.relu(); }}),
                           x.sequential({})};
          },
          [](A x) { return Arrays{map(x, [](double v) { return std::max(3 * v, 0.0); }), x}; }),
      Row(
          "dropout: everything and nothing", {in({3, 4})},
          [](T x) {
            const KnobScope training(Knob::TRAINING, 1);
            return Tensors{x.dropout(0), x.dropout(1)};
          },
          [](A x) { return Arrays{x, map(x, [](double) { return 0; })}; })
          .exact(),
  };
}

}  // namespace

TABLE_TEST_CASE("softmax", softmaxes)
TABLE_TEST_CASE("normalizations", normalizations)
TABLE_TEST_CASE("attention", attentions)
TABLE_TEST_CASE("dropout outside of training", dropouts)
