// Graphs that a session keeps, and what it does to run them again; weights in files.
#include "base/knobs.h"
#include "base/mmap.h"
#include "engine/counters.h"
#include "runtime/allocator.h"
#include "tensor/jit.h"

#include <cmath>
#include <thread>
#include <utility>

#include "support/onnx_model.h"
#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

Tensor vec(std::vector<float> v) { return Tensor::from(v); }
Tensor counting(const Shape& shape) {
  std::vector<float> v;
  for (int64_t i = 0; i < prod(shape).value(); i++) v.push_back(static_cast<float>(i));
  return Tensor::from(v, shape);
}
std::vector<int64_t> list(std::vector<int64_t> v) { return v; }

// y = relu(x w) with N rows.
std::string product_model() {
  return model(input("x", 1, {-1, 2}) +
               initializer(tensor("w", {2, 3}, std::vector<float>{1, 0, -1, 0, 1, 1})) +
               node("MatMul", {"x", "w"}, {"p"}) + node("Relu", {"p"}, {"y"}) + output("y"));
}

}  // namespace

TEST_CASE("a second run of the same shapes builds and compiles nothing") {
  const Loaded m(product_model());
  CHECK(m.run({{"x", counting({1, 2})}}) == std::vector<float>{0, 1, 1});
  CHECK(m.session.plans() == 1);
  const Tensor x = vec({3, -1}).reshape({1, 2});
  const Counters before = counters();
  const onnx::Values out = m.session.run({{"x", x}});
  CHECK(counters().compiled == before.compiled);
  CHECK(counters().schedules == before.schedules + 1);  // from the cache
  CHECK(m.session.plans() == 1);
  CHECK(out.at(0).tensor().to_vector<float>() == std::vector<float>{3, 0, 0});
  // Other sizes of an open axis become another graph; the first is still there.
  CHECK(m.run({{"x", counting({2, 2})}}) == std::vector<float>{0, 1, 1, 2, 3, 1});
  CHECK(m.session.plans() == 2);
  CHECK(m.run({{"x", counting({1, 2})}}) == std::vector<float>{0, 1, 1});
  CHECK(m.session.plans() == 2);
}

TEST_CASE("outputs of runs are apart") {
  const Loaded m(product_model());
  const onnx::Values first = m.session.run({{"x", counting({1, 2})}});
  const onnx::Values second = m.session.run({{"x", vec({3, -1}).reshape({1, 2})}});
  CHECK(first.at(0).tensor().to_vector<float>() == std::vector<float>{0, 1, 1});
  CHECK(second.at(0).tensor().to_vector<float>() == std::vector<float>{3, 0, 0});
}

TEST_CASE("outputs that are inputs or constants") {
  const Loaded m(model(input("x", 1, {-1}) + initializer(tensor("w", {2}, std::vector<float>{4, 9})) +
                       node("Identity", {"x"}, {"same"}) + node("Identity", {"w"}, {"weight"}) +
                       node("Shape", {"x"}, {"size"}) + node("Neg", {"x"}, {"less"}) + output("same") +
                       output("weight") + output("size", 7) + output("less")));
  for (float v : {1.0F, 2.0F, 3.0F}) {
    const onnx::Values out = m.session.run({{"x", vec({v, v, v})}});
    CHECK(out.at(0).tensor().to_vector<float>() == std::vector<float>{v, v, v});
    CHECK(out.at(1).tensor().to_vector<float>() == std::vector<float>{4, 9});
    CHECK(out.at(2).tensor().to_vector<int64_t>() == std::vector<int64_t>{3});
    CHECK(out.at(3).tensor().to_vector<float>() == std::vector<float>{-v, -v, -v});
  }
  CHECK(m.session.plans() == 1);
}

TEST_CASE("inputs in any place") {
  const Loaded m(model(input("x", 1, {-1}) + node("Neg", {"x"}, {"y"}) + output("y")));
  const Tensor base = counting({6}).realize();
  CHECK(m.run({{"x", base.at(Slice{2, 4})}}) == std::vector<float>{-2, -3});
  CHECK(m.run({{"x", base.at(Slice{4, 2, -1})}}) == std::vector<float>{-4, -3});
  CHECK(m.run({{"x", base.at(Slice{none, none, 3}).mul(2)}}) == std::vector<float>{0, -6});
  CHECK(m.run({{"x", Tensor::constant_of({2}, 1.5, DType::Float32)}}) == std::vector<float>{-1.5, -1.5});
  CHECK(m.run({{"x", Tensor::constant_of({2}, 2.5, DType::Float32)}}) == std::vector<float>{-2.5, -2.5});
}

TEST_CASE("numbers that decide how the graph looks belong to it") {
  // x to the shape that an input gives.
  const Loaded m(model(input("x", 1, {-1}) + input("to", 7, {2}) + node("Reshape", {"x", "to"}, {"r"}) +
                       node("Neg", {"r"}, {"y"}) + output("y")));
  const auto shape = [&](const std::vector<int64_t>& to) {
    return m.session.run({{"x", counting({6})}, {"to", Tensor::from(to)}}).at(0).shape();
  };
  CHECK(shape({2, 3}) == list({2, 3}));
  CHECK(shape({3, 2}) == list({3, 2}));
  CHECK(m.session.plans() == 2);
  CHECK(shape({2, 3}) == list({2, 3}));
  CHECK(m.session.plans() == 2);

  const Loaded choice(choice_model());
  for (int i = 0; i < 3; i++)
    for (bool c : {true, false}) {
      const Tensor truth = Tensor::from(std::vector<bool>{c}, Shape{});
      CHECK(choice.run({{"x", vec({1, 2})}, {"c", truth}}) ==
            (c ? std::vector<float>{2, 4} : std::vector<float>{0, 0}));
    }
  CHECK(choice.session.plans() == 2);
  CHECK(onnx::value_dependent_ops(choice.session.model()).at(0).to_string() == "If (1 node: `y`)");
}

