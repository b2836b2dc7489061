// Slices, positions, gathers and scatters, and writing to selections.
#include "ops/table.h"

#include <algorithm>
#include <cmath>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

constexpr int64_t kNone = INT64_MAX;

// The positions that start:stop:step selects of an axis, as lists of the host language of NumPy do.
std::vector<int64_t> positions(int64_t n, int64_t start, int64_t stop, int64_t step) {
  std::vector<int64_t> out;
  const auto bound = [&](int64_t v, int64_t open) {
    if (v == kNone) return open;
    if (v < 0) v += n;
    return step > 0 ? std::clamp<int64_t>(v, 0, n) : std::clamp<int64_t>(v, -1, n - 1);
  };
  const int64_t from = bound(start, step > 0 ? 0 : n - 1), to = bound(stop, step > 0 ? n : -1);
  for (int64_t i = from; step > 0 ? i < to : i > to; i += step) out.push_back(i);
  return out;
}

// A line of nine elements.
Row slice(const char* name, int64_t start, int64_t stop, int64_t step) {
  const auto bound = [](int64_t v) { return v == kNone ? Bound(none) : Bound(v); };
  return Row(
             name, {in({9, 2})}, [=](T x) { return x.at(Slice{bound(start), bound(stop), step}); },
             [=](A x) {
               const std::vector<int64_t> at = positions(9, start, stop, step);
               return build({static_cast<int64_t>(at.size()), 2},
                            [&](I i) { return x.at(at[static_cast<size_t>(i[0])], i[1]); });
             })
      .exact();
}

// Element of x, 0 outside; negative positions count from the end once.
double wrapped(A x, Index at) {
  for (size_t i = 0; i < at.size(); i++) {
    if (at[i] < 0) at[i] += x.shape[i];
    if (at[i] < 0 || at[i] >= x.shape[i]) return 0;
  }
  return x(at);
}
int64_t whole(double v) { return static_cast<int64_t>(v); }

Rows slices() {
  return {
      slice("at: a slice", 2, 7, 1),
      slice("at: every second", kNone, kNone, 2),
      slice("at: backwards", kNone, kNone, -1),
      slice("at: backwards by three", 7, 0, -3),
      slice("at: from the end", -3, kNone, 1),
      slice("at: clamped bounds", -20, 20, 4),
      slice("at: an empty slice", 5, 2, 1),
      slice("at: backwards to before the start", 4, -20, -2),
      Row(
          "at: a position", {in({3, 4})}, [](T x) { return Tensors{x.at(1), x.at(-1, 2)}; },
          [](A x) { return Arrays{build({4}, [&](I i) { return x.at(1, i[0]); }), scalar(x.at(2, 2))}; })
          .exact(),
      Row(
          "at: new axes and an ellipsis", {in({2, 3, 4})},
          [](T x) { return x.at(newaxis, 1, ellipsis, newaxis, Slice{1, 3}); },
          [](A x) { return build({1, 3, 1, 2}, [&](I i) { return x.at(1, i[1], i[3] + 1); }); })
          .exact(),
      Row(
          "index", {in({4, 5})}, [](T x) { return x.index({Slice{none, none, -2}, Slice{1, none, 2}}); },
          [](A x) { return build({2, 2}, [&](I i) { return x.at(3 - 2 * i[0], 1 + 2 * i[1]); }); })
          .exact(),
  };
}

