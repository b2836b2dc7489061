// Tensors from data, values and number sequences, and random numbers.
#include "base/knobs.h"
#include "ops/table.h"
#include "runtime/device.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

Array filled(const Index& shape, double v) {
  return build(shape, [v](I) { return v; });
}
Array sequence(double start, double step, int64_t n) {
  return build({n}, [=](I i) { return start + step * static_cast<double>(i[0]); });
}

Rows values() {
  const auto bytes = [] {
    static const std::vector<uint16_t> words = {1, 256, 65535};
    return std::as_bytes(std::span(words));
  };
  return {
      Row(
          "from", {},
          [] {
            return Tensors{Tensor::from({{1.5, 2}, {3, -4}}),
                           Tensor::from(std::vector<float>{1.5f, 2, 3, -4}, {2, 2})};
          },
          [] { return Arrays{{{2, 2}, {1.5, 2, 3, -4}}, {{2, 2}, {1.5, 2, 3, -4}}}; })
          .exact(),
      Row(
          "from: integers", {},
          [] { return Tensors{Tensor::from({1, -2}), Tensor::from(std::vector<int>{1, -2})}; },
          [] { return Arrays{{{2}, {1, -2}}, {{2}, {1, -2}}}; })
          .gives(DType::Int32),
      Row(
          "from: other types", {},
          [] {
            return Tensors{Tensor::from({300, -1}, {DType::UInt8}),
                           Tensor::from(std::vector<bool>{true, false}),
                           Tensor::from({1.1}, {DType::BFloat16}),
                           Tensor::from(std::vector<int64_t>{1, 2}, {DType::Float16})};
          },
          [] { return Arrays{{{2}, {44, 255}}, {{2}, {1, 0}}, {{1}, {1.1015625}}, {{2}, {1, 2}}}; })
          .gives({DType::UInt8, DType::Bool, DType::BFloat16, DType::Float16})
          .exact(),
      Row(
          "from_bytes", {},
          [=] {
            return Tensors{Tensor::from_bytes(bytes(), {3}, DType::UInt16),
                           Tensor::from_bytes(bytes(), {3, 2}, DType::Int8)};
          },
          [] { return Arrays{{{3}, {1, 256, 65535}}, {{3, 2}, {1, 0, 0, 1, -1, -1}}}; })
          .gives({DType::UInt16, DType::Int8}),
      Row(
          "from_file", {},
          [] {
            const test::TempDir folder;
            Tensor file =
                Tensor::empty({4}, {.dtype = DType::Int32, .device = "DISK:" + folder.file("data")});
            file.assign(Tensor::from({1, 2, 3, 4}));
            return Tensors{Tensor::from_file(folder.file("data"), DType::Int32).clone("CPU"),
                           Tensor::from_file(folder.file("data"), DType::Int16).clone("CPU")};
          },
          [] { return Arrays{{{4}, {1, 2, 3, 4}}, {{8}, {1, 0, 2, 0, 3, 0, 4, 0}}}; })
          .gives({DType::Int32, DType::Int16}),
      Row(
          "from_blob", {},
          [] {
            static std::vector<int32_t> data;
            data = {1, 2, 3, 4};
            const bool is_shared = default_device().memory().allocator().is_host_visible();
            Tensor t = Tensor::from_blob(data.data(), {2, 2}, DType::Int32, is_shared ? "" : "CPU");
            data[3] = 9;
            const Tensor sum = t.sum();
            sum.realize();
            t.at(0).assign(t.at(0) + 10);
            t.realize();
            return Tensors{sum, Tensor::from(data), Tensor::from_blob(nullptr, {0, 2}, DType::Int32)};
          },
          [] { return Arrays{scalar(15), {{4}, {11, 12, 3, 9}}, {{0, 2}, {}}}; })
          .gives(DType::Int32),
  };
}

