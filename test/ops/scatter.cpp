// Elements placed and folded by position, and picked by masks.
#include "ops/table.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

using Kind = ScatterReduction;

double folded(const Values& v, Kind kind) {
  double out = kind == Kind::Prod ? 1 : kind == Kind::Max ? -INFINITY : kind == Kind::Min ? INFINITY : 0;
  for (double x : v) {
    if (kind == Kind::Prod)
      out *= x;
    else if (kind == Kind::Max)
      out = std::max(out, x);
    else if (kind == Kind::Min)
      out = std::min(out, x);
    else
      out += x;
  }
  return kind == Kind::Mean ? out / static_cast<double>(v.size()) : out;
}

// `source` at the positions of `index` along an axis, folded with what is in x or without it.
Array scattered(A x, int axis, A index, const std::function<double(I)>& source, Kind kind,
                bool include_self) {
  return build(x.shape, [&](I i) {
    Values arrived;
    if (include_self) arrived.push_back(x(i));
    Index at = i;
    for (int64_t k = 0; k < index.shape[static_cast<size_t>(axis)]; k++) {
      at[static_cast<size_t>(axis)] = k;
      bool inside = true;
      for (size_t d = 0; d < at.size(); d++) inside = inside && at[d] < index.shape[d];
      if (inside && index(at) == static_cast<double>(i[static_cast<size_t>(axis)]))
        arrived.push_back(source(at));
    }
    return arrived.empty() ? x(i) : folded(arrived, kind);
  });
}

Row scatter_reduce(const char* name, Kind kind, bool include_self) {
  return Row(
             name, {in({3, 4}).range(.5, 2), ints({3, 6}, 0, 3), in({3, 7}).range(.5, 2)},
             [=](T x, T i, T s) { return x.scatter_reduce(1, i, s, kind, include_self); },
             [=](A x, A i, A s) { return scattered(x, 1, i, s, kind, include_self); })
      .within(8);
}

Rows reductions() {
  return {
      scatter_reduce("scatter_reduce", Kind::Sum, true).on(kFloats).everywhere(),
      scatter_reduce("scatter_reduce: without what is there", Kind::Sum, false),
      scatter_reduce("scatter_reduce: product", Kind::Prod, true),
      scatter_reduce("scatter_reduce: product without what is there", Kind::Prod, false),
      scatter_reduce("scatter_reduce: mean", Kind::Mean, true).on({DType::Float32, DType::Float16}),
      scatter_reduce("scatter_reduce: mean without what is there", Kind::Mean, false),
      scatter_reduce("scatter_reduce: largest", Kind::Max, true).exact(),
      scatter_reduce("scatter_reduce: largest without what is there", Kind::Max, false).exact(),
      scatter_reduce("scatter_reduce: smallest", Kind::Min, true).exact(),
      scatter_reduce("scatter_reduce: smallest without what is there", Kind::Min, false).exact(),
      Row(
          "scatter_reduce: integers", {in({4}).range(0, 9), ints({6}, 0, 2), in({6}).range(0, 9)},
          [](T x, T i, T s) {
            Tensors out;
            for (Kind k : {Kind::Sum, Kind::Prod, Kind::Max, Kind::Min, Kind::Mean})
              out.push_back(x.scatter_reduce(0, i, s, k));
            return out;
          },
          [](A x, A i, A s) {
            Arrays out;
            for (Kind k : {Kind::Sum, Kind::Prod, Kind::Max, Kind::Min, Kind::Mean})
              out.push_back(map(scattered(x, 0, i, s, k, true), [](double v) { return std::floor(v); }));
            return out;
          })
          .on({DType::Int32, DType::UInt8, DType::Int64}),
      Row(
          "scatter_reduce: first axis, outside of the range", {in({2, 3}), ints({5, 2}, -2, 3), in({5, 3})},
          [](T x, T i, T s) { return x.scatter_reduce(0, i, s, Kind::Sum); },
          [](A x, A i, A s) { return scattered(x, 0, i, s, Kind::Sum, true); })
          .within(8),
      Row(
          "scatter: numbers that add up and multiply", {in({3, 4}), ints({2, 5}, 0, 3)},
          [](T x, T i) { return Tensors{x.scatter(-1, i, 3, Kind::Sum), x.scatter(-1, i, -2, Kind::Prod)}; },
          [](A x, A i) {
            return Arrays{scattered(
                              x, 1, i, [](I) { return 3; }, Kind::Sum, true),
                          scattered(x, 1, i, [](I) { return -2; }, Kind::Prod, true)};
          })
          .on({DType::Float32, DType::Int16}),
      Row(
          "scatter: a number", {in({3, 4}), ints({2, 2}, 0, 3)}, [](T x, T i) { return x.scatter(1, i, 9); },
          [](A x, A i) { return scattered(x, 1, i, [](I) { return 9; }, Kind::Max, false); })
          .exact(),
      Row(
          "gather: a scalar", {in({}), given({}, {0}).of(DType::Int32)},
          [](T x, T i) { return x.gather(0, i); }, [](A x, A) { return x; })
          .exact(),
  };
}

