// Sizes and places known at launch: every operation against shapes of numbers, one kernel for all values,
// replays.
#include "base/knobs.h"
#include "engine/counters.h"
#include "engine/schedule_cache.h"
#include "tensor/jit.h"
#include "unit/tensor_check.h"
#include "uop/variable.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

void on_devices(const std::function<void()>& f) {
  for (const char* name : {"CPU", "CPU:C", "INTERP"}) {
    INFO("device ", std::string(name));
    KnobScope device(Knob::DEV, name);
    f();
  }
}

// Numbers around 0 that do not repeat within a row.
Tensor numbers(const Shape& shape, int step = 7) {
  std::vector<float> values(static_cast<size_t>(prod(shape).value()));
  for (size_t i = 0; i < values.size(); i++)
    values[i] = static_cast<float>(static_cast<int>(i) * step % 23 - 9) / 4;
  return Tensor::from(values, shape);
}

const Slice kAll;
constexpr int64_t kMost = 6;

// A function of x (2, n, 4).
struct Row {
  std::string name;
  std::function<Tensor(const Tensor& x, const SInt& n)> f;
};

struct Result {
  Shape shape;
  std::vector<double> values;
};

Shape numbers_of(const Shape& shape) {
  Shape out;
  for (const SInt& d : shape) out.push_back(value_of(d).value());
  return out;
}

Result result_of(const Row& row, const SInt& n) {
  const Tensor x = numbers({2, kMost, 4}).at(kAll, Slice{0, n});
  const Tensor y = row.f(x, n);
  return {numbers_of(y.shape()), y.to_vector<double>()};
}

void check(const std::vector<Row>& rows) {
  const Variable n("n", 1, kMost);
  for (const Row& row : rows) {
    INFO(row.name);
    std::vector<Result> expected;
    for (int64_t v = 1; v <= kMost; v++) {
      KnobScope device(Knob::DEV, "INTERP");
      expected.push_back(result_of(row, v));
    }
    on_devices([&] {
      for (int64_t v = 1; v <= kMost; v++) {
        INFO("n = ", v);
        const Result &want = expected[static_cast<size_t>(v - 1)], got = result_of(row, n.bind(v));
        if (v == 1) reset_counters();
        CHECK(got.shape == want.shape);
        REQUIRE(got.values.size() == want.values.size());
        for (size_t i = 0; i < got.values.size(); i++)
          CHECK(got.values[i] == doctest::Approx(want.values[i]).epsilon(1e-5));
      }
      CHECK(schedule_cache_hit());
      CHECK(counters().compiled == 0);
    });
  }
}

}  // namespace

TEST_CASE("variables have names, bounds and values") {
  const Variable n("n", 2, 8, 2);
  CHECK(n.name() == "n");
  const auto [bare, value] = n.bind(4).unbind();
  CHECK(bare == n);
  CHECK(value == 4);
  CHECK(n.bind(4) == n.bind(4));
  CHECK(!(n.bind(4) == n.bind(6)));
  CHECK(value_of(n.bind(4) * 3 + 1) == 13);
  CHECK(!value_of(n + 1));
  CHECK(Variable("one", 1, 1).bind(1) == SInt(1));
  const auto refused = [](auto f, UserError::Kind kind, std::string_view text) {
    const UserError error = user_error(f);
    CHECK(error.kind() == kind);
    CHECK(contains(error.what(), text));
  };
  using Kind = UserError::Kind;
  refused([&] { n.bind(9); }, Kind::Value, "cannot bind 9 to Variable n: it is in 2..8");
  refused([&] { n.bind(1); }, Kind::Value, "cannot bind 1 to Variable n: it is in 2..8");
  refused([&] { n.bind(3); }, Kind::Value, "cannot bind 3 to Variable n: it is a multiple of 2");
  refused([&] { n.unbind(); }, Kind::Runtime, "Variable n has no value");
  refused([] { Variable("n", 3, 2); }, Kind::Value, "lower bound 3 is above upper bound 2");
  refused([] { Variable("", 1, 2); }, Kind::Value, "a Variable needs a name");

  const Tensor x = numbers({9});
  const auto part = [&](const SInt& to) { return x.at(Slice{0, to}); };
  refused([&] { (part(n) + 1).realize(); }, Kind::Runtime, "unbound Variable n used by e_");
  refused([&] { part(n).to_vector<float>(); }, Kind::Value, "cannot read a tensor of symbolic shape (n,)");
  refused([&] { (part(n.bind(2)).sum() + part(n.bind(4)).sum()).realize(); }, Kind::Runtime,
          "bind mismatch on n, 2 != 4");
  refused([&] { (part(n.bind(2)).sum() + part(n).sum()).realize(); }, Kind::Runtime,
          "Variable n is used with and without its value");
  refused([&] { (part(n.bind(2)).sum() + part(Variable("n", 1, 9).bind(2)).sum()).realize(); }, Kind::Runtime,
          "two Variables with other bounds are called n");
  const Variable wide("wide", 1, 20);
  refused([&] { part(wide.bind(10)); }, Kind::Value, "invalid shrink [0, wide) of axis 0");
  // What is outside for other values is never touched: the kernel has to be right for all of them.
  check_values(part(wide.bind(3)).sum(), {-2.25 - 0.5 + 1.25});
}