Rows fills() {
  return {
      Row(
          "full", {},
          [] {
            return Tensors{Tensor::full({2, 3}, 3.5), Tensor::full({2}, 3), Tensor::full({}, true),
                           Tensor::full({2}, -1, {DType::UInt8}), Tensor::full({0, 2}, 1.0)};
          },
          [] {
            return Arrays{filled({2, 3}, 3.5), filled({2}, 3), filled({}, 1), filled({2}, 255),
                          filled({0, 2}, 1)};
          })
          .gives({DType::Float32, DType::Int32, DType::Bool, DType::UInt8, DType::Float32}),
      Row(
          "constant_of", {}, [] { return Tensor::constant_of({2, 3}, -2); },
          [] { return filled({2, 3}, -2); })
          .gives(DType::Int32),
      Row(
          "zeros", {}, [] { return Tensors{Tensor::zeros({2, 3}), Tensor::zeros({3}, {DType::Int8})}; },
          [] { return Arrays{filled({2, 3}, 0), filled({3}, 0)}; })
          .gives({DType::Float32, DType::Int8}),
      Row(
          "ones", {}, [] { return Tensors{Tensor::ones({2, 3}), Tensor::ones({3}, {DType::Float16})}; },
          [] { return Arrays{filled({2, 3}, 1), filled({3}, 1)}; })
          .gives({DType::Float32, DType::Float16}),
      Row(
          "empty", {},
          [] {
            Tensor t = Tensor::empty({2, 3}, {DType::Int16});
            t.assign(5);
            return t;
          },
          [] { return filled({2, 3}, 5); })
          .gives(DType::Int16),
      Row(
          "invalids", {},
          [] {
            Tensor t = Tensor::invalids({4}, {DType::Int16});
            t.set({Slice{0, 2}}, 3);
            t.set({Slice{2, 4}}, 5);
            return t;
          },
          [] { return Array({4}, {3, 3, 5, 5}); })
          .gives(DType::Int16),
      Row(
          "empty_like", {in({2, 3})},
          [](T x) {
            Tensor t = x.empty_like();
            t.assign(x + 1);
            return t;
          },
          [](A x) { return map(x, [](double v) { return v + 1; }); }),
      Row(
          "full_like", {in({2, 3})},
          [](T x) { return Tensors{x.full_like(3), x.full_like(3, {DType::Int8})}; },
          [](A) { return Arrays{filled({2, 3}, 3), filled({2, 3}, 3)}; })
          .gives({Result::Kind::Same, DType::Int8})
          .on({DType::Float32, DType::BFloat16}),
      Row(
          "zeros_like", {in({2, 3})}, [](T x) { return x.zeros_like(); }, [](A) { return filled({2, 3}, 0); })
          .on({DType::Float32, DType::Bool}),
      Row(
          "ones_like", {in({2, 3})}, [](T x) { return x.ones_like(); }, [](A) { return filled({2, 3}, 1); })
          .on({DType::Float32, DType::UInt8}),
      Row(
          "const_like", {in({2, 3})}, [](T x) { return x.const_like(-4) + x; },
          [](A x) { return map(x, [](double v) { return v - 4; }); }),
  };
}

