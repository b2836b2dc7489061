// Movement: results are elements of the inputs, so everything is exact.
#include "ops/table.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

int64_t positive(int64_t i, int64_t n) { return (i % n + n) % n; }

// Elements of one input: the position that each element of the result comes from.
Row moved(const char* name, Index shape, Tensor (*op)(T), Index result, Index (*from)(I)) {
  return Row(name, {in(std::move(shape))}, op,
             [=](A x) { return build(result, [&](I i) { return x(from(i)); }); })
      .exact();
}
Row reshaped(const char* name, Index shape, Tensor (*op)(T), Index result) {
  return Row(name, {in(std::move(shape))}, op, [=](A x) { return reshape(x, result); }).exact();
}

Rows shapes() {
  return {
      reshaped("reshape", {2, 3, 4}, [](T x) { return x.reshape({4, -1}); }, {4, 6})
          .on({DType::Float32, DType::Int8, DType::Bool}),
      reshaped("reshape: to a scalar", {1, 1}, [](T x) { return x.reshape({}); }, {}),
      reshaped("reshape: nothing", {0, 3}, [](T x) { return x.reshape({3, 0, 2}); }, {3, 0, 2}),
      moved(
          "reshape: of a permuted tensor", {2, 3, 4},
          [](T x) { return x.permute({2, 0, 1}).reshape({8, 3}); }, {8, 3},
          [](I i) { return Index{i[0] % 2, i[1], i[0] / 2}; })
          .everywhere(),
      reshaped("view", {6, 2}, [](T x) { return x.view({3, 4}); }, {3, 4}),
      reshaped("squeeze", {1, 3, 1, 2}, [](T x) { return x.squeeze(); }, {3, 2}),
      reshaped("squeeze: one axis", {1, 3, 1}, [](T x) { return x.squeeze(-1).squeeze(1); }, {1, 3}),
      reshaped("unsqueeze", {3, 2}, [](T x) { return x.unsqueeze(1).unsqueeze(-1); }, {3, 1, 2, 1}),
      reshaped("flatten", {2, 3, 4}, [](T x) { return x.flatten(1); }, {2, 12}),
      reshaped("flatten: a scalar", {}, [](T x) { return x.flatten(); }, {1}),
      reshaped("unflatten", {2, 12}, [](T x) { return x.unflatten(-1, {3, -1}); }, {2, 3, 4}),
      moved(
          "expand", {3, 1}, [](T x) { return x.expand({2, -1, 4}); }, {2, 3, 4},
          [](I i) { return Index{i[1], 0}; })
          .everywhere(),
      moved(
          "expand: a scalar", {}, [](T x) { return x.expand({3}); }, {3}, [](I) { return Index{}; }),
      moved(
          "repeat", {2, 3}, [](T x) { return x.repeat({2, 1, 2}); }, {2, 2, 6},
          [](I i) { return Index{i[1], i[2] % 3}; }),
      moved(
          "repeat: zero times", {2, 3}, [](T x) { return x.repeat({0, 1}); }, {0, 3}, [](I i) { return i; }),
      moved(
          "repeat_interleave", {2, 3}, [](T x) { return x.repeat_interleave(2, -1); }, {2, 6},
          [](I i) { return Index{i[0], i[1] / 2}; }),
      moved(
          "repeat_interleave: flattened", {2, 3}, [](T x) { return x.repeat_interleave(3); }, {18},
          [](I i) { return Index{i[0] / 9, i[0] / 3 % 3}; }),
  };
}

