// Resampling, and pooling that can be undone.
#include "ops/table.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

using enum Result::Kind;

// Element i of `to` elements made of a line.
double sampled(const Values& v, int64_t i, int64_t to, Interpolation mode, bool align_corners) {
  const auto n = static_cast<double>(v.size()), scale = n / static_cast<double>(to);
  const auto k = static_cast<double>(i);
  const auto at = [&](double p) { return v[static_cast<size_t>(std::clamp(p, 0.0, n - 1))]; };
  // A little more, for quotients that are whole.
  if (mode == Interpolation::Nearest) return at(std::floor(k * scale + 1e-9));
  if (mode == Interpolation::NearestExact) return at(std::floor((k + .5) * scale + 1e-9));
  double p = (k + .5) * scale - .5;
  if (align_corners) p = to == 1 ? 0 : k * (n - 1) / static_cast<double>(to - 1);
  p = std::clamp(p, 0.0, n - 1);
  const double low = std::floor(p);
  return at(low) + (at(low + 1) - at(low)) * (p - low);
}

Array resampled(A x, const Index& size, Interpolation mode, bool align_corners) {
  Array out = x;
  for (size_t k = 0; k < size.size(); k++) {
    const size_t axis = x.shape.size() - size.size() + k;
    const Array from = out;
    Index shape = from.shape;
    shape[axis] = size[k];
    out = build(shape, [&](I i) {
      Values line;
      Index at = i;
      for (at[axis] = 0; at[axis] < from.shape[axis]; at[axis]++) line.push_back(from(at));
      return sampled(line, i[axis], size[k], mode, align_corners);
    });
  }
  return out;
}

Row interpolate(const char* name, Index shape, Index size, Interpolation mode, bool align_corners = false) {
  return Row(
             name, {in(std::move(shape))},
             [=](T x) { return x.interpolate(Ints(size), mode, align_corners); },
             [=](A x) { return resampled(x, size, mode, align_corners); })
      .within(mode == Interpolation::Linear ? 8 : 0);
}

Rows resamplings() {
  using enum Interpolation;
  return {
      interpolate("interpolate", {2, 3}, {5}, Linear).on({DType::Float32, DType::Float64}).everywhere(),
      interpolate("interpolate: smaller", {2, 9}, {4}, Linear),
      interpolate("interpolate: two axes", {1, 2, 3, 4}, {5, 2}, Linear),
      interpolate("interpolate: three axes", {2, 3, 2}, {2, 5, 3}, Linear),
      interpolate("interpolate: corners", {2, 4}, {7}, Linear, true),
      interpolate("interpolate: corners, to one element", {2, 4}, {1}, Linear, true),
      interpolate("interpolate: one element", {2, 1}, {3}, Linear),
      interpolate("interpolate: nearest", {2, 3}, {7}, Nearest)
          .on({DType::Float32, DType::Int32, DType::Bool}),
      interpolate("interpolate: nearest, smaller", {7, 5}, {3, 4}, Nearest),
      interpolate("interpolate: nearest, where binary fractions round", {49}, {147}, Nearest)
          .no_gradient(kCheckedElsewhere),
      interpolate("interpolate: nearest centre", {2, 3}, {7}, NearestExact),
      interpolate("interpolate: nearest centre, smaller", {8, 5}, {3, 2}, NearestExact),
      Row(
          "interpolate: bytes", {given({3}, {0, 100, 250})}, [](T x) { return x.interpolate(6); },
          // Weights in 1/128: 0, 32 (a quarter), 96 (three quarters), 32, 96, 0.
          [](A) { return Array({6}, {0, 25, 75, 138, 213, 250}); })
          .on({DType::UInt8}),
      Row(
          "interpolate: integers", {given({3}, {0, 100, 250})}, [](T x) { return x.interpolate(6); },
          [](A) { return Array({6}, {0, 25, 75, 137, 212, 250}); })
          .on({DType::Int32, DType::Int16}),
  };
}

// Largest element of each window of two spatial axes and where it is, first of several.
Arrays largest(A x, int64_t kernel, int64_t stride, int64_t padding, int64_t windows) {
  const size_t lead = x.shape.size() - 2;
  const int64_t rows = x.shape[lead], columns = x.shape[lead + 1];
  Index shape = x.shape;
  shape[lead] = shape[lead + 1] = windows;
  Arrays out(2);
  for (Array& a : out) a.shape = shape;
  for_each(shape, [&](I i) {
    double best = -INFINITY, position = 0;
    for (int64_t k = 0; k < kernel * kernel; k++) {
      Index at = i;
      at[lead] = i[lead] * stride + k / kernel - padding;
      at[lead + 1] = i[lead + 1] * stride + k % kernel - padding;
      if (at[lead] < 0 || at[lead] >= rows || at[lead + 1] < 0 || at[lead + 1] >= columns) continue;
      if (x(at) > best) {
        best = x(at);
        position = static_cast<double>(at[lead] * columns + at[lead + 1]);
      }
    }
    out[0].data.push_back(best);
    out[1].data.push_back(position);
  });
  return out;
}

