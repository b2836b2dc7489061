// Sessions of ONNX models: control flow, functions, errors, and what is not compiled.
#include "base/mmap.h"
#include "engine/counters.h"
#include "formats/onnx/check.h"
#include "formats/onnx/session.h"

#include "support/onnx_model.h"
#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

Tensor vec(std::vector<float> v) { return Tensor::from(v); }
std::vector<int64_t> one(int64_t v) { return {v}; }

}  // namespace

TEST_CASE("inputs are checked") {
  const Loaded m(model(input("x", 1, {-1}) + node("Neg", {"x"}, {"y"}) + output("y")));
  CHECK(m.run({{"x", vec({1, -2})}}) == std::vector<float>{-1, 2});
  CHECK(m.run({{"x", vec({3})}}) == std::vector<float>{-3});
  CHECK(contains(user_error([&] { m.run({}); }).what(), "input `x` (float32[N]) is missing"));
  CHECK(contains(user_error([&] { m.run({{"z", vec({1})}}); }).what(), "no input `z`, only x"));
  CHECK(contains(user_error([&] { m.run({{"x", Tensor::from({1, 2})}}); }).what(),
                 "`x` has to be float32[N], not int32[2]"));
  CHECK(contains(user_error([&] { m.run({{"x", Tensor::zeros({1, 2})}}); }).what(),
                 "`x` has to be float32[N], not float32[1, 2]"));
}

TEST_CASE("one error names all ops that are not supported") {
  const std::string inner = node("Frobnicate", {"x"}, {"z"}) + output("z");
  const std::string graph =
      input("x", 1, {2}) + input("c", 9, {}) + node("Zap", {"x"}, {"a"}, "", "my.domain") +
      node("If", {"c"}, {"y"}, attribute("then_branch", 6, inner) + attribute("else_branch", 6, inner)) +
      output("y");
  CHECK(contains(
      user_error([&] { Loaded m(model(graph)); }).what(),
      "2 of the model's ops are not supported: Frobnicate (2 nodes: `z`, `z`), my.domain.Zap (1 node: `a`)"));
}

TEST_CASE("errors name the op and its inputs") {
  const Loaded m(model(input("x", 1, {-1}) + initializer(tensor("s", {2}, std::vector<int64_t>{3, 5})) +
                       node("Reshape", {"x", "s"}, {"y"}) + output("y")));
  const std::string text = user_error([&] { m.run({{"x", vec({1, 2})}}); }).what();
  CHECK(contains(text, "while running Reshape for `y` with float32[2] int64[2]"));
  const Loaded gone(model(input("x", 1, {-1}) + node("Neg", {"nothing"}, {"y"}) + output("y")));
  CHECK(contains(user_error([&] { gone.run({{"x", vec({1})}}); }).what(),
                 "reads `nothing`, which nothing gives"));
}

TEST_CASE("shape arithmetic runs no kernels") {
  // x (N, 6) to (N * 2, 3), the sizes computed as exporters do.
  const Loaded m(model(input("x", 1, {-1, 6}) + initializer(tensor("zero", {}, one(0))) +
                       initializer(tensor("axis", {1}, one(0))) + initializer(tensor("two", {}, one(2))) +
                       initializer(tensor("three", {1}, one(3))) + node("Shape", {"x"}, {"shape"}) +
                       node("Gather", {"shape", "zero"}, {"n"}) + node("Mul", {"n", "two"}, {"n2"}) +
                       node("Unsqueeze", {"n2", "axis"}, {"n3"}) +
                       node("Concat", {"n3", "three"}, {"to"}, attribute("axis", 0)) +
                       node("Reshape", {"x", "to"}, {"y"}) + output("y")));
  const Tensor x = Tensor::arange(12).to_float().reshape({2, 6}).realize();
  const uint64_t before = counters().kernels;
  const onnx::Values out = m.session.run({{"x", x}});
  CHECK(counters().kernels == before);
  CHECK(out.at(0).shape() == std::vector<int64_t>{4, 3});
}

TEST_CASE("what follows from the model alone is computed once") {
  const Loaded m(model(input("x", 1, {2}) + initializer(tensor("w", {2}, std::vector<float>{4, 9})) +
                       node("Sqrt", {"w"}, {"r"}) + node("Mul", {"x", "r"}, {"y"}) + output("y")));
  const uint64_t before = counters().kernels;
  CHECK(m.run({{"x", vec({1, 1})}}) == std::vector<float>{2, 3});
  CHECK(counters().kernels == before + 1);
}

