// Convolutions and pooling, over one, two and three spatial axes.
#include "ops/table.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

// One number an axis; padding before and after.
struct Geometry {
  Index stride, dilation, before, after;
  int64_t groups = 1;
};
Geometry plain(size_t n, int64_t stride = 1, int64_t padding = 0, int64_t dilation = 1, int64_t groups = 1) {
  return {Index(n, stride), Index(n, dilation), Index(n, padding), Index(n, padding), groups};
}

int64_t windows(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t padding) {
  return (size + padding - dilation * (kernel - 1) - 1) / stride + 1;
}

Array convolution(A x, A w, const Geometry& g) {
  const size_t n = x.shape.size() - 2;
  Index shape{x.shape[0], w.shape[0]}, kernel(w.shape.begin() + 2, w.shape.end());
  for (size_t a = 0; a < n; a++)
    shape.push_back(windows(x.shape[2 + a], kernel[a], g.stride[a], g.dilation[a], g.before[a] + g.after[a]));
  const int64_t in_group = w.shape[1], out_group = w.shape[0] / g.groups;
  return build(shape, [&](I i) {
    double s = 0;
    for (int64_t c = 0; c < in_group; c++) {
      for_each(kernel, [&](I k) {
        Index at{i[0], i[1] / out_group * in_group + c}, weight{i[1], c};
        for (size_t a = 0; a < n; a++) {
          at.push_back(i[2 + a] * g.stride[a] + k[a] * g.dilation[a] - g.before[a]);
          if (at.back() < 0 || at.back() >= x.shape[2 + a]) return;
        }
        weight.insert(weight.end(), k.begin(), k.end());
        s += x(at) * w(weight);
      });
    }
    return s;
  });
}

// Each input element adds the kernel, times its value, to the output.
Array transposed_convolution(A x, A w, const Geometry& g, int64_t output_padding) {
  const size_t n = x.shape.size() - 2;
  const int64_t out_group = w.shape[1], in_group = x.shape[1] / g.groups;
  Index shape{x.shape[0], out_group * g.groups}, kernel(w.shape.begin() + 2, w.shape.end());
  for (size_t a = 0; a < n; a++)
    shape.push_back((x.shape[2 + a] - 1) * g.stride[a] - g.before[a] - g.after[a] +
                    g.dilation[a] * (kernel[a] - 1) + output_padding + 1);
  Array out = build(shape, [](I) { return 0; });
  for_each(x.shape, [&](I i) {
    for (int64_t c = 0; c < out_group; c++) {
      for_each(kernel, [&](I k) {
        Index weight{i[1], c};
        weight.insert(weight.end(), k.begin(), k.end());
        int64_t position = i[0] * shape[1] + i[1] / in_group * out_group + c;
        for (size_t a = 0; a < n; a++) {
          const int64_t p = i[2 + a] * g.stride[a] + k[a] * g.dilation[a] - g.before[a];
          if (p < 0 || p >= shape[2 + a]) return;
          position = position * shape[2 + a] + p;
        }
        out.data[static_cast<size_t>(position)] += x(i) * w(weight);
      });
    }
  });
  return out;
}

// f of the elements in each window of the last axes; `length` windows an axis, positions outside left out.
Array pooled(A x, Index kernel, const Geometry& g, const Index& lengths,
             double (*f)(const Values&, int64_t all)) {
  const size_t n = kernel.size(), lead = x.shape.size() - n;
  Index shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(lead));
  shape.insert(shape.end(), lengths.begin(), lengths.end());
  return build(shape, [&](I i) {
    Values inside;
    int64_t with_padding = 0;
    for_each(kernel, [&](I k) {
      Index at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(lead));
      bool is_padding = false, is_outside = false;
      for (size_t a = 0; a < n; a++) {
        const int64_t size = x.shape[lead + a];
        at.push_back(i[lead + a] * g.stride[a] + k[a] * g.dilation[a] - g.before[a]);
        is_padding = is_padding || at.back() < 0 || at.back() >= size;
        is_outside = is_outside || at.back() >= size + g.after[a];
      }
      if (!is_padding) inside.push_back(x(at));
      with_padding += !is_outside;
    });
    return f(inside, with_padding);
  });
}
double average(const Values& v, int64_t) { return mean(v); }
double average_with_padding(const Values& v, int64_t all) { return sum(v) / static_cast<double>(all); }
double largest(const Values& v, int64_t) { return *std::max_element(v.begin(), v.end()); }

