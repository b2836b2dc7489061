// Products of matrices.
#include "ops/table.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

// The batches of x (…, m, k) and y (…, k, n) broadcast; one axis stands for a row on the left and a column on
// the right.
Array matmul(A x, A y) {
  const bool is_row = x.ndim() == 1, is_column = y.ndim() == 1;
  const Array a = is_row ? reshape(x, {1, x.shape[0]}) : x, b = is_column ? reshape(y, {y.shape[0], 1}) : y;
  const int64_t m = a.shape.end()[-2], k = a.shape.back(), n = b.shape.back();
  Index batch(static_cast<size_t>(std::max(a.ndim(), b.ndim()) - 2), 1);
  for (const Array* t : {&a, &b})
    for (int64_t i = 2; i < t->ndim(); i++) {
      int64_t& d = batch.end()[1 - i];
      d = std::max(d, t->shape.end()[-i - 1]);
    }
  const auto with = [&](int64_t rows, int64_t columns) {
    Index s = batch;
    s.insert(s.end(), {rows, columns});
    return s;
  };
  const Array left = broadcast(a, with(m, k)), right = broadcast(b, with(k, n));
  Array out = build(with(m, n), [&](I i) {
    double s = 0;
    Index l = i, r = i;
    for (int64_t j = 0; j < k; j++) {
      l.back() = j;
      r.end()[-2] = j;
      s += left(l) * right(r);
    }
    return s;
  });
  if (is_column) out.shape.pop_back();
  if (is_row) out.shape.erase(out.shape.end() - (is_column ? 1 : 2));
  return out;
}

Row product(const char* name, Index left, Index right) {
  return {name, {in(std::move(left)), in(std::move(right))}, [](T x, T y) { return x.dot(y); }, matmul};
}

// The sum of products over the letters that the output lacks; no ellipsis, the output is written.
Array einsum(const std::string& formula, const Arrays& operands) {
  const size_t arrow = formula.find("->");
  std::vector<std::string> terms(1);
  for (char c : formula.substr(0, arrow))
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  const std::string output = formula.substr(arrow + 2);
  std::map<char, int64_t> sizes;
  for (size_t t = 0; t < terms.size(); t++)
    for (size_t i = 0; i < terms[t].size(); i++) sizes[terms[t][i]] = operands[t].shape[i];
  std::string order = output;
  for (const auto& [letter, size] : sizes)
    if (output.find(letter) == std::string::npos) order += letter;
  Index whole, result;
  for (char c : order) whole.push_back(sizes[c]);
  for (char c : output) result.push_back(sizes[c]);
  Array out = build(result, [](I) { return 0; });
  for_each(whole, [&](I i) {
    double v = 1;
    for (size_t t = 0; t < terms.size(); t++) {
      Index at;
      for (char c : terms[t]) at.push_back(i[order.find(c)]);
      v *= operands[t](at);
    }
    int64_t position = 0;
    for (size_t k = 0; k < output.size(); k++) position = position * result[k] + i[k];
    out.data[static_cast<size_t>(position)] += v;
  });
  return out;
}
Row contraction(const char* name, std::string formula, std::vector<Input> inputs) {
  return {name, std::move(inputs), [=](const Tensors& x) { return Tensor::einsum(formula, x); },
          [=](const Arrays& x) { return einsum(formula, x); }};
}