Rows gathers() {
  return {
      Row(
          "index: a tensor", {in({5, 3}), ints({4}, -5, 4)}, [](T x, T i) { return x.at(i); },
          [](A x, A at) {
            return build({4, 3}, [&](I i) { return wrapped(x, {whole(at.at(i[0])), i[1]}); });
          })
          .exact()
          .everywhere(),
      Row(
          "index: outside reads zero", {in({5, 3}), ints({7}, -9, 9)}, [](T x, T i) { return x.at(i); },
          [](A x, A at) {
            return build({7, 3}, [&](I i) { return wrapped(x, {whole(at.at(i[0])), i[1]}); });
          })
          .exact(),
      Row(
          "index: a matrix of positions, second axis", {in({2, 5}), ints({3, 2}, 0, 4)},
          [](T x, T i) { return x.at(Slice{}, i); },
          [](A x, A at) {
            return build({2, 3, 2}, [&](I i) { return x.at(i[0], whole(at.at(i[1], i[2]))); });
          })
          .exact(),
      Row(
          "index: two tensors", {in({3, 4, 2}), ints({3, 1}, 0, 2), ints({2}, 0, 3)},
          [](T x, T i, T j) { return x.at(i, j); },
          [](A x, A a, A b) {
            return build({3, 2, 2}, [&](I i) { return x.at(whole(a.at(i[0], 0)), whole(b.at(i[1])), i[2]); });
          })
          .exact(),
      Row(
          "index: two tensors apart", {in({2, 3, 4}), ints({2}, 0, 1), ints({2}, 0, 3)},
          [](T x, T i, T j) { return x.at(i, Slice{}, j); },
          [](A x, A a, A b) {
            return build({2, 3}, [&](I i) { return x.at(whole(a.at(i[0])), i[1], whole(b.at(i[0]))); });
          })
          .exact(),
      Row(
          "index: tensors behind other axes, apart", {in({2, 3, 2, 4}), ints({2}, 0, 2), ints({2}, 0, 3)},
          [](T x, T i, T j) { return x.at(Slice{}, i, Slice{}, j); },
          [](A x, A a, A b) {
            return build({2, 2, 2},
                         [&](I i) { return x.at(i[1], whole(a.at(i[0])), i[2], whole(b.at(i[0]))); });
          })
          .exact(),
      Row(
          "index: lists", {in({3, 4})}, [](T x) { return x.index({{2, 0, -1}, {1, 3, 0}}); },
          [](A x) { return Array({3}, {x.at(2, 1), x.at(0, 3), x.at(2, 0)}); })
          .exact(),
      Row(
          "index: a list outside reads zero", {in({3})}, [](T x) { return x.index({{2, 3, -1, -4}}); },
          [](A x) { return Array({4}, {x.at(2), 0.0, x.at(2), 0.0}); })
          .exact(),
      Row(
          "index: positions of other dtypes",
          {in({5}), in({3}).range(0, 4).of(DType::UInt8), in({3}).range(-5, 4).of(DType::Int64)},
          [](T x, T i, T j) { return Tensors{x.at(i), x.at(j)}; },
          [](A x, A a, A b) {
            return Arrays{build({3}, [&](I i) { return x.at(whole(a.at(i[0]))); }),
                          build({3}, [&](I i) { return wrapped(x, {whole(b.at(i[0]))}); })};
          })
          .exact(),
  };
}

Rows lookups() {
  return {
      Row(
          "index: an embedding", {in({30, 8}), ints({4, 3}, 0, 29)}, [](T x, T i) { return x.at(i); },
          [](A x, A at) {
            return build({4, 3, 8}, [&](I i) { return x.at(whole(at.at(i[0], i[1])), i[2]); });
          })
          .exact(),
      Row(
          "index: integers", {in({5, 2}).range(-99, 99), ints({3}, 0, 4)}, [](T x, T i) { return x.at(i); },
          [](A x, A at) { return build({3, 2}, [&](I i) { return x.at(whole(at.at(i[0])), i[1]); }); })
          .on({DType::Int8, DType::UInt16, DType::Bool, DType::Int64}),
      Row(
          "gather", {in({3, 5}), ints({2, 4}, 0, 4)}, [](T x, T i) { return x.gather(1, i); },
          [](A x, A at) { return build({2, 4}, [&](I i) { return x.at(i[0], whole(at(i))); }); })
          .exact()
          .on({DType::Float32, DType::BFloat16, DType::Int32}),
      Row(
          "gather: first axis", {in({3, 5}), ints({4, 5}, 0, 2)}, [](T x, T i) { return x.gather(0, i); },
          [](A x, A at) { return build({4, 5}, [&](I i) { return x.at(whole(at(i)), i[1]); }); })
          .exact(),
      Row(
          "one_hot", {in({2, 3}).range(0, 3)}, [](T x) { return x.one_hot(4); },
          [](A x) {
            return build({2, 3, 4}, [&](I i) { return x.at(i[0], i[1]) == static_cast<double>(i[2]); });
          })
          .on({DType::Int32, DType::UInt8, DType::Int64})
          .gives(DType::Int32),
  };
}