Rows sequences() {
  return {
      Row(
          "arange", {},
          [] {
            return Tensors{Tensor::arange(5), Tensor::arange(2, 20, 3), Tensor::arange(10, 4, -2),
                           Tensor::arange(3, 5, -2), Tensor::arange(120)};
          },
          [] {
            return Arrays{sequence(0, 1, 5), sequence(2, 3, 6), sequence(10, -2, 3), sequence(0, 0, 0),
                          sequence(0, 1, 120)};
          })
          .gives(DType::Int32)
          .everywhere(),
      Row(
          "arange: floats", {},
          [] { return Tensors{Tensor::arange(5.0), Tensor::arange(3, 9, .7), Tensor::arange(3, 8.5, 3)}; },
          [] { return Arrays{sequence(0, 1, 5), sequence(3, .7, 9), sequence(3, 3, 2)}; }),
      Row(
          "arange: other dtypes", {},
          [] {
            return Tensors{Tensor::arange(0, 4, 1, {DType::UInt8}), Tensor::arange(0, 4, 1, {DType::Float16}),
                           Tensor::arange(int64_t{1} << 40, (int64_t{1} << 40) + 3)};
          },
          [] { return Arrays{sequence(0, 1, 4), sequence(0, 1, 4), sequence(0x1p40, 1, 3)}; })
          .gives({DType::UInt8, DType::Float16, DType::Int64}),
      Row(
          "arange: in an expression", {in({6}).without_gradient()},
          [](T x) { return x * Tensor::arange(6) + Tensor::arange(6).flip(0); },
          [](A x) {
            return build(
                {6}, [&](I i) { return x(i) * static_cast<double>(i[0]) + static_cast<double>(5 - i[0]); });
          }),
      Row(
          "linspace", {},
          [] {
            return Tensors{Tensor::linspace(0, 1, 5), Tensor::linspace(2, 9, 1), Tensor::linspace(3, -3, 7),
                           Tensor::linspace(0, 9, 0)};
          },
          [] {
            return Arrays{sequence(0, .25, 5), sequence(2, 0, 1), sequence(3, -1, 7), sequence(0, 0, 0)};
          }),
      Row(
          "eye", {},
          [] { return Tensors{Tensor::eye(3), Tensor::eye(2, 4, {DType::Int8}), Tensor::eye(3, 2)}; },
          [] {
            const auto identity = [](int64_t n, int64_t m) {
              return build({n, m}, [](I i) { return i[0] == i[1]; });
            };
            return Arrays{identity(3, 3), identity(2, 4), identity(3, 2)};
          })
          .gives({DType::Float32, DType::Int8, DType::Float32}),
  };
}

// Threefry-2x32 with 20 rounds. (Salmon et al., Parallel random numbers: as easy as 1, 2, 3.)
struct Words {
  uint32_t low, high;
};
Words threefry(Words x, Words key) {
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t keys[3] = {key.low, key.high, 0x1bd11bda ^ key.low ^ key.high};
  x.low += keys[0];
  x.high += keys[1];
  for (uint32_t round = 0; round < 20; round++) {
    const int by = kRotations[round % 8];
    x.low += x.high;
    x.high = (x.high << by | x.high >> (32 - by)) ^ x.low;
    if (round % 4 != 3) continue;
    const uint32_t group = round / 4 + 1;
    x.low += keys[group % 3];
    x.high += keys[(group + 1) % 3] + group;
  }
  return x;
}

// What the first device draws after manual_seed.
class Draws {
 public:
  explicit Draws(uint32_t seed) : key_{0x14b81119, seed} {}
  std::vector<uint32_t> words(int64_t n) {
    const Words key = threefry({static_cast<uint32_t>(drawn_), static_cast<uint32_t>(drawn_ >> 32)}, key_);
    drawn_ += static_cast<uint64_t>(n);
    const uint32_t half = static_cast<uint32_t>((n + 1) / 2);
    std::vector<uint32_t> low, high;
    for (uint32_t i = 0; i < half; i++) {
      const Words w = threefry({i, half + i}, key);
      low.push_back(w.low);
      high.push_back(w.high);
    }
    low.insert(low.end(), high.begin(), high.end());
    low.resize(static_cast<size_t>(n));
    return low;
  }
  Array uniform(const Index& shape) {
    Array out = filled(shape, 0);
    const std::vector<uint32_t> w = words(out.size());
    for (size_t i = 0; i < w.size(); i++) out.data[i] = std::ldexp(w[i] >> 9, -23);
    return out;
  }
  Array normal(const Index& shape) {
    const int64_t n = count(shape);
    const Array u = uniform({2, n});
    return reshape(build({n},
                         [&](I i) {
                           return std::cos(2 * std::numbers::pi * u.at(0, i[0])) *
                                  std::sqrt(-2 * std::log(1 - u.at(1, i[0])));
                         }),
                   shape);
  }