Rows matrices() {
  return {
      product("dot", {4, 5}, {5, 3}).on(kFloats).everywhere(),
      product("dot: integers", {4, 5}, {5, 3}).on({DType::Int32, DType::Int8, DType::Int64}),
      product("dot: vectors", {7}, {7}),
      product("dot: a row and a matrix", {5}, {5, 3}),
      product("dot: a matrix and a column", {4, 5}, {5}),
      product("dot: one row", {1, 33}, {33, 17}).everywhere(),
      product("dot: one column", {17, 33}, {33, 1}),
      product("dot: an outer product", {6, 1}, {1, 7}),
      product("dot: batches", {3, 4, 5}, {3, 5, 2}).everywhere(),
      product("dot: broadcast batches", {2, 1, 4, 5}, {3, 5, 2}),
      product("dot: a batch and a matrix", {3, 4, 5}, {5, 2}),
      product("dot: a batch and a vector", {3, 4, 5}, {5}),
      product("dot: nothing to fold", {4, 0}, {0, 3}),
      product("dot: no rows", {0, 4}, {4, 3}),
      product("dot: primes", {13, 29}, {29, 11}),
      product("dot: tiles", {16, 32}, {32, 24}).everywhere().within(8),
      product("dot: more than a tile", {37, 70}, {70, 45}).within(64).no_gradient(kCheckedElsewhere),
      product("dot: long and narrow", {3, 300}, {300, 3}).within(32),
      Row(
          "dot: transposed operands", {in({5, 4}), in({3, 5})}, [](T x, T y) { return x.T().dot(y.T()); },
          [](A x, A y) { return matmul(permute(x, {1, 0}), permute(y, {1, 0})); }),
      Row(
          "dot: half and float", {in({4, 5}).of(DType::Float16), in({5, 3})},
          [](T x, T y) { return x.dot(y); }, matmul),
      // Products are exact, their sums are not in a narrow type.
      Row(
          "dot: accumulation in another dtype",
          {in({4, 33}).range(0, 15).integers(), in({33, 3}).range(0, 15).integers()},
          [](T x, T y) { return x.dot(y, DType::Float32); }, matmul)
          .on({DType::Float16, DType::BFloat16})
          .gives(DType::Float32),
      Row(
          "dot: then an activation", {in({4, 5}), in({5, 3}), in({3})},
          [](T x, T y, T b) { return (x.dot(y) + b).tanh(); },
          [](A x, A y, A b) {
            return map(matmul(x, y), b, [](double v, double c) { return std::tanh(v + c); });
          }),
      Row(
          "dot: of a product", {in({4, 5}), in({5, 3}), in({3, 4})},
          [](T x, T y, T z) { return x.dot(y).dot(z); },
          [](A x, A y, A z) { return matmul(matmul(x, y), z); })
          .within(16)
          .gradient_within(3e-5),
      product("matmul", {4, 5}, {5, 3}),
      Row(
          "linear", {in({4, 5}), in({5, 3}), in({3})}, [](T x, T w, T b) { return x.linear(w, b); },
          [](A x, A w, A b) { return map(matmul(x, w), b, [](double v, double c) { return v + c; }); })
          .on({DType::Float32, DType::Float16}),
      Row(
          "linear: one weight a column", {in({4, 5}), in({5})}, [](T x, T w) { return x.linear(w); },
          [](A x, A w) { return map(x, w, [](double v, double c) { return v * c; }); }),
      Row(
          "linear: in another dtype", {in({4, 5}), in({5, 3}), in({3})},
          [](T x, T w, T b) { return x.linear(w, b, DType::Float16); },
          [](A x, A w, A b) { return map(matmul(x, w), b, [](double v, double c) { return v + c; }); })
          .gives(DType::Float16)
          .no_gradient(kRounded),
  };
}

Rows contractions() {
  return {
      contraction("einsum", "ij,jk->ik", {in({4, 5}), in({5, 3})}),
      contraction("einsum: a transposed result", "ij,kj->ki", {in({4, 5}), in({3, 5})}),
      contraction("einsum: batches and heads", "bqhd,bkhd->bhqk", {in({2, 3, 2, 4}), in({2, 5, 2, 4})}),
      contraction("einsum: three factors", "i,ij,j->", {in({3}), in({3, 4}), in({4})}).within(16),
      contraction("einsum: an outer product", "i,j->ij", {in({3}), in({4})}),
      contraction("einsum: a diagonal", "ii->i", {in({4, 4})}),
      contraction("einsum: a trace", "ii->", {in({4, 4})}),
      contraction("einsum: a sum", "ij->j", {in({3, 4})}),
      Row(
          "einsum: implicit output", {in({3, 4}), in({4, 2})},
          [](const Tensors& x) { return Tensor::einsum("bc,ca", x); },
          [](const Arrays& x) { return einsum("bc,ca->ab", x); }),
      Row(
          "einsum: ellipsis", {in({2, 3, 4}), in({4, 5})},
          [](const Tensors& x) { return Tensor::einsum("...ij,jk->...ik", x); },
          [](const Arrays& x) { return einsum("zij,jk->zik", x); }),
  };
}

}  // namespace

TABLE_TEST_CASE("products of matrices", matrices)
TABLE_TEST_CASE("contractions", contractions)