Rows scatters() {
  return {
      Row(
          "scatter", {in({3, 4}), given({2, 2}, {0, 2, 3, 1}).of(DType::Int32), in({2, 2})},
          [](T x, T i, T s) { return x.scatter(1, i, s); },
          [](A x, A at, A s) {
            Array out = x;
            for_each(at.shape, [&](I i) { out.data[static_cast<size_t>(i[0] * 4 + whole(at(i)))] = s(i); });
            return out;
          })
          .exact(),
      Row(
          "scatter: the last of several wins", {in({3}), given({4}, {1, 1, 2, 1}).of(DType::Int32), in({4})},
          [](T x, T i, T s) { return x.scatter(0, i, s); },
          [](A x, A, A s) { return Array({3}, {x.at(0), s.at(3), s.at(2)}); })
          .exact(),
      Row(
          "masked_fill", {in({3, 5}), bools({3, 5})}, [](T x, T m) { return x.masked_fill(m, -7); },
          [](A x, A m) { return map(x, m, [](double v, double k) { return k != 0 ? -7 : v; }); })
          .exact()
          .on({DType::Float32, DType::Float16, DType::Int64}),
      Row(
          "masked_fill: with a tensor", {in({3, 5}), bools({5}), in({3, 1})},
          [](T x, T m, T v) { return x.masked_fill(m, v); },
          [](A x, A m, A v) {
            return map(x, m, v, [](double a, double k, double b) { return k != 0 ? b : a; });
          })
          .exact(),
  };
}