Rows orders() {
  return {
      moved(
          "permute", {2, 3, 4}, [](T x) { return x.permute({2, 0, -2}); }, {4, 2, 3},
          [](I i) { return Index{i[1], i[2], i[0]}; })
          .on({DType::Float32, DType::UInt8, DType::Float16}),
      moved(
          "transpose", {2, 3, 4}, [](T x) { return x.transpose(0, -1); }, {4, 3, 2},
          [](I i) { return Index{i[2], i[1], i[0]}; }),
      moved(
          "transpose: large enough for tiles", {33, 65}, [](T x) { return x.transpose(); }, {65, 33},
          [](I i) { return Index{i[1], i[0]}; }),
      moved(
          "T", {2, 3}, [](T x) { return x.T(); }, {3, 2}, [](I i) { return Index{i[1], i[0]}; }),
      moved(
          "flip", {2, 3, 4}, [](T x) { return x.flip({0, -1}); }, {2, 3, 4},
          [](I i) { return Index{1 - i[0], i[1], 3 - i[2]}; })
          .everywhere(),
      moved(
          "roll", {2, 5}, [](T x) { return x.roll(2, Ints(1)); }, {2, 5},
          [](I i) { return Index{i[0], positive(i[1] - 2, 5)}; }),
      moved(
          "roll: two axes", {3, 4}, [](T x) { return x.roll({-1, 6}, Ints{0, 1}); }, {3, 4},
          [](I i) { return Index{positive(i[0] + 1, 3), positive(i[1] - 6, 4)}; }),
      moved(
          "roll: flattened", {2, 3}, [](T x) { return x.roll(2); }, {2, 3},
          [](I i) {
            const int64_t k = positive(i[0] * 3 + i[1] - 2, 6);
            return Index{k / 3, k % 3};
          }),
      moved(
          "diagonal", {3, 4}, [](T x) { return x.diagonal(); }, {3}, [](I i) { return Index{i[0], i[0]}; }),
      moved(
          "diagonal: above, of other axes", {4, 2, 5}, [](T x) { return x.diagonal(1, 0, 2); }, {2, 4},
          [](I i) { return Index{i[1], i[0], i[1] + 1}; }),
      moved(
          "diagonal: below", {3, 4}, [](T x) { return x.diagonal(-1); }, {2},
          [](I i) { return Index{i[0] + 1, i[0]}; }),
      moved(
          "diagonal: outside", {2, 2}, [](T x) { return x.diagonal(5); }, {0}, [](I i) { return i; }),
  };
}

Rows windows() {
  return {
      moved(
          "unfold", {3, 7}, [](T x) { return x.unfold(1, 3, 2); }, {3, 3, 3},
          [](I i) { return Index{i[0], i[1] * 2 + i[2]}; }),
      moved(
          "unfold: the first axis", {5, 2}, [](T x) { return x.unfold(0, 2, 1); }, {4, 2, 2},
          [](I i) { return Index{i[0] + i[2], i[1]}; }),
      moved(
          "pool", {2, 5, 6}, [](T x) { return x.pool({2, 3}, {2, 1}, {1, 2}); }, {2, 2, 2, 2, 3},
          [](I i) { return Index{i[0], i[1] * 2 + i[3], i[2] + i[4] * 2}; }),
      moved(
          "pool: windows apart", {7}, [](T x) { return x.pool(2, 3); }, {2, 2},
          [](I i) { return Index{i[0] * 3 + i[1]}; }),
      moved(
          "contiguous", {3, 4}, [](T x) { return x.T().contiguous(); }, {4, 3},
          [](I i) { return Index{i[1], i[0]}; }),
      moved(
          "contiguous_backward", {3, 4}, [](T x) { return x.contiguous_backward(); }, {3, 4},
          [](I i) { return i; }),
      moved(
          "clone", {3, 4}, [](T x) { return x.clone(); }, {3, 4}, [](I i) { return i; }),
      moved(
          "detach", {3, 4}, [](T x) { return x.detach(); }, {3, 4}, [](I i) { return i; })
          .no_gradient("detach stops it"),
      Row(
          "detach: has no gradient", {in({4})}, [](T x) { return x * x.detach(); },
          [](A x) { return map(x, [](double v) { return v * v; }); })
          .no_gradient("detach stops half of it"),
      moved(
          "to", {3, 4}, [](T x) { return x.to("CPU:1").to(x.device()); }, {3, 4}, [](I i) { return i; }),
      moved(
          "move_to", {3, 4},
          [](T x) {
            Tensor y = x.clone();
            y.move_to("CPU:1");
            return y.move_to(x.device()) + 0;
          },
          {3, 4}, [](I i) { return i; }),
      moved(
          "shard", {3, 4}, [](T x) { return x.shard({x.device(), "CPU:1"}, 1).to(x.device()); }, {3, 4},
          [](I i) { return i; }),
      moved(
          "shard: all of it on each", {3, 4},
          [](T x) { return x.shard({"CPU:1", x.device()}).to(x.device()); }, {3, 4}, [](I i) { return i; }),
      moved(
          "shard_like", {3, 4},
          [](T x) {
            const Tensor y = x.shard({x.device(), "CPU:1", "CPU:2"}, 0);
            return x.shard_like(y).shard_like(y.sum(0)).to(x.device());
          },
          {3, 4}, [](I i) { return i; }),
      moved(
          "move_to_shards", {3, 4},
          [](T x) {
            Tensor y = x.clone();
            return y.move_to_shards({x.device(), "CPU:1"}, 1).to(x.device()) + 0;
          },
          {3, 4}, [](I i) { return i; }),
  };
}