TEST_CASE("graphs that follow from computed values are not kept") {
  const Loaded m(model(input("x", 1, {-1}) + node("Exp", {"x"}, {"e"}) + node("Floor", {"e"}, {"f"}) +
                       node("NonZero", {"f"}, {"y"}) + output("y", 7)));
  const auto run = [&](const Tensor& x) { return m.session.run({{"x", x}}).at(0).tensor().to_vector<int>(); };
  CHECK(run(vec({-1, 1, 2})) == std::vector<int>{1, 2});
  CHECK(run(vec({1, -1, 2})) == std::vector<int>{0, 2});
  const std::vector<float> many(100000, 1.0F);
  CHECK(run(Tensor::from(many)).size() == 100000);
  std::vector<float> few(100000, -1.0F);
  few[7] = 1;
  CHECK(run(Tensor::from(few)) == std::vector<int>{7});

  const Loaded random(model(input("x", 1, {2}) + node("RandomNormalLike", {"x"}, {"y"}) + output("y")));
  const Tensor x = vec({1, 2});
  CHECK(random.run({{"x", x}}) != random.run({{"x", x}}));
  CHECK(random.session.plans() == 0);
}

TEST_CASE("a model in a captured function") {
  for (bool has_plan : {true, false}) {
    const Loaded m(product_model());
    bool skips = !has_plan;
    auto f = jit([&](const Tensor& x) {
      if (std::exchange(skips, false)) return x + 1;
      return m.session.run({{"x", x}}).at(0).tensor() + 1;
    });
    for (int i = 0; i < 5; i++) {
      const auto v = static_cast<float>(i);
      const std::vector<float> y = f(vec({v, -1}).reshape({1, 2})).to_vector<float>();
      if (i > 0) CHECK(y == std::vector<float>{v + 1, 1, 1});
    }
    CHECK(f.is_captured());
    CHECK(m.session.plans() == (has_plan ? 1U : 0U));
  }
}

TEST_CASE("a run that fails holds no memory, and the next one works") {
  const Loaded m(model(input("x", 1, {-1}) + node("Neg", {"x"}, {"y"}) + output("y")));
  m.run({{"x", counting({1000})}});
  const int64_t before = memory_used();
  {
    const Tensor x = counting({1000}).realize();
    KnobScope limit(Knob::MAX_BUFFER_SIZE, 100);
    CHECK(contains(user_error([&] { m.run({{"x", x}}); }).what(), "is too large"));
  }
  CHECK(memory_used() == before);
  CHECK(m.run({{"x", counting({1000})}}).at(7) == -7);
}

TEST_CASE("a session on two threads") {
  const Loaded m(product_model());
  std::vector<int> wrong(2, 0);
  const auto work = [&](size_t which) {
    for (int i = 0; i < 20; i++) {
      const float v = static_cast<float>(20 * static_cast<int>(which) + i);
      const auto y = m.run({{"x", vec({v, 1}).reshape({1, 2})}});
      wrong[which] += y != std::vector<float>{v, 1, std::max(1 - v, 0.0F)};
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  CHECK(wrong == std::vector<int>{0, 0});
}

TEST_CASE("large weights stay in their file") {
  TempDir dir;
  // A sparse file of 3 GiB that holds two tables; the last row of the second one is all that is in it.
  constexpr int64_t kRows = int64_t{1} << 18, kWidth = 1024, kOffset = int64_t{2} << 30;
  write_file_atomically(dir.file("weights"), std::string_view("x"));
  std::filesystem::resize_file(dir.file("weights"),
                               static_cast<uint64_t>(kOffset + kRows * kWidth * 4 - 4096));
  {
    std::string row(4096, '\0');
    const float nine = 9;
    for (size_t i = 0; i < 1024; i++) std::memcpy(row.data() + 4 * i, &nine, 4);
    std::FILE* f = std::fopen(dir.file("weights").c_str(), "ab");
    REQUIRE(f);
    REQUIRE(std::fwrite(row.data(), 1, row.size(), f) == row.size());
    std::fclose(f);
  }
  const auto entry = [](const char* key, const std::string& value) {
    return field(13, field(1, key) + field(2, std::string_view(value)));
  };
  const std::string table = field(1, kRows) + field(1, kWidth) + field(2, 1) + field(8, "w") +
                            entry("location", "weights") + entry("offset", std::to_string(kOffset)) +
                            entry("length", std::to_string(kRows * kWidth * 4));
  write_file_atomically(dir.file("m.onnx"), model(input("i", 7, {1}) + initializer(table) +
                                                  node("Gather", {"w", "i"}, {"y"}) + output("y")));
  const int64_t before = memory_used();
  const onnx::Session session(dir.file("m.onnx"));
  CHECK(memory_used() - before < (1 << 20));
  const auto y = session.run({{"i", Tensor::from(list({kRows - 1}))}}).at(0).tensor().to_vector<float>();
  REQUIRE(y.size() == kWidth);
  CHECK(y[0] == 9);
  CHECK(y.back() == 9);
  CHECK(memory_used() - before < (1 << 20));
}