 private:
  Words key_;
  uint64_t drawn_ = 0;
};

// A row whose tensors are drawn after a seed.
template <class F, class G>
Row drawn(const char* name, F op, G reference) {
  return Row(
      name, {},
      [=] {
        Tensor::manual_seed(1337);
        return op();
      },
      [=] {
        Draws d(1337);
        return reference(d);
      });
}
Array scaled(Array a, double by, double plus = 0) {
  return map(a, [=](double v) { return v * by + plus; });
}

Rows random_numbers() {
  const Shape shape{4, 6};
  const Index size{4, 6};
  return {
      drawn(
          "rand", [=] { return Tensors{Tensor::rand({20}), Tensor::rand({3, 5}), Tensor::rand({})}; },
          [](Draws& d) {
            Arrays out;
            for (const Index& s : {Index{20}, Index{3, 5}, Index{}}) out.push_back(d.uniform(s));
            return out;
          })
          .exact(),
      drawn(
          "rand: half", [] { return Tensor::rand({7}, {DType::Float16}); },
          [](Draws& d) {
            const std::vector<uint32_t> w = d.words(4);
            return build({7}, [&](I i) {
              return std::ldexp((w[static_cast<size_t>(i[0] / 2)] >> (i[0] % 2 * 16) & 0xffff) >> 6, -10);
            });
          })
          .gives(DType::Float16)
          .exact(),
      drawn(
          "rand: bfloat16", [] { return Tensor::rand({4}, {DType::BFloat16}); },
          [](Draws& d) {
            const std::vector<uint32_t> w = d.words(2);
            return build({4}, [&](I i) {
              return std::ldexp((w[static_cast<size_t>(i[0] / 2)] >> (i[0] % 2 * 16) & 0xffff) >> 9, -7);
            });
          })
          .gives(DType::BFloat16)
          .exact(),
      drawn(
          "rand: double", [] { return Tensor::rand({3}, {DType::Float64}); },
          [](Draws& d) {
            const std::vector<uint32_t> w = d.words(6);
            return build({3}, [&](I i) {
              const auto k = static_cast<size_t>(2 * i[0]);
              return std::ldexp(static_cast<double>((uint64_t{w[k + 1]} << 32 | w[k]) >> 12), -52);
            });
          })
          .gives(DType::Float64)
          .exact(),
      Row(
          "threefry", {ints({5}, 0, 99).of(DType::UInt64), ints({1}, 0, 99).of(DType::UInt64)},
          [](T x, T key) {
            const Tensor y = x.threefry(key);
            return Tensors{y.cast(DType::UInt32), y.rshift(Tensor(32)).cast(DType::UInt32)};
          },
          [](A x, A key) {
            Arrays out(2, x);
            for (size_t i = 0; i < x.data.size(); i++) {
              const Words w =
                  threefry({static_cast<uint32_t>(x.data[i]), 0}, {static_cast<uint32_t>(key.data[0]), 0});
              out[0].data[i] = w.low;
              out[1].data[i] = w.high;
            }
            return out;
          })
          .gives(DType::UInt32),
      drawn(
          "manual_seed",
          [] {
            const Tensor a = Tensor::rand({3});
            Tensor::manual_seed(1337);
            return Tensors{a, Tensor::rand({3})};
          },
          [](Draws& d) {
            const Array a = d.uniform({3});
            return Arrays{a, a};
          })
          .exact(),
      drawn(
          "rand_like", [=] { return Tensor::ones(shape).rand_like(); },
          [=](Draws& d) { return d.uniform(size); })
          .exact(),
  };
}