TEST_CASE("elementwise, movement and memory") {
  check({
      {"a view", [](auto& x, auto&) { return x; }},
      {"arithmetic", [](auto& x, auto&) { return (x * 2 + 1).exp().sqrt(); }},
      {"two views", [](auto& x, auto&) { return x + x.flip(1); }},
      {"broadcast", [](auto& x, auto&) { return x + numbers({4}) * numbers({2, 1, 1}); }},
      {"the size as a value", [](auto& x, auto& n) { return x * Tensor(n.uop()); }},
      {"cast", [](auto& x, auto&) { return (x * 4).to_int().to_double() / 3; }},
      {"permute", [](auto& x, auto&) { return x.permute({1, 2, 0}).contiguous() + 1; }},
      {"expand", [](auto& x, auto& n) { return x.unsqueeze(1).expand({2, 3, n, 4}) + numbers({3, 1, 1}); }},
      {"expand by n", [](auto&, auto& n) { return numbers({2, 1, 3}).expand({2, n, 3}).contiguous(); }},
      {"inner axes merge", [](auto& x, auto& n) { return x.reshape({2, n * 4}) + 1; }},
      {"outer axes merge", [](auto& x, auto&) { return x.flatten(0, 1) * 2; }},
      {"flatten", [](auto& x, auto&) { return x.flatten() * 2; }},
      {"split", [](auto& x, auto& n) { return x.reshape({2, n, 2, -1}).permute({0, 2, 1, 3}) + 1; }},
      {"constant padding",
       [](auto& x, auto&) { return x.pad({none, {1, 2}, none}, PadMode::Constant, 3) * 2; }},
      {"padding to the most", [](auto& x, auto&) { return x.pad_to({2, kMost, 4}).sum(1); }},
      {"cat with a constant", [](auto& x, auto&) { return Tensor::cat({x, numbers({2, 2, 4})}, 1) * 2; }},
      {"cat twice", [](auto& x, auto&) { return Tensor::cat({x, x + 1}, 1); }},
      {"cat of other axes", [](auto& x, auto&) { return Tensor::cat({x, x * 2}, 2); }},
      {"stack", [](auto& x, auto&) { return Tensor::stack({x, x * 2}, 1); }},
      {"repeat", [](auto& x, auto&) { return x.repeat({1, 2, 1}); }},
      {"repeat_interleave", [](auto& x, auto&) { return x.repeat_interleave(3, 1); }},
      {"clone", [](auto& x, auto&) { return x.clone().sum(1); }},
      {"zeros", [](auto&, auto& n) { return Tensor::zeros({n, 3}); }},
      {"the last row", [](auto& x, auto& n) { return x.at(kAll, n - 1) + 1; }},
      {"a row from the end", [](auto& x, auto&) { return x.at(kAll, -1); }},
      {"rows of a list", [](auto& x, auto&) { return x.at(kAll, Tensor::from({0, 0})); }},
      {"rows by symbolic positions",
       [](auto& x, auto&) { return numbers({10, 3}).at((x * 4).to_int().abs()); }},
      {"triu", [](auto& x, auto&) { return x.triu(1); }},
      {"tril", [](auto& x, auto&) { return x.tril(); }},
      {"writing a part",
       [](auto& x, auto& n) {
         Tensor whole = Tensor::ones({2, kMost + 1, 4});
         whole.set({kAll, Slice{1, n + 1}}, x * 2);
         return whole;
       }},
      {"writing all of it",
       [](auto& x, auto& n) {
         Tensor y = Tensor::zeros({2, n, 4}).realize();
         y += x;
         return y + 1;
       }},
      {"writing over what is read",
       [](auto& x, auto& n) {
         Tensor whole = Tensor::zeros({2, kMost + 1, 4}).realize();
         whole.set({kAll, Slice{0, n}}, x);
         whole.set({kAll, Slice{1, n + 1}}, whole.at(kAll, Slice{0, n}) * 2);
         return whole;
       }},
      {"gradient", [](auto& x, auto&) { return (x.square() * numbers({4})).sum().gradient({x})[0]; }},
  });
}