Rows selections() {
  return {
      Row(
          "set: a slice", {in({4, 5}), in({2, 5})},
          [](T x, T v) {
            Tensor y = x.clone();
            y.set({Slice{1, 3}}, v);
            return y;
          },
          [](A x, A v) {
            return build({4, 5}, [&](I i) { return i[0] == 1 || i[0] == 2 ? v.at(i[0] - 1, i[1]) : x(i); });
          })
          .exact(),
      Row(
          "set: every second, backwards", {in({4, 5}), in({3})},
          [](T x, T v) {
            Tensor y = x.clone();
            y.set({0, Slice{none, none, -2}}, v);
            return y;
          },
          [](A x, A v) {
            Array out = x;
            for (int k = 0; k < 3; k++) out.data[static_cast<size_t>(4 - 2 * k)] = v.at(k);
            return out;
          })
          .exact(),
      Row(
          "set: a literal at a position", {in({4, 5})},
          [](T x) {
            Tensor y = x.clone();
            y.set({-1, 2}, 9);
            return y;
          },
          [](A x) {
            Array out = x;
            out.data[17] = 9;
            return out;
          })
          .exact()
          .on({DType::Float32, DType::Int8, DType::Float16}),
      Row(
          "set: nothing", {in({4, 2})},
          [](T x) {
            Tensor y = x.clone();
            y.set({Slice{2, 2}}, 5);
            return y;
          },
          [](A x) { return x; })
          .exact(),
      Row(
          "set: positions of a tensor", {in({4, 2}), given({3}, {2, 0, 2}).of(DType::Int32), in({3, 2})},
          [](T x, T i, T v) {
            Tensor y = x.clone();
            y.set({i}, v);
            return y;
          },
          [](A x, A, A v) {
            return Array({4, 2}, {v.at(1, 0), v.at(1, 1), x.at(1, 0), x.at(1, 1), v.at(2, 0), v.at(2, 1),
                                  x.at(3, 0), x.at(3, 1)});
          })
          .exact(),
      Row(
          "set: a tensor behind a slice", {in({3, 5}), given({2}, {4, 1}).of(DType::Int32), in({3, 2})},
          [](T x, T i, T v) { return x.clone().set({Slice{}, i}, v); },
          [](A x, A, A v) {
            return build({3, 5}, [&](I i) {
              return i[1] == 4 ? v.at(i[0], 0) : i[1] == 1 ? v.at(i[0], 1) : x(i);
            });
          })
          .exact(),
      Row(
          "set: a tensor behind every second row, backwards",
          {in({4, 3}), given({2}, {2, 0}).of(DType::Int32), in({2, 2})},
          [](T x, T i, T v) { return x.clone().set({Slice{none, none, -2}, i}, v); },
          [](A x, A, A v) {
            return build({4, 3},
                         [&](I i) { return i[0] % 2 && i[1] != 1 ? v.at((3 - i[0]) / 2, i[1] == 0) : x(i); });
          })
          .exact(),
      Row(
          "set: two tensors apart",
          {in({3, 2, 4}), given({2}, {2, 0}).of(DType::Int32), given({2}, {3, 1}).of(DType::Int32),
           in({2, 2})},
          [](T x, T i, T j, T v) { return x.clone().set({i, Slice{}, j}, v); },
          [](A x, A, A, A v) {
            return build({3, 2, 4}, [&](I i) {
              if (i[0] == 2 && i[2] == 3) return v.at(0, i[1]);
              return i[0] == 0 && i[2] == 1 ? v.at(1, i[1]) : x(i);
            });
          })
          .exact(),
      Row(
          "set: tensors behind another axis, apart",
          {in({2, 3, 2, 4}), given({2}, {2, 0}).of(DType::Int32), given({2}, {3, 1}).of(DType::Int32),
           in({2, 1, 2})},
          [](T x, T i, T j, T v) { return x.clone().set({Slice{}, i, Slice{}, j}, v); },
          [](A x, A, A, A v) {
            return build({2, 3, 2, 4}, [&](I i) {
              if (i[1] == 2 && i[3] == 3) return v.at(0, 0, i[2]);
              return i[1] == 0 && i[3] == 1 ? v.at(1, 0, i[2]) : x(i);
            });
          })
          .exact(),
      Row(
          "set: a position, a list and an ellipsis", {in({2, 3, 2, 2}), in({2, 2})},
          [](T x, T v) { return x.clone().set({1, {0, -1}, ellipsis, 1}, v); },
          [](A x, A v) {
            return build({2, 3, 2, 2}, [&](I i) {
              return i[0] == 1 && i[1] != 1 && i[3] == 1 ? v.at(i[1] == 2, i[2]) : x(i);
            });
          })
          .exact(),
      Row(
          "set: a new axis and a tensor", {in({2, 3}), given({2}, {1, 0}).of(DType::Int32), in({2, 1, 3})},
          [](T x, T i, T v) { return x.clone().set({i, newaxis}, v); },
          [](A, A, A v) { return build({2, 3}, [&](I i) { return v.at(1 - i[0], 0, i[1]); }); })
          .exact(),
      Row(
          "set: outside of the range, a number, where a mask holds",
          {in({2, 4}), given({3}, {-9, 1, 7}).of(DType::Int32)},
          [](T x, T i) {
            Tensor y = x.clone();
            y.set({Slice{}, i}, 8);
            y.assign(y.masked_fill(y.lt(0), 0));
            return y;
          },
          [](A x, A) { return build({2, 4}, [&](I i) { return i[1] == 1 ? 8 : std::max(x(i), 0.0); }); })
          .exact(),
      Row(
          "set: of an expression", {in({4, 3}), in({3})},
          [](T x, T v) {
            Tensor y = x * 2;
            y.set({Slice{}, 1}, 5);
            y.set({2}, v);
            return y;
          },
          [](A x, A v) {
            return build({4, 3}, [&](I i) { return i[0] == 2 ? v.at(i[1]) : i[1] == 1 ? 5 : 2 * x(i); });
          }),
  };
}