Row conv(const char* name, Index x, Index w, const Geometry& g) {
  ConvOptions options{
      .stride = Ints(g.stride), .padding = {}, .dilation = Ints(g.dilation), .groups = g.groups, .dtype = {}};
  for (size_t a = g.before.size(); a-- > 0;) {
    options.padding.push_back(g.before[a]);
    options.padding.push_back(g.after[a]);
  }
  return {name,
          {in(std::move(x)), in(std::move(w))},
          [=](T a, T b) { return a.conv2d(b, {}, options); },
          [=](A a, A b) { return convolution(a, b, g); }};
}
Row transposed(const char* name, Index x, Index w, const Geometry& g, int64_t output_padding = 0) {
  const ConvTransposeOptions options{.stride = Ints(g.stride),
                                     .padding = Ints(g.before),
                                     .dilation = Ints(g.dilation),
                                     .groups = g.groups,
                                     .output_padding = output_padding};
  return {name,
          {in(std::move(x)), in(std::move(w))},
          [=](T a, T b) { return a.conv_transpose2d(b, {}, options); },
          [=](A a, A b) { return transposed_convolution(a, b, g, output_padding); }};
}

Rows convolutions() {
  return {
      conv("conv2d", {2, 3, 5, 6}, {4, 3, 3, 2}, plain(2))
          .everywhere()
          .on({DType::Float32, DType::Float16})
          .within(8),
      conv("conv2d: one by one", {2, 3, 4, 4}, {5, 3, 1, 1}, plain(2)).within(8),
      conv("conv2d: stride and padding", {1, 2, 6, 5}, {3, 2, 3, 3}, plain(2, 2, 1)).within(8),
      conv("conv2d: dilation", {1, 2, 7, 7}, {2, 2, 3, 3}, plain(2, 1, 1, 2)).within(8),
      conv("conv2d: different axes", {1, 2, 7, 6}, {2, 2, 2, 3}, {{2, 1}, {1, 2}, {0, 1}, {2, 1}, 1})
          .within(8),
      conv("conv2d: groups", {1, 4, 4, 4}, {6, 2, 3, 3}, plain(2, 1, 1, 1, 2)).within(8),
      conv("conv2d: depthwise", {1, 3, 5, 5}, {3, 1, 3, 3}, plain(2, 1, 1, 1, 3)).everywhere(),
      conv("conv2d: the whole image", {2, 2, 4, 3}, {3, 2, 4, 3}, plain(2)).within(8),
      conv("conv2d: one axis", {2, 3, 9}, {4, 3, 3}, plain(1, 2, 1)).within(8),
      conv("conv2d: three axes", {1, 2, 3, 4, 3}, {2, 2, 2, 2, 2}, plain(3, 1, 1))
          .within(8)
          .no_gradient(kCheckedElsewhere),
      conv("conv2d: integers", {1, 2, 4, 4}, {2, 2, 3, 3}, plain(2)).on({DType::Int32}),
      conv("conv2d: larger", {1, 8, 12, 12}, {16, 8, 3, 3}, plain(2, 1, 1))
          .within(32)
          .no_gradient(kCheckedElsewhere),
      Row(
          "conv2d: bias and activation", {in({1, 2, 5, 5}), in({3, 2, 3, 3}), in({3})},
          [](T x, T w, T b) { return x.conv2d(w, b, {.padding = 1}).sigmoid(); },
          [](A x, A w, A b) {
            return map(convolution(x, w, plain(2, 1, 1)), reshape(b, {3, 1, 1}),
                       [](double v, double c) { return 1 / (1 + std::exp(-v - c)); });
          })
          .within(8),
      Row(
          "conv2d: of a convolution", {in({1, 1, 6, 6}), in({2, 1, 3, 3}), in({1, 2, 2, 2})},
          [](T x, T v, T w) { return x.conv2d(v).conv2d(w, {}, {.padding = 1}); },
          [](A x, A v, A w) { return convolution(convolution(x, v, plain(2)), w, plain(2, 1, 1)); })
          .within(32)
          .gradient_within(3e-5),
      transposed("conv_transpose2d", {1, 2, 3, 3}, {2, 3, 2, 2}, plain(2)).within(8),
      transposed("conv_transpose2d: stride", {1, 2, 3, 4}, {2, 2, 3, 3}, plain(2, 2)).within(8),
      transposed("conv_transpose2d: all options", {1, 4, 3, 3}, {4, 1, 3, 3}, plain(2, 2, 1, 1, 2), 1)
          .within(8),
      transposed("conv_transpose2d: dilation", {1, 1, 4, 4}, {1, 2, 2, 2}, plain(2, 1, 1, 2)).within(8),
      transposed("conv_transpose2d: one axis", {2, 2, 5}, {2, 2, 3}, plain(1, 3)).within(8),
  };
}