TEST_CASE("reductions") {
  check({
      {"sum over n", [](auto& x, auto&) { return x.sum(1); }},
      {"sum next to n", [](auto& x, auto&) { return x.sum(2); }},
      {"sum of all", [](auto& x, auto&) { return x.sum(); }},
      {"max", [](auto& x, auto&) { return x.max(1); }},
      {"min", [](auto& x, auto&) { return x.min({1, 2}); }},
      {"prod", [](auto& x, auto&) { return x.prod(1); }},
      {"mean", [](auto& x, auto&) { return x.mean(1); }},
      {"variance", [](auto& x, auto&) { return x.var({1, 2}); }},
      {"argmax", [](auto& x, auto&) { return x.argmax(1); }},
      {"argmin next to n", [](auto& x, auto&) { return x.argmin(2); }},
      {"argmax of all", [](auto& x, auto&) { return x.argmax(); }},
      {"softmax over n", [](auto& x, auto&) { return x.softmax(1); }},
      {"softmax next to n", [](auto& x, auto&) { return x.softmax(-1); }},
      {"log_softmax", [](auto& x, auto&) { return x.log_softmax(1); }},
      {"layernorm", [](auto& x, auto&) { return x.layernorm(); }},
      {"in two steps",
       [](auto& x, auto&) { return (x.sum(1, true) + x).contiguous().sum(2).contiguous() * 2; }},
      {"cumsum", [](auto& x, auto&) { return x.cumsum(1); }},
      {"cumsum next to n", [](auto& x, auto&) { return x.cumsum(2); }},
      {"cumprod", [](auto& x, auto&) { return x.cumprod(1); }},
      {"logcumsumexp", [](auto& x, auto&) { return x.logcumsumexp(1); }},
      {"cummax", [](auto& x, auto&) { return x.cummax(1).values; }},
      {"positions of cummax", [](auto& x, auto&) { return x.cummax(1).indices; }},
  });
}

TEST_CASE("products") {
  check({
      {"rows", [](auto& x, auto&) { return x.matmul(numbers({4, 5})); }},
      {"inner axis", [](auto& x, auto&) { return x.transpose(1, 2).matmul(x); }},
      {"both outer axes", [](auto& x, auto&) { return x.matmul(x.transpose(1, 2)); }},
      {"einsum", [](auto& x, auto&) { return Tensor::einsum("bnk,bmk->bnm", {x, x * 2}); }},
      {"batches of a convolution",
       [](auto& x, auto&) {
         return x.transpose(0, 1).conv2d(numbers({3, 2, 3}), numbers({3}), {.padding = 1});
       }},
      {"pooling", [](auto& x, auto&) { return x.max_pool2d({2}); }},
      {"attention", [](auto& x, auto&) { return x.scaled_dot_product_attention(x * 2, x + 1); }},
      {"causal attention",
       [](auto& x, auto&) {
         return x.scaled_dot_product_attention(x * 2, x + 1, std::nullopt, {.is_causal = true});
       }},
      {"attention of one query",
       [](auto& x, auto&) { return numbers({2, 1, 4}).scaled_dot_product_attention(x, x.flip(2)); }},
  });
}