Array unpooled(A x, A indices, int64_t rows, int64_t columns) {
  Index shape = x.shape;
  const size_t lead = shape.size() - 2;
  shape[lead] = rows;
  shape[lead + 1] = columns;
  Array out = build(shape, [](I) { return 0; });
  const int64_t block = x.shape[lead] * x.shape[lead + 1];
  for (int64_t k = 0; k < x.size(); k++) {
    const auto at = static_cast<size_t>(k);
    out.data[static_cast<size_t>(k / block * rows * columns + static_cast<int64_t>(indices.data[at]))] +=
        x.data[at];
  }
  return out;
}

Rows undone_pools() {
  return {
      Row(
          "max_pool2d_with_indices", {in({2, 3, 6, 6})}, [](T x) { return x.max_pool2d_with_indices(); },
          [](A x) { return largest(x, 2, 2, 0, 3); })
          .exact()
          .on({DType::Float32, DType::Float16, DType::UInt8})
          .gives({Same, DType::Int32}),
      Row(
          "max_pool2d_with_indices: overlapping, padded", {in({2, 5, 5})},
          [](T x) { return x.max_pool2d_with_indices({3, 3}, {.stride = 2, .padding = 1}); },
          [](A x) { return largest(x, 3, 2, 1, 3); })
          .exact()
          .gives({Same, DType::Int32})
          .everywhere(),
      Row(
          "max_pool2d_with_indices: ceiling, the first of several", {in({1, 6, 6}).range(0, 2).integers()},
          [](T x) { return x.max_pool2d_with_indices({3, 3}, {.stride = 2, .ceil_mode = true}); },
          [](A x) { return largest(x, 3, 2, 0, 3); })
          .exact()
          .gives({Same, DType::Int32})
          .no_gradient(kNotSmooth),
      Row(
          "pool: the last positive position of each window", {in({2, 5, 5})},
          [](T x) {
            const auto windows = [](T t) {
              return t.pad({1, 1, 1, 1}, PadMode::Constant, -1).pool({3, 3}, 2);
            };
            const Tensor position = windows(Tensor::arange(25).reshape({5, 5}));
            return windows(x).gt(0).where(position, -1).max({-2, -1});
          },
          [](A x) {
            return build({2, 3, 3}, [&](I i) {
              double last = -1;
              for (int64_t k = 0; k < 9; k++) {
                const int64_t row = 2 * i[1] + k / 3 - 1, column = 2 * i[2] + k % 3 - 1;
                if (row < 0 || row > 4 || column < 0 || column > 4 || x.at(i[0], row, column) <= 0) continue;
                last = std::max(last, static_cast<double>(5 * row + column));
              }
              return last;
            });
          })
          .gives(DType::Int32),
      Row(
          "max_unpool2d", {in({2, 1, 4, 4})},
          [](T x) {
            const ValuesAndIndices p = x.max_pool2d_with_indices();
            return p.values.max_unpool2d(p.indices);
          },
          [](A x) {
            const Arrays p = largest(x, 2, 2, 0, 2);
            return unpooled(p[0], p[1], 4, 4);
          })
          .exact()
          .on({DType::Float32, DType::Int32}),
      Row(
          "max_unpool2d: several at one position, a size of its own", {in({2, 3, 3}), ints({2, 3, 3}, 0, 29)},
          [](T x, T i) { return x.max_unpool2d(i, {2, 2}, {.stride = 1}, Ints{5, 6}); },
          [](A x, A i) { return unpooled(x, i, 5, 6); }),
      Row(
          "max_unpool2d: padding", {in({1, 3, 3}), ints({1, 3, 3}, 0, 24)},
          [](T x, T i) { return x.max_unpool2d(i, {3, 3}, {.stride = 2, .padding = 1}); },
          [](A x, A i) { return unpooled(x, i, 5, 5); }),
  };
}

}  // namespace

TABLE_TEST_CASE("resamplings", resamplings)
TABLE_TEST_CASE("pools and their inverse", undone_pools)
