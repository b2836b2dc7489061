// Factorisations of matrices (…, m, n), as chains of products that are differentiable step by step.
#include "tensor/promote.h"
#include "tensor/tensor.h"

#include <algorithm>

namespace lathe {
namespace {

void require_matrix(const char* name, const Tensor& x) {
  if (x.ndim() < 2) value_error("{} expects at least 2 axes, got shape {}", name, x.shape());
}

Tensor transposed(const Tensor& x) { return x.transpose(-2, -1); }

// The last axis split into the first n columns and the rest.
Tensor first_columns(const Tensor& x, int64_t n) { return x.at(ellipsis, Slice{0, n}); }
Tensor other_columns(const Tensor& x, int64_t n) { return x.at(ellipsis, Slice{n, none}); }

// Identity matrices, one for each matrix of `x`.
Tensor identities(const Tensor& x, int64_t n) {
  Shape to(x.shape().begin(), x.shape().end() - 2);
  to.push_back(SInt(n));
  to.push_back(SInt(n));
  return Tensor::eye(n, n, {x.dtype()}).expand(to);
}

// The root with gradient 0 at 0.
Tensor safe_sqrt(const Tensor& x) {
  const Tensor is_zero = x.eq(0);
  return is_zero.where(0, is_zero.where(1, x).sqrt());
}

// One round of one-sided Jacobi rotations, which make columns of the first `rows` rows of x orthogonal in
// pairs: the first with the last, the second with the last but one, …. Then all columns but the first move on
// by one, so that every column meets every other within a cycle of rounds. (Brent and Luk, The solution of
// singular-value and symmetric eigenvalue problems on multiprocessor arrays.)
Tensor rotate_pairs(const Tensor& x, int64_t rows) {
  const int64_t half = x.size(-1).value() / 2;
  const Tensor a = first_columns(x, half), b = other_columns(x, half).flip(-1);
  const auto product = [&](const Tensor& u, const Tensor& v) {
    return u.mul(v).at(ellipsis, Slice{0, rows}, Slice{}).sum(-2, true);
  };
  // The smaller root of t^2 + t (|b|^2 - |a|^2) / (a b) = 1, without dividing by a b, which tends to 0.
  const Tensor twice = product(a, b).mul(2), difference = product(b, b).sub(product(a, a));
  const Tensor root = safe_sqrt(difference.square().add(twice.square()));
  const Tensor size = twice.div(difference.abs().add(root).add(root.eq(0)));
  const Tensor tangent = difference.lt(0).where(size.neg(), size).contiguous();
  const Tensor cosine = tangent.square().add(1).rsqrt(), sine = cosine.mul(tangent);
  const Tensor turned =
      Tensor::cat({cosine.mul(a).sub(sine.mul(b)), sine.mul(a).add(cosine.mul(b)).flip(-1)}, -1);
  return Tensor::cat({first_columns(turned, 1), other_columns(turned, 1).roll(1, Ints(-1))}, -1).contiguous();
}

}  // namespace

QR Tensor::qr() const {
  require_matrix("qr", *this);
  if (device().empty()) return clone().qr();
  const int64_t m = size(-2).value(), n = size(-1).value();
  Tensor r = is_float(dtype()) ? *this : cast(default_float()), q = identities(r, m);
  const Tensor row = arange(m).unsqueeze(-1);
  for (int64_t i = 0; i < std::min(m, n); i++) {
    // A reflection 1 - tau w w^T takes column i from the diagonal on to one element (Householder).
    const Tensor x = row.ge(i).where(r.at(ellipsis, Slice{i, i + 1}), 0);
    const Tensor norm = safe_sqrt(x.square().sum(-2, true)), is_zero = norm.eq(0);
    const Tensor top = x.at(ellipsis, Slice{i, i + 1}, Slice{}), sign = top.lt(0).where(1, -1);
    const Tensor pivot = top.sub(sign.mul(norm)).add(is_zero);
    const Tensor w = row.eq(i).where(1, x.div(pivot)).contiguous();
    const Tensor tau = sign.neg().mul(pivot).div(norm.add(is_zero)).mul(is_zero.logical_not());
    const Tensor scaled = w.mul(tau).contiguous();
    r = r.sub(scaled.matmul(transposed(w).matmul(r))).contiguous();
    q = q.sub(q.matmul(w).matmul(transposed(scaled))).contiguous();
  }
  return {q, r.triu()};
}

SVD Tensor::svd(bool full_matrices) const {
  require_matrix("svd", *this);
  const int64_t m = size(-2).value(), n = size(-1).value();
  if (m < n) {
    const SVD t = transposed(*this).svd(full_matrices);
    return {transposed(t.vt), t.s, transposed(t.u)};
  }
  const auto [q, r] = qr();
  const Tensor square = r.at(ellipsis, Slice{0, n}, Slice{});
  // What is done to the columns of R is done to those of the identity below, which become V. Pairs need an
  // even number: a column of zeros.
  Tensor x = cat({square, identities(square, n)}, -2).pad({0, n % 2});
  for (int64_t round = 0; n > 1 && round < 4 * n; round++) x = rotate_pairs(x, n);
  const Tensor top = x.at(ellipsis, Slice{0, n}, Slice{}), bottom = x.at(ellipsis, Slice{n, none}, Slice{});
  const Tensor norms = safe_sqrt(top.square().sum(-2));
  const Tensor is_column = bottom.square().sum(-2).gt(0.5);
  const Tensor order = first_columns(is_column.where(norms, -1).argsort(-1, true), n);
  const Tensor columns = order.unsqueeze(-2).expand(square.shape());
  const Tensor s = norms.gather(-1, order), scale = s.eq(0).where(1, s).unsqueeze(-2);
  const Tensor u = first_columns(q, n).matmul(top.gather(-1, columns).div(scale));
  const Tensor vt = transposed(bottom.gather(-1, columns));
  return {full_matrices && m > n ? cat({u, other_columns(q, n)}, -1) : u, s, vt};
}

Tensor Tensor::newton_schulz(int64_t steps, const std::vector<double>& params, double eps) const {
  require_matrix("newton_schulz", *this);
  if (params.empty()) value_error("newton_schulz needs at least one parameter");
  const bool is_tall = size(-1).vmax() < size(-2).vmax();
  Tensor x = div(square().sum({-2, -1}, true).sqrt().add(eps));
  if (is_tall) x = transposed(x);
  for (int64_t step = 0; step < steps; step++) {
    const Tensor gram = x.matmul(transposed(x));
    Tensor power = x, sum = x.mul(params[0]);
    for (size_t i = 1; i < params.size(); i++) {
      power = gram.matmul(power);
      sum = sum.add(power.mul(params[i]));
    }
    x = sum;
  }
  return is_tall ? transposed(x) : x;
}

}  // namespace lathe