TEST_CASE("slices of a symbolic axis count from its end") {
  const Variable i("i", 3, 9);
  const Tensor whole = numbers({3, 9, 4});
  for (int64_t v = 3; v <= 9; v++) {
    const Tensor symbolic = whole.at(kAll, Slice{0, i.bind(v)}), number = whole.at(kAll, Slice{0, v});
    CHECK(shape_text(symbolic) == "(3, i, 4)");
    for (const Slice& s : {Slice{-3, -1}, Slice{-1, none}, Slice{none, -2}, Slice{1, -1}}) {
      const Tensor got = symbolic.at(kAll, s), want = number.at(kAll, s);
      CHECK(numbers_of(got.shape()) == want.shape());
      check_values(got, want.to_vector<double>());
    }
    check_values(symbolic.at(kAll, -1), number.at(kAll, -1).to_vector<double>());
    check_values(symbolic.at(kAll, 0), number.at(kAll, 0).to_vector<double>());
  }
}

TEST_CASE("two variables, and what is only a variable") {
  const Variable i("i", 1, 4), j("j", 2, 5);
  const Tensor a = numbers({4, 3}), b = numbers({3, 5});
  for (int64_t v = 1; v <= 4; v++)
    for (int64_t w = 2; w <= 5; w++) {
      const auto f = [&](const SInt& rows, const SInt& columns) {
        return a.at(Slice{0, rows}).matmul(b.at(kAll, Slice{0, columns}));
      };
      const Tensor got = f(i.bind(v), j.bind(w)), want = f(v, w);
      check_values(got, want.to_vector<double>(), 1e-5);
      check_values(got.flatten() * 2, (want * 2).to_vector<double>(), 1e-5);
      check_values(got.reshape({j.bind(w), i.bind(v)}).softmax(0),
                   want.reshape({w, v}).softmax(0).to_vector<double>(), 1e-5);
    }
  const Tensor value(j.bind(3).uop());
  reset_counters();
  value.realize();
  CHECK(counters().kernels == 0);
  check_values(value, {3});
  check_values(value * 2 + Tensor(i.bind(4).uop()), {10});
}

TEST_CASE("a copy to another device") {
  const Variable n("n", 1, 5);
  const Tensor x = numbers({2, 5, 3});
  for (int64_t v = 1; v <= 5; v++) {
    const Tensor part = x.at(kAll, Slice{0, v}) + 1,
                 moved = (x.at(kAll, Slice{0, n.bind(v)}) + 1).to("CPU:1");
    check_values(moved, part.to_vector<double>());
    check_values(moved.sum(1), part.sum(1).to_vector<double>());
    check_values(moved.flatten().contiguous().to("CPU:2"), part.to_vector<double>());
  }
}

namespace {

// One step of decoding: the new key and value go to row `at` of the caches, and the query attends to the rows
// up to it.
struct Decoder {
  Tensor keys = Tensor::zeros({2, 32, 4}).realize(), values = Tensor::zeros({2, 32, 4}).realize();
  Tensor wk = numbers({4, 4}, 5), wv = numbers({4, 4}, 11);

  Tensor step(const Tensor& x, const SInt& at) {
    keys.set({kAll, Slice{at, at + 1}}, x.matmul(wk));
    values.set({kAll, Slice{at, at + 1}}, x.matmul(wv));
    return x.scaled_dot_product_attention(keys.at(kAll, Slice{0, at + 1}), values.at(kAll, Slice{0, at + 1}));
  }
};

Tensor token(int64_t at) { return numbers({2, 1, 4}, static_cast<int>(at) + 1); }

}  // namespace