Rows writes() {
  return {
      Row(
          "assign", {in({3, 4}), in({4})},
          [](T x, T y) {
            Tensor z = x.clone();
            z.assign(y);
            return z;
          },
          [](A, A y) { return broadcast(y, {3, 4}); })
          .exact()
          .on({DType::Float32, DType::Int8}),
      Row(
          "assign: a value of what was there", {in({3, 4})},
          [](T x) {
            Tensor z = x.clone();
            z.assign(z * 2 + z.flip(0));
            return z;
          },
          [](A x) { return build({3, 4}, [&](I i) { return 2 * x(i) + x.at(2 - i[0], i[1]); }); }),
      Row(
          "assign: through a view", {in({3, 4}), in({3})},
          [](T x, T y) {
            Tensor z = x.clone();
            z.T().at(1).assign(y);
            return z;
          },
          [](A x, A y) { return build({3, 4}, [&](I i) { return i[1] == 1 ? y.at(i[0]) : x(i); }); })
          .exact(),
      Row(
          "assign: expressions before and after", {in({4})},
          [](T x) {
            Tensor z = x.clone();
            const Tensor before = z * 3, view = z.reshape({2, 2});
            z.assign(z + 1);
            return Tensors{before, z * 3, view};
          },
          [](A x) {
            return Arrays{map(x, [](double v) { return 3 * v; }), map(x, [](double v) { return 3 * v + 3; }),
                          reshape(map(x, [](double v) { return v + 1; }), {2, 2})};
          }),
      Row(
          "replace", {in({3}), in({3})},
          [](T x, T y) {
            Tensor z = x + 0;
            z.replace(y + 1);
            return z;
          },
          [](A, A y) { return map(y, [](double v) { return v + 1; }); }),
  };
}

const std::vector<DType> kSome = {DType::Float32, DType::Int32}, kWhole = {DType::Int32, DType::UInt8};

Row compound(const char* name, Tensor& (*op)(Tensor&, T), double (*f)(double, double),
             std::vector<DType> dtypes) {
  return Row(
             name, {in({3, 4}).range(1, 9), in({4}).range(1, 3)},
             [=](T x, T y) {
               Tensor z = x.clone();
               op(z, y);
               return z;
             },
             [=](A x, A y) { return map(x, y, f); })
      .on(std::move(dtypes))
      .within(8);
}

Rows compound_writes() {
  return {
      compound(
          "operator+=", [](Tensor& x, T y) -> Tensor& { return x += y; },
          [](double x, double y) { return x + y; }, kSome),
      compound(
          "operator-=", [](Tensor& x, T y) -> Tensor& { return x -= y; },
          [](double x, double y) { return x - y; }, kSome),
      compound(
          "operator*=", [](Tensor& x, T y) -> Tensor& { return x *= y; },
          [](double x, double y) { return x * y; }, kSome),
      compound(
          "operator/=", [](Tensor& x, T y) -> Tensor& { return x /= y; },
          [](double x, double y) { return x / y; }, {DType::Float32, DType::Float16}),
      compound(
          "operator%=", [](Tensor& x, T y) -> Tensor& { return x %= y; },
          [](double x, double y) { return std::fmod(x, y); }, kSome),
      compound(
          "operator&=", [](Tensor& x, T y) -> Tensor& { return x &= y; },
          [](double x, double y) { return double(whole(x) & whole(y)); }, kWhole),
      compound(
          "operator|=", [](Tensor& x, T y) -> Tensor& { return x |= y; },
          [](double x, double y) { return double(whole(x) | whole(y)); }, kWhole),
      compound(
          "operator^=", [](Tensor& x, T y) -> Tensor& { return x ^= y; },
          [](double x, double y) { return double(whole(x) ^ whole(y)); }, kWhole),
      compound(
          "operator<<=", [](Tensor& x, T y) -> Tensor& { return x <<= y; },
          [](double x, double y) { return x * std::exp2(y); }, kWhole),
      compound(
          "operator>>=", [](Tensor& x, T y) -> Tensor& { return x >>= y; },
          [](double x, double y) { return std::floor(x * std::exp2(-y)); }, kWhole),
  };
}

}  // namespace

TABLE_TEST_CASE("slices and positions", slices)
TABLE_TEST_CASE("gathers", gathers)
TABLE_TEST_CASE("lookups", lookups)
TABLE_TEST_CASE("scatters", scatters)
TABLE_TEST_CASE("selections written", selections)
TABLE_TEST_CASE("writes", writes)
TABLE_TEST_CASE("operators that write", compound_writes)