TEST_CASE("branches and loops") {
  const Loaded choice(choice_model());
  CHECK(choice.run({{"x", vec({1, 2})}, {"c", Tensor(Scalar(true))}}) == std::vector<float>{2, 4});
  CHECK(choice.run({{"x", vec({1, 2})}, {"c", Tensor(Scalar(false))}}) == std::vector<float>{0, 0});

  // v doubles until it reaches 50, or for n rounds; every value is kept.
  const std::string body = input("i", 7, {}) + input("go", 9, {}) + input("v", 1, {}) +
                           initializer(tensor("limit", {}, std::vector<float>{50})) +
                           node("Add", {"v", "v"}, {"v2"}) + node("Less", {"v2", "limit"}, {"go2"}) +
                           node("Identity", {"v2"}, {"kept"}) + output("go2", 9) + output("v2") +
                           output("kept");
  const Loaded loop(model(input("n", 7, {}) + input("v0", 1, {}) +
                          node("Loop", {"n", "", "v0"}, {"last", "all"}, attribute("body", 6, body)) +
                          output("all") + output("last")));
  const auto run = [&](int64_t n, float v) {
    return loop.run(
        {{"n", Tensor::from(one(n), Shape{})}, {"v0", Tensor::from(std::vector<float>{v}, Shape{})}});
  };
  CHECK(run(3, 1) == std::vector<float>{2, 4, 8});
  CHECK(run(100, 10) == std::vector<float>{20, 40, 80});
  CHECK(run(0, 10).empty());
}

TEST_CASE("functions of the model") {
  // f(a) = LeakyRelu(a, alpha = k) + 1
  const std::string reference = field(5, field(1, "alpha") + field(21, "k"));
  const auto as_function_node = [](const std::string& node_field) {  // field 1 of a graph, 7 of a function
    std::string out = node_field;
    out[0] = static_cast<char>(7 << 3 | 2);
    return out;
  };
  const std::string function = field(1, "f") + field(10, "mine") + field(4, "a") + field(5, "r") +
                               field(6, "k") + as_function_node(node("LeakyRelu", {"a"}, {"t"}, reference)) +
                               as_function_node(node("Constant", {}, {"c"}, attribute("value_float", 1.0F))) +
                               as_function_node(node("Add", {"t", "c"}, {"r"})) +
                               field(9, field(1, "") + field(2, 21));
  const Loaded m(
      model(input("x", 1, {2}) + node("f", {"x"}, {"y"}, attribute("k", 0.5F), "mine") + output("y"), 21,
            field(25, function)));
  CHECK(m.run({{"x", vec({-4, 4})}}) == std::vector<float>{-1, 5});

  const std::string endless = field(1, "g") + field(10, "mine") + field(4, "a") + field(5, "r") +
                              as_function_node(node("g", {"a"}, {"r"}, "", "mine")) + field(9, field(2, 21));
  const Loaded circle(
      model(input("x", 1, {2}) + node("g", {"x"}, {"y"}, "", "mine") + output("y"), 21, field(25, endless)));
  CHECK(contains(user_error([&] { circle.run({{"x", vec({1, 2})}}); }).what(), "function g calls itself"));
}

TEST_CASE("folders of expected results") {
  TempDir dir;
  const auto make_case = [&](const std::string& name, float expected) {
    const auto folder = dir.path() / name / "test_data_set_0";
    std::filesystem::create_directories(folder);
    write_file_atomically((dir.path() / name / "model.onnx").string(),
                          model(input("x", 1, {2}) + node("Neg", {"x"}, {"y"}) + output("y")));
    write_file_atomically((folder / "input_0.pb").string(), tensor("x", {2}, std::vector<float>{1, 2}));
    write_file_atomically((folder / "output_0.pb").string(),
                          tensor("y", {2}, std::vector<float>{-1, expected}));
  };
  make_case("good", -2.0000001F);
  make_case("wrong", -2.5F);
  std::filesystem::create_directories(dir.path() / "empty");
  write_file_atomically((dir.path() / "empty/model.onnx").string(), model(""));
  const auto cases = onnx::find_cases(dir.path().string());
  REQUIRE(cases.size() == 3);
  CHECK(onnx::check_case(cases[0]).outcome == onnx::CheckedCase::Outcome::Skipped);
  CHECK(onnx::check_case(cases[1]).outcome == onnx::CheckedCase::Outcome::Passed);
  const auto wrong = onnx::check_case(cases[2]);
  CHECK(wrong.outcome == onnx::CheckedCase::Outcome::Failed);
  CHECK(contains(wrong.reason, "output `y`: 1 of 2 elements differ, the first at 1: -2.0 instead of -2.5"));
}