// x with its corner at (top, left), `fill` around it.
auto padded(int64_t top, int64_t left, double fill, Index shape) {
  return [=](A x) {
    return build(shape, [&](I i) {
      const int64_t r = i[0] - top, c = i[1] - left;
      return r >= 0 && r < x.shape[0] && c >= 0 && c < x.shape[1] ? x.at(r, c) : fill;
    });
  };
}

Rows cuts() {
  return {
      moved(
          "shrink", {4, 5}, [](T x) { return x.shrink({{1, 3}, none}); }, {2, 5},
          [](I i) { return Index{i[0] + 1, i[1]}; }),
      moved(
          "shrink: to nothing", {4, 5}, [](T x) { return x.shrink({{2, 2}, {0, 5}}); }, {0, 5},
          [](I i) { return i; }),
      moved(
          "shrink_to", {4, 5}, [](T x) { return x.shrink_to({-1, 2}); }, {4, 2}, [](I i) { return i; }),
      Row(
          "pad", {in({2, 3})}, [](T x) { return x.pad({1, 2, 0, 1}); }, padded(0, 1, 0, {3, 6}))
          .exact()
          .everywhere(),
      Row(
          "pad: pairs of axes", {in({2, 3})}, [](T x) { return x.pad({{2, 0}, none}); },
          padded(2, 0, 0, {4, 3}))
          .exact(),
      Row(
          "pad: with a value", {in({2, 3})}, [](T x) { return x.pad({1, 1}, PadMode::Constant, 7); },
          padded(0, 1, 7, {2, 5}))
          .exact()
          .on({DType::Float32, DType::Int8, DType::Float16}),
      Row(
          "pad: with infinity", {in({2, 3})}, [](T x) { return x.pad({1, 0}, PadMode::Constant, -INFINITY); },
          padded(0, 1, -INFINITY, {2, 4}))
          .exact()
          .no_gradient(kNotFinite),
      Row(
          "pad: negative", {in({3, 4})}, [](T x) { return x.pad({{-1, 1}, {1, -2}}); },
          padded(-1, 1, 0, {3, 3}))
          .exact(),
      Row(
          "pad: parts of a padded tensor put back and cut", {in({3}), in({2})},
          [](T x, T p) {
            const Tensor w = x.pad({0, 1}), a = w.at(Slice{0, 2}), b = w.at(Slice{2, 4});
            return ((b * p).pad({0, 2}) + (a * p).pad({2, 0})).shrink({{0, 3}});
          },
          [](A x, A p) { return Array({3}, {x.at(2) * p.at(0), 0, x.at(0) * p.at(0)}); }),
      Row(
          "pad: bool", {bools({2, 3})}, [](T x) { return x.pad({1, 1}); }, padded(0, 1, 0, {2, 5}))
          .gives(DType::Bool),
  };
}