Rows distributions() {
  const Shape shape{4, 6};
  const Index size{4, 6};
  const double fan_in = 6, gain = 1 + .01 * .01;
  return {
      drawn(
          "randn", [=] { return Tensor::randn(shape); }, [=](Draws& d) { return d.normal(size); })
          .within(16),
      drawn(
          "randn_like", [=] { return Tensor::ones(shape).randn_like(); },
          [=](Draws& d) { return d.normal(size); })
          .within(16),
      drawn(
          "uniform", [=] { return Tensor::uniform(shape, -2, 5); },
          [=](Draws& d) { return scaled(d.uniform(size), 7, -2); }),
      drawn(
          "normal", [=] { return Tensor::normal(shape, 3, 2); },
          [=](Draws& d) { return scaled(d.normal(size), 2, 3); })
          .within(16),
      drawn(
          "randint", [=] { return Tensor::randint(shape, 0, 9); },
          [=](Draws& d) { return map(d.uniform(size), [](double v) { return std::floor(v * 9); }); })
          .gives(DType::Int32),
      drawn(
          "randperm", [] { return Tensor::randperm(20); },
          [](Draws& d) {
            const Array u = d.uniform({20});
            Array order = sequence(0, 1, 20);
            std::sort(order.data.begin(), order.data.end(),
                      [&](double a, double b) { return u.at(a) < u.at(b); });
            return order;
          })
          .gives(DType::Int32),
      drawn(
          "multinomial",
          [] {
            const Tensor w = Tensor::from({1., 0., 3.});
            return Tensors{w.multinomial(12, true), Tensor::stack({w, w + 1}).multinomial()};
          },
          [](Draws& d) {
            const auto pick = [](double u, Values w) {
              double total = sum(w), reached = 0, k = 0;
              for (double v : w) k += (reached += v) / total <= u;
              return k;
            };
            const Array u = d.uniform({12});
            const Array v = d.uniform({2});
            return Arrays{map(u, [&](double x) { return pick(x, {1, 0, 3}); }),
                          {{2, 1}, {pick(v.at(0), {1, 0, 3}), pick(v.at(1), {2, 1, 4})}}};
          })
          .gives(DType::Int32),
      drawn(
          "multinomial: without replacement", [] { return Tensor::from({1., 8., 3., 2.}).multinomial(4); },
          [](Draws& d) {
            const Array u = d.uniform({1, 4});
            const Values w = {1, 8, 3, 2};
            Array order = sequence(0, 1, 4);
            const auto score = [&](double i) { return std::log(u.at(0, i)) / w[static_cast<size_t>(i)]; };
            std::sort(order.data.begin(), order.data.end(),
                      [&](double a, double b) { return score(a) > score(b); });
            return order;
          })
          .gives(DType::Int32),
      drawn(
          "scaled_uniform", [=] { return Tensor::scaled_uniform(shape); },
          [=](Draws& d) { return scaled(d.uniform(size), 2 / std::sqrt(24), -1 / std::sqrt(24)); }),
      drawn(
          "glorot_uniform", [=] { return Tensor::glorot_uniform(shape); },
          [=](Draws& d) {
            const double b = std::sqrt(6.0 / 10);
            return scaled(d.uniform(size), 2 * b, -b);
          }),
      drawn(
          "kaiming_uniform", [=] { return Tensor::kaiming_uniform(shape); },
          [=](Draws& d) {
            const double b = std::sqrt(6 / gain / fan_in);
            return scaled(d.uniform(size), 2 * b, -b);
          }),
      drawn(
          "kaiming_normal", [=] { return Tensor::kaiming_normal(shape); },
          [=](Draws& d) { return scaled(d.normal(size), std::sqrt(2 / gain / fan_in)); })
          .within(16),
      drawn(
          "dropout: in training",
          [=] {
            const KnobScope training(Knob::TRAINING, 1);
            return Tensor::ones(shape).dropout(.25);
          },
          [=](Draws& d) { return map(d.uniform(size), [](double v) { return v >= .25 ? 1 / .75 : 0; }); }),
  };
}

}  // namespace

TABLE_TEST_CASE("values", values)
TABLE_TEST_CASE("fills", fills)
TABLE_TEST_CASE("number sequences", sequences)
TABLE_TEST_CASE("random numbers", random_numbers)
TABLE_TEST_CASE("distributions", distributions)