Array selected(A x, A mask, int64_t size = -1, double fill = 0) {
  Values out;
  const Array wide = broadcast(mask, x.shape);
  for (size_t i = 0; i < x.data.size(); i++)
    if (wide.data[i] != 0) out.push_back(x.data[i]);
  if (size >= 0) out.resize(static_cast<size_t>(size), fill);
  const auto n = static_cast<int64_t>(out.size());
  return {{n}, std::move(out)};
}
Array positions(A x, int64_t size = -1, double fill = 0) {
  Values out;
  int64_t n = 0;
  for_each(x.shape, [&](I i) {
    if (x(i) == 0) return;
    n++;
    for (int64_t p : i) out.push_back(static_cast<double>(p));
  });
  if (size >= 0) {
    n = size;
    out.resize(static_cast<size_t>(size * x.ndim()), fill);
  }
  return {{n, x.ndim()}, std::move(out)};
}

Rows masks() {
  const Input few = given({3, 4}, {0, 2, 0, 0, -1, 0, 0, 3, 0, 0, 0, 4});
  return {
      Row(
          "masked_select", {in({3, 5}), bools({3, 5})}, [](T x, T m) { return x.masked_select(m); },
          [](A x, A m) { return selected(x, m); })
          .exact()
          .everywhere()
          .on({DType::Float32, DType::Int64, DType::Bool}),
      Row(
          "masked_select: a row as the mask", {in({3, 5}), bools({5})},
          [](T x, T m) { return x.masked_select(m); }, [](A x, A m) { return selected(x, m); })
          .exact(),
      Row(
          "masked_select: of known length", {in({3, 5}), bools({3, 5})},
          [](T x, T m) { return Tensors{x.masked_select(m, 3), x.masked_select(m, 20, -7)}; },
          [](A x, A m) { return Arrays{selected(x, m, 3), selected(x, m, 20, -7)}; })
          .exact()
          .on({DType::Float32, DType::Int8}),
      Row(
          "masked_select: all, none, of nothing", {in({4})},
          [](T x) {
            return Tensors{x.masked_select(x.eq(x)), x.masked_select(x.ne(x)),
                           Tensor::zeros({0, 2}).masked_select(Tensor(true), 2, 5)};
          },
          [](A x) { return Arrays{x, {{0}, {}}, {{2}, {5, 5}}}; })
          .exact(),
      Row(
          "masked_select: more than a block", {in({900}).range(-9, 9).integers()},
          [](T x) { return x.masked_select(x.gt(4)); },
          [](A x) { return selected(x, map(x, [](double v) { return v > 4; })); })
          .exact()
          .no_gradient(kNotSmooth),
      Row(
          "nonzero", {few}, [](T x) { return x.nonzero(); }, [](A x) { return positions(x); })
          .gives(DType::Int32)
          .on({DType::Float32, DType::Int8, DType::Bool}),
      Row(
          "nonzero: of known length", {few}, [](T x) { return Tensors{x.nonzero(2), x.nonzero(7, -1)}; },
          [](A x) { return Arrays{positions(x, 2), positions(x, 7, -1)}; })
          .gives(DType::Int32),
      Row(
          "nonzero: scalars and nothing", {given({}, {3})},
          [](T x) { return Tensors{x.nonzero(), (x * 0).nonzero(), Tensor::zeros({0, 3}).nonzero()}; },
          [](A) { return Arrays{{{1, 0}, {}}, {{0, 0}, {}}, {{0, 2}, {}}}; })
          .gives(DType::Int32),
  };
}

}  // namespace

TABLE_TEST_CASE("scatters that fold", reductions)
TABLE_TEST_CASE("masks", masks)
