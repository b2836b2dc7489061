// Sorting and the largest elements.
#include "ops/table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

using enum Result::Kind;

// Positions of a line in order; NaN is above all numbers, equal elements stay in order.
std::vector<size_t> order(const Values& v, bool descending) {
  std::vector<size_t> out(v.size());
  std::iota(out.begin(), out.end(), size_t{0});
  const auto above = [&](size_t a, size_t b) {
    return std::isnan(v[a]) ? !std::isnan(v[b]) : !std::isnan(v[b]) && v[a] > v[b];
  };
  std::sort(out.begin(), out.end(), [&](size_t a, size_t b) {
    if (above(a, b) || above(b, a)) return descending ? above(a, b) : above(b, a);
    return a < b;
  });
  return out;
}

// The first k of every line along an axis, in order, and their positions.
Arrays sorted(A x, int axis, bool descending, int64_t k) {
  const auto lines = [&](auto f) {
    return along(x, axis, [&](const Values& v) {
      Values out;
      for (size_t i : order(v, descending)) out.push_back(f(v, i));
      return out;
    });
  };
  Index kept = x.shape;
  if (!kept.empty()) kept[static_cast<size_t>(axis)] = k;
  Arrays out{lines([](const Values& v, size_t i) { return v[i]; }),
             lines([](const Values&, size_t i) { return static_cast<double>(i); })};
  for (Array& a : out) a = build(kept, [&](I i) { return a(i); });
  return out;
}

Row sort(const char* name, Input x, int axis, bool descending) {
  const int64_t n = x.shape.empty() ? 1 : x.shape[static_cast<size_t>(axis)];
  return Row(
             name, {std::move(x)}, [=](T x) { return x.sort(axis, descending); },
             [=](A x) { return sorted(x, axis, descending, n); })
      .exact()
      .gives({Same, DType::Int32});
}
Row topk(const char* name, Input x, int64_t k, int axis, bool largest) {
  return Row(
             name, {std::move(x)}, [=](T x) { return x.topk(k, axis, largest); },
             [=](A x) { return sorted(x, axis, largest, k); })
      .exact()
      .gives({Same, DType::Int32});
}

Rows sorts() {
  const Input strange = given({9}, {0., NAN, -INFINITY, -0., 1., -NAN, INFINITY, -1., 0.});
  // Words of 64 bits that differ in the high half, in the low half, or not at all.
  const double big = 0x1p62;
  const Input wide = given({8}, {big, 5, -big, 0x1p32 + 5, 5, 0x1p33 - 1, -3, big});
  return {
      sort("sort", in({3, 7}), 1, false).on(kNumbers).everywhere(),
      sort("sort: descending", in({3, 7}), 1, true).on(kNumbers),
      sort("sort: first axis", in({5, 2, 3}), 0, false).everywhere(),
      sort("sort: equal elements", in({4, 12}).range(0, 3).integers(), 1, false)
          .on({DType::Float32, DType::UInt8, DType::Bool})
          .no_gradient(kNotSmooth),
      sort("sort: equal elements, descending", in({4, 12}).range(0, 3).integers(), 1, true)
          .on({DType::Int16, DType::UInt32})
          .no_gradient(kNotSmooth),
      sort("sort: NaN, infinities and both zeros", strange, 0, false).on(kFloats).no_gradient(kNotFinite),
      sort("sort: NaN, infinities and both zeros, descending", strange, 0, true).no_gradient(kNotFinite),
      sort("sort: the ends of the range", given({5}, {-0x1p31, 0x1p31 - 1, 0, 0x1p31 - 1, -0x1p31}), 0, false)
          .on({DType::Int32, DType::Int64}),
      sort("sort: 64 bits", wide, 0, false).on({DType::Int64, DType::Float64}).no_gradient(kNotSmooth),
      sort("sort: 64 bits, descending", wide, 0, true).on({DType::Int64}),
      sort("sort: 64 bits without a sign", given({4}, {0x1p63, 5, 0x1p63 + 0x1p40, 0x1p32}), 0, false)
          .on({DType::UInt64}),
      sort("sort: merged runs", in({2, 300}).range(-99, 99).integers(), 1, false).no_gradient(kNotSmooth),
      sort("sort: a scalar", in({}), 0, false),
      sort("sort: one element", in({3, 1}), 1, true),
      sort("sort: nothing", in({2, 0}), 1, false),
      sort("sort: no lines", in({0, 3}), 1, false),
      Row(
          "argsort", {in({2, 9}).range(0, 4).integers()},
          [](T x) { return Tensors{x.argsort(), x.argsort(0, true)}; },
          [](A x) { return Arrays{sorted(x, 1, false, 9)[1], sorted(x, 0, true, 2)[1]}; })
          .on({DType::Float32, DType::Int8})
          .gives(DType::Int32),
      Row(
          "sort: a sequence without memory", {}, [] { return Tensor::arange(5, 0, -1).sort(); },
          [] { return Arrays{{{5}, {1, 2, 3, 4, 5}}, {{5}, {4, 3, 2, 1, 0}}}; })
          .gives(DType::Int32),
  };
}

Rows tops() {
  return {
      topk("topk", in({3, 7}), 3, 1, true).on(kNumbers).everywhere(),
      topk("topk: smallest, first axis", in({6, 4}), 2, 0, false),
      topk("topk: of equal elements the first", in({2, 20}).range(0, 3).integers(), 5, 1, true)
          .no_gradient(kNotSmooth),
      topk("topk: few of many", in({1000}).range(-99, 99).integers(), 5, 0, true).no_gradient(kNotSmooth),
      topk("topk: more than a run", in({700}).range(-99, 99).integers(), 200, 0, false)
          .no_gradient(kNotSmooth),
      topk("topk: none", in({2, 4}), 0, 1, true),
  };
}

}  // namespace

TABLE_TEST_CASE("sorts", sorts)
TABLE_TEST_CASE("the first in order", tops)
