// Factorisations of matrices.
#include "ops/table.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

Array product(A a, A b) {
  return build({a.shape[0], b.shape[1]}, [&](I i) {
    double s = 0;
    for (int64_t k = 0; k < b.shape[0]; k++) s += a.at(i[0], k) * b.at(k, i[1]);
    return s;
  });
}
Array identity(int64_t n) {
  return build({n, n}, [](I i) { return i[0] == i[1]; });
}
Array transposed(A a) { return permute(a, {1, 0}); }

// Q and R by mirrors as whole matrices.
Arrays factors(A x) {
  const int64_t m = x.shape[0], n = x.shape[1];
  Array r = x, q = identity(m);
  for (int64_t k = 0; k < std::min(m, n); k++) {
    double squares = 0;
    for (int64_t i = k; i < m; i++) squares += r.at(i, k) * r.at(i, k);
    if (squares == 0) continue;
    // The mirror that takes the column to (-sign(x) |x|, 0, …).
    Values v(static_cast<size_t>(m), 0);
    for (int64_t i = k; i < m; i++) v[static_cast<size_t>(i)] = r.at(i, k);
    v[static_cast<size_t>(k)] += (r.at(k, k) < 0 ? -1 : 1) * std::sqrt(squares);
    double length = 0;
    for (double e : v) length += e * e;
    const Array mirror = build({m, m}, [&](I i) {
      return (i[0] == i[1]) - 2 * v[static_cast<size_t>(i[0])] * v[static_cast<size_t>(i[1])] / length;
    });
    r = product(mirror, r);
    q = product(q, mirror);
  }
  return {q, build(r.shape, [&](I i) { return i[0] > i[1] ? 0 : r(i); })};
}

// Eigenvalues of a symmetric matrix by Jacobi's method, descending.
Values eigenvalues(Array a) {
  const int64_t n = a.shape[0];
  for (int sweep = 0; sweep < 30; sweep++)
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        if (a.at(p, q) == 0) continue;
        const double angle = .5 * std::atan2(2 * a.at(p, q), a.at(q, q) - a.at(p, p));
        Array turn = identity(n);
        const auto set = [&](int64_t i, int64_t j, double v) {
          turn.data[static_cast<size_t>(i * n + j)] = v;
        };
        set(p, p, std::cos(angle));
        set(q, q, std::cos(angle));
        set(p, q, std::sin(angle));
        set(q, p, -std::sin(angle));
        a = product(product(transposed(turn), a), turn);
      }
  Values out;
  for (int64_t i = 0; i < n; i++) out.push_back(a.at(i, i));
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}
Array singular_values(A x) {
  const bool wide = x.shape[0] < x.shape[1];
  Values s = eigenvalues(wide ? product(x, transposed(x)) : product(transposed(x), x));
  for (double& v : s) v = std::sqrt(std::max(v, 0.0));
  return {{static_cast<int64_t>(s.size())}, s};
}

Tensor swapped(T x) { return x.transpose(-2, -1); }

Row qr(const char* name, Index shape) {
  return Row(
             name, {in(std::move(shape))},
             [](T x) {
               const auto [q, r] = x.qr();
               return Tensors{q, r, q.matmul(r), swapped(q).matmul(q)};
             },
             [](A x) {
               const Arrays f = factors(x);
               return Arrays{f[0], f[1], x, identity(x.shape[0])};
             })
      .within(64)
      .gradient_within(1e-4);
}

// The singular values, the matrix again, and orthogonal factors.
Row svd(const char* name, Index shape, bool full) {
  return Row(
             name, {in(shape)},
             [=](T x) {
               const auto [u, s, vt] = x.svd(full);
               const Tensor left = u.at(Slice{}, Slice{0, s.size(0)}), right = vt.at(Slice{0, s.size(0)});
               return Tensors{s, left.mul(s).matmul(right), swapped(u).matmul(u), vt.matmul(swapped(vt))};
             },
             [=](A x) {
               const int64_t k = std::min(shape[0], shape[1]);
               return Arrays{singular_values(x), x, identity(full ? shape[0] : k),
                             identity(full ? shape[1] : k)};
             })
      .within(256)
      .gradient_within(1e-3);
}

Array iterated(A x, int steps, const Values& p) {
  double squares = 0;
  for (double v : x.data) squares += v * v;
  Array y = map(x, [&](double v) { return v / (std::sqrt(squares) + 1e-7); });
  for (int step = 0; step < steps; step++) {
    const Array gram = product(y, transposed(y));
    Array power = y, sum = map(y, [&](double v) { return p[0] * v; });
    for (size_t i = 1; i < p.size(); i++) {
      power = product(gram, power);
      sum = map(sum, power, [&](double a, double b) { return a + p[i] * b; });
    }
    y = sum;
  }
  return y;
}

Rows factorisations() {
  const Values p = {3.4445, -4.775, 2.0315};
  return {
      qr("qr", {3, 3}).on({DType::Float32, DType::Float64}).everywhere(),
      qr("qr: tall", {4, 2}),
      qr("qr: wide", {2, 4}),
      Row(
          "qr: of a matrix without rank", {given({2, 2}, {0, 0, 0, 0})},
          [](T x) {
            const auto [q, r] = x.qr();
            return Tensors{q, r};
          },
          [](A) { return Arrays{identity(2), {{2, 2}, {0, 0, 0, 0}}}; })
          .no_gradient(kNotSmooth),
      Row(
          "qr: several matrices", {in({2, 3, 2})},
          [](T x) {
            const auto [q, r] = x.qr();
            return q.matmul(r);
          },
          [](A x) { return x; })
          .within(16)
          .gradient_within(1e-4),
      svd("svd", {3, 3}, true),
      svd("svd: tall", {4, 2}, true).no_gradient(kCheckedElsewhere),
      svd("svd: tall, few columns", {5, 3}, false).no_gradient(kCheckedElsewhere),
      svd("svd: wide", {2, 3}, true).no_gradient(kCheckedElsewhere),
      svd("svd: one column", {3, 1}, false).no_gradient(kCheckedElsewhere),
      svd("svd: larger", {7, 6}, false).on({DType::Float32}).no_gradient(kCheckedElsewhere),
      Row(
          "svd: several matrices without rank", {given({2, 2, 2}, {3, 0, 0, 0, 1, 1, 1, 1})},
          [](T x) { return x.svd().s; }, [](A) { return Array({2, 2}, {3, 0, 2, 0}); })
          .no_gradient(kNotSmooth),
      Row(
          "newton_schulz", {in({3, 2})}, [=](T x) { return x.newton_schulz(2, p); },
          [=](A x) { return transposed(iterated(transposed(x), 2, p)); })
          .within(64)
          .gradient_within(1e-4),
      Row(
          "newton_schulz: wide", {in({2, 4})}, [=](T x) { return x.newton_schulz(5, p); },
          [=](A x) { return iterated(x, 5, p); })
          .within(256)
          .no_gradient(kCheckedElsewhere),
  };
}

}  // namespace

TABLE_TEST_CASE("factorisations", factorisations)