// Lines in which each element of the result has a position in [-n, 2n) of an axis of n elements.
auto continued(int64_t before, int64_t length, int64_t (*position)(int64_t i, int64_t n)) {
  return [=](A x) {
    return build({x.shape[0], length}, [&](I i) { return x.at(i[0], position(i[1] - before, x.shape[1])); });
  };
}

Rows copying_pads() {
  return {
      Row(
          "pad: circular", {in({2, 4})}, [](T x) { return x.pad({3, 2}, PadMode::Circular); },
          continued(3, 9, [](int64_t i, int64_t n) { return positive(i, n); }))
          .exact(),
      Row(
          "pad: reflect", {in({2, 4})}, [](T x) { return x.pad({3, 2}, PadMode::Reflect); },
          continued(3, 9, [](int64_t i, int64_t n) { return i < 0    ? -i
                                                            : i >= n ? 2 * n - 2 - i
                                                                     : i; }))
          .exact(),
      Row(
          "pad: replicate", {in({2, 4})}, [](T x) { return x.pad({3, 2}, PadMode::Replicate); },
          continued(3, 9, [](int64_t i, int64_t n) { return std::clamp<int64_t>(i, 0, n - 1); }))
          .exact(),
      Row(
          "pad: reflect, both axes", {in({3, 3})}, [](T x) { return x.pad({1, 1, 1, 1}, PadMode::Reflect); },
          [](A x) {
            const auto at = [](int64_t i) { return i < 0 ? -i : i > 2 ? 4 - i : i; };
            return build({5, 5}, [&](I i) { return x.at(at(i[0] - 1), at(i[1] - 1)); });
          })
          .exact(),
      Row(
          "pad_to", {in({2, 3})}, [](T x) { return x.pad_to({3, -1}, 2); }, padded(0, 0, 2, {3, 3}))
          .exact(),
      Row(
          "diag", {in({4})}, [](T x) { return x.diag(); },
          [](A x) { return build({4, 4}, [&](I i) { return i[0] == i[1] ? x.at(i[0]) : 0; }); })
          .exact(),
      Row(
          "triu", {in({2, 3, 4})}, [](T x) { return Tensors{x.triu(), x.triu(1), x.triu(-2)}; },
          [](A x) {
            Arrays out;
            for (int64_t d : {0, 1, -2})
              out.push_back(build(x.shape, [&](I i) { return i[2] - i[1] >= d ? x(i) : 0; }));
            return out;
          })
          .exact()
          .on({DType::Float32, DType::Int16}),
      Row(
          "tril", {in({2, 3, 4})}, [](T x) { return Tensors{x.tril(), x.tril(1), x.tril(-2)}; },
          [](A x) {
            Arrays out;
            for (int64_t d : {0, 1, -2})
              out.push_back(build(x.shape, [&](I i) { return i[2] - i[1] <= d ? x(i) : 0; }));
            return out;
          })
          .exact()
          .on({DType::Float32, DType::Bool}),
  };
}

auto joined(size_t axis, Index shape) {
  return [=](const Arrays& x) {
    return build(shape, [&](I i) {
      Index at = i;
      size_t k = 0;
      while (at[axis] >= x[k].shape[axis]) at[axis] -= x[k++].shape[axis];
      return x[k](at);
    });
  };
}