Rows pools() {
  return {
      Row(
          "avg_pool2d", {in({1, 2, 4, 6})}, [](T x) { return x.avg_pool2d(); },
          [](A x) { return pooled(x, {2, 2}, plain(2, 2), {2, 3}, average); })
          .on({DType::Float32, DType::Float16}),
      Row(
          "avg_pool2d: padding counts", {in({1, 5, 5})},
          [](T x) { return x.avg_pool2d({3, 3}, {.stride = 2, .padding = 1}); },
          [](A x) { return pooled(x, {3, 3}, plain(2, 2, 1), {3, 3}, average_with_padding); }),
      Row(
          "avg_pool2d: padding does not count", {in({1, 5, 5})},
          [](T x) { return x.avg_pool2d({3, 3}, {.stride = 2, .padding = 1, .count_include_pad = false}); },
          [](A x) { return pooled(x, {3, 3}, plain(2, 2, 1), {3, 3}, average); }),
      Row(
          "avg_pool2d: ceiling", {in({1, 6, 6})},
          [](T x) { return x.avg_pool2d({3, 3}, {.stride = 2, .ceil_mode = true}); },
          [](A x) { return pooled(x, {3, 3}, plain(2, 2), {3, 3}, average); }),
      Row(
          "avg_pool2d: ceiling and padding", {in({1, 6, 5})},
          [](T x) { return x.avg_pool2d({3, 2}, {.stride = 2, .padding = 1, .ceil_mode = true}); },
          [](A x) { return pooled(x, {3, 2}, plain(2, 2, 1), {4, 3}, average_with_padding); }),
      Row(
          "avg_pool2d: one axis", {in({2, 7})},
          [](T x) { return x.avg_pool2d(3, {.stride = 1, .dilation = 2}); },
          [](A x) { return pooled(x, {3}, plain(1, 1, 0, 2), {3}, average); }),
      Row(
          "max_pool2d", {in({1, 2, 4, 6})}, [](T x) { return x.max_pool2d(); },
          [](A x) { return pooled(x, {2, 2}, plain(2, 2), {2, 3}, largest); })
          .exact()
          .on({DType::Float32, DType::Float16, DType::Int32, DType::UInt8})
          .everywhere(),
      Row(
          "max_pool2d: overlapping, padded", {in({1, 5, 6})},
          [](T x) { return x.max_pool2d({3, 2}, {.stride = 1, .padding = 1}); },
          [](A x) { return pooled(x, {3, 2}, plain(2, 1, 1), {5, 7}, largest); })
          .exact(),
      Row(
          "max_pool2d: ceiling", {in({1, 6, 6})},
          [](T x) { return x.max_pool2d({3, 3}, {.stride = 2, .ceil_mode = true}); },
          [](A x) { return pooled(x, {3, 3}, plain(2, 2), {3, 3}, largest); })
          .exact(),
      Row(
          "max_pool2d: dilation", {in({1, 6, 6})},
          [](T x) { return x.max_pool2d({2, 2}, {.stride = 1, .dilation = 3}); },
          [](A x) { return pooled(x, {2, 2}, plain(2, 1, 0, 3), {3, 3}, largest); })
          .exact(),
      Row(
          "max_pool2d: three axes", {in({2, 4, 4, 4})}, [](T x) { return x.max_pool2d({2, 2, 2}); },
          [](A x) { return pooled(x, {2, 2, 2}, plain(3, 2), {2, 2, 2}, largest); })
          .exact(),
  };
}

}  // namespace

TABLE_TEST_CASE("convolutions", convolutions)
TABLE_TEST_CASE("pools", pools)