TEST_CASE("a step over a cache is captured once and replayed at every position") {
  std::vector<std::vector<double>> expected;
  Decoder plain;
  for (int64_t at = 0; at < 32; at++) {
    KnobScope device(Knob::DEV, "INTERP");
    if (at == 0) plain = Decoder();
    expected.push_back(plain.step(token(at), at).to_vector<double>());
  }
  on_devices([&] {
    Decoder decoder;
    int calls = 0;
    auto step = jit([&](const Tensor& x, const Variable& at) {
      calls++;
      return decoder.step(x, at);
    });
    const Variable position("position", 0, 31);
    for (int64_t at = 0; at < 32; at++) {
      INFO("position ", at);
      const Tensor x = token(at);
      if (at == 2) reset_counters();
      check_values(step(x, position.bind(at)), expected[static_cast<size_t>(at)], 1e-5);
    }
    CHECK(calls == 2);
    CHECK(counters().compiled == 0);
    step(token(3), position.bind(3));  // back: what the cache held there is written again
    check_values(decoder.keys.at(kAll, 3), token(3).matmul(decoder.wk).to_vector<double>());
    CHECK(contains(user_error([&] { step(token(0), Variable("position", 0, 30).bind(0)); }).what(),
                   "args mismatch in JIT: Variables {position}"));
    CHECK(contains(user_error([&] { step(token(0), position); }).what(), "Variable position has no value"));
  });
}

TEST_CASE("captured arguments and results of symbolic shape") {
  on_devices([] {
    const Variable n("n", 1, 6);
    const Tensor x = numbers({6, 3}), y = numbers({6, 3}, 5);
    auto f =
        jit([](const Tensor& a, const Tensor& b) { return std::pair((a * b + 1).contiguous(), a.sum(0)); });
    for (int64_t v = 6; v >= 1; v--) {
      const auto [product, sum] = f(x.at(Slice{0, n.bind(v)}), y.at(Slice{0, n.bind(v)}));
      const Tensor a = x.at(Slice{0, v}), b = y.at(Slice{0, v});
      CHECK(value_of(product.shape()[0]) == v);
      check_values(product, (a * b + 1).to_vector<double>());
      check_values(product * 2, (a * b * 2 + 2).to_vector<double>());
      check_values(sum, a.sum(0).to_vector<double>());
    }
    const auto refused = [&](const Tensor& a, const Tensor& b, std::string_view text) {
      const UserError error = user_error([&] { f(a, b); });
      INFO(std::string(error.what()));
      CHECK(error.kind() == UserError::Kind::Runtime);
      CHECK(contains(error.what(), text));
    };
    refused(x.at(Slice{0, n.bind(2)}), y.at(Slice{0, n.bind(3)}), "bind mismatch on n, 2 != 3");
    refused(x.at(Slice{0, n.bind(3) - 1}), y.at(Slice{0, n.bind(3)}),
            "args mismatch in JIT: input 0 has shape ((n-1), 3)");
    refused(x.at(Slice{1, n.bind(3) + 1}), y.at(Slice{0, n.bind(3)}),
            "args mismatch in JIT: input 0 has the view");
    refused(x.at(Slice{0, 3}), y.at(Slice{0, n.bind(3)}), "args mismatch in JIT: input 0 has shape (3, 3)");
  });
}

TEST_CASE("variables that are no arguments keep the value of the capture") {
  const Variable n("n", 1, 6);
  int64_t value = 2;
  auto f = jit([&](const Tensor& x) { return x.at(Slice{0, n.bind(value)}).sum(); });
  const Tensor x = numbers({6});
  for (int i = 0; i < 2; i++) f(x);
  value = 5;
  check_values(f(x), x.at(Slice{0, 2}).sum().to_vector<double>());
  auto g = jit([&](const Tensor& y, const Variable&) { return y.at(Slice{0, n.bind(4)}).sum(); });
  g(x, n.bind(2));
  CHECK(contains(user_error([&] { g(x, n.bind(2)); }).what(), "bind mismatch on n, 2 != 4"));
}