Rows joins() {
  return {
      Row(
          "cat", {in({2, 3}), in({2, 3})}, [](T x, T y) { return Tensor::cat({x, y}, 1); }, joined(1, {2, 6}))
          .exact()
          .everywhere(),
      Row(
          "cat: pieces of different sizes", {in({2, 3}), in({1, 3}), in({4, 3})},
          [](const Tensors& x) { return Tensor::cat(x); }, joined(0, {7, 3}))
          .exact(),
      Row(
          "cat: with an empty piece", {in({2, 3}), in({2, 0})},
          [](T x, T y) { return Tensor::cat({x, y}, -1); }, joined(1, {2, 3}))
          .exact(),
      Row(
          "cat: integers", {in({2, 3}), in({2, 1})}, [](T x, T y) { return Tensor::cat({x, y}, 1); },
          joined(1, {2, 4}))
          .on({DType::Int8, DType::Bool, DType::Float16}),
      Row(
          "cat: of two dtypes", {in({2}).of(DType::Float16), in({3}).of(DType::Float32)},
          [](T x, T y) { return Tensor::cat({x, y}); }, joined(0, {5}))
          .exact(),
      Row(
          "cat: expressions", {in({2, 3}), in({3, 2})},
          [](T x, T y) { return Tensor::cat({x.T() * 2, y + 1}, 1); },
          [](A x, A y) {
            return build({3, 4},
                         [&](I i) { return i[1] < 2 ? x.at(i[1], i[0]) * 2 : y.at(i[0], i[1] - 2) + 1; });
          }),
      Row(
          "stack", {in({2, 3}), in({2, 3}), in({2, 3})}, [](const Tensors& x) { return Tensor::stack(x, 1); },
          [](const Arrays& x) {
            return build({2, 3, 3}, [&](I i) { return x[static_cast<size_t>(i[1])].at(i[0], i[2]); });
          })
          .exact(),
      Row(
          "stack: last axis", {in({2, 3}), in({2, 3})}, [](const Tensors& x) { return Tensor::stack(x, -1); },
          [](const Arrays& x) {
            return build({2, 3, 2}, [&](I i) { return x[static_cast<size_t>(i[2])].at(i[0], i[1]); });
          })
          .exact(),
  };
}

// Columns of a matrix.
Array piece(A x, int64_t from, int64_t n) {
  return build({x.shape[0], n}, [&](I i) { return x.at(i[0], i[1] + from); });
}

Rows pieces() {
  return {
      Row(
          "split", {in({2, 7})}, [](T x) { return x.split({1, 4, 2}, 1); },
          [](A x) { return Arrays{piece(x, 0, 1), piece(x, 1, 4), piece(x, 5, 2)}; })
          .exact(),
      Row(
          "split: equal", {in({2, 7})}, [](T x) { return x.split(3, -1); },
          [](A x) { return Arrays{piece(x, 0, 3), piece(x, 3, 3), piece(x, 6, 1)}; })
          .exact(),
      Row(
          "chunk", {in({2, 7})}, [](T x) { return x.chunk(2, 1); },
          [](A x) { return Arrays{piece(x, 0, 4), piece(x, 4, 3)}; })
          .exact(),
      Row(
          "meshgrid", {in({2}), in({3})}, [](T x, T y) { return Tensor::meshgrid({x, y}); },
          [](A x, A y) {
            return Arrays{build({2, 3}, [&](I i) { return x.at(i[0]); }),
                          build({2, 3}, [&](I i) { return y.at(i[1]); })};
          })
          .exact(),
      Row(
          "meshgrid: xy", {in({2}), in({3})}, [](T x, T y) { return Tensor::meshgrid({x, y}, true); },
          [](A x, A y) {
            return Arrays{build({3, 2}, [&](I i) { return x.at(i[1]); }),
                          build({3, 2}, [&](I i) { return y.at(i[0]); })};
          })
          .exact(),
  };
}

}  // namespace

TABLE_TEST_CASE("shapes", shapes)
TABLE_TEST_CASE("orders", orders)
TABLE_TEST_CASE("windows and copies", windows)
TABLE_TEST_CASE("cuts and paddings", cuts)
TABLE_TEST_CASE("paddings that copy", copying_pads)
TABLE_TEST_CASE("joins", joins)
TABLE_TEST_CASE("pieces", pieces)
