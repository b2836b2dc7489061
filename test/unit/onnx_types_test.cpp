// Models whose values are not float32: narrow floats, quantised tensors, strings.
#include "formats/onnx/session.h"
#include "unit/tensor_check.h"

#include <algorithm>
#include <cmath>

#include "support/onnx_model.h"
#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// An initializer with the elements of a tensor.
std::string constant(const char* name, const Tensor& t) {
  std::string body;
  for (int64_t d : onnx::sizes_of(t)) body += field(1, d);
  const std::vector<std::byte> raw = t.bytes();
  return initializer(body + field(2, static_cast<int>(onnx::element_type_of(t.dtype()))) + field(8, name) +
                     field(9, std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size())));
}

std::string strings(const char* name, const std::vector<std::string>& items) {
  std::string body = field(1, static_cast<int64_t>(items.size())) + field(2, 8) + field(8, name);
  for (const std::string& s : items) body += field(6, std::string_view(s));
  return initializer(body);
}

}  // namespace

TEST_CASE("models of half and bfloat16") {
  for (DType d : {DType::Float16, DType::BFloat16}) {
    const int type = static_cast<int>(onnx::element_type_of(d));
    const Tensor w = floats({1, -2, 3, .5f, .25f, 2}, {2, 3}).cast(d);
    const Loaded m(model(input("x", type, {-1, 2}) + constant("w", w) + node("MatMul", {"x", "w"}, {"p"}) +
                         node("Softmax", {"p"}, {"s"}) + node("Cast", {"s"}, {"wide"}, attribute("to", 1)) +
                         output("s", type) + output("wide")));
    const double p[] = {1 + .5 * 2, -2 + .25 * 2, 3 + 2 * 2}, top = std::exp(p[2]),
                 sum = std::exp(p[0]) + std::exp(p[1]) + top;
    const onnx::Values out = m.session.run({{"x", floats({1, 2}, {1, 2}).cast(d)}});
    CHECK(out.at(0).tensor().dtype() == d);
    check_values(out.at(0).tensor(), {std::exp(p[0]) / sum, std::exp(p[1]) / sum, top / sum}, 1e-2);
    CHECK(out.at(1).tensor().dtype() == DType::Float32);
    CHECK(out.at(1).tensor().to_vector<float>() == out.at(0).tensor().to_vector<float>());
  }
}

TEST_CASE("models that quantise and dequantise") {
  // x and the weights of a 1x1 convolution in steps of 1/8 and 1/4, the latter a channel each; sums in steps
  // of 1.
  const Loaded m(model(
      input("x", 1, {1, 2, -1, 1}) + constant("xs", floats({.125f}, {})) +
      constant("xz", Tensor::constant_of({}, 128, DType::UInt8).clone()) +
      constant("w", Tensor::from(std::vector<int8_t>{4, -8, 12, 2}, {2, 2, 1, 1})) +
      constant("ws", floats({.25f, .5f})) + constant("wz", Tensor::from(std::vector<int8_t>{0, 0})) +
      constant("ys", floats({1}, {})) + constant("yz", Tensor::constant_of({}, 0, DType::Int8).clone()) +
      node("QuantizeLinear", {"x", "xs", "xz"}, {"xq"}) +
      node("DequantizeLinear", {"xq", "xs", "xz"}, {"xd"}) +
      node("DequantizeLinear", {"w", "ws", "wz"}, {"wd"}, attribute("axis", 0)) +
      node("Conv", {"xd", "wd"}, {"c"}) + node("QuantizeLinear", {"c", "ys", "yz"}, {"cq"}) +
      node("DequantizeLinear", {"cq", "ys", "yz"}, {"y"}) + output("cq", 3) + output("y")));
  // 1.3 is 10 steps and 40 is more than there are: 127 steps.
  const onnx::Values out = m.session.run({{"x", floats({1.3f, 40, -2, .0625f}, {1, 2, 2, 1})}});
  const double x[2][2] = {{1.25, 15.875}, {-2, 0}};
  std::vector<double> expected;
  for (int c : {0, 1})
    for (int i : {0, 1}) {
      const double weights[2][2] = {{1, -2}, {6, 1}};
      expected.push_back(
          std::clamp(std::nearbyint(weights[c][0] * x[0][i] + weights[c][1] * x[1][i]), -128.0, 127.0));
    }
  CHECK(out.at(0).tensor().dtype() == DType::Int8);
  check_values(out.at(0).tensor(), expected);
  check_values(out.at(1).tensor(), expected);
}

TEST_CASE("models of strings") {
  const Loaded m(model(input("words", 8, {-1}) + strings("tail", {"!"}) + strings("known", {"yes!"}) +
                       node("StringConcat", {"words", "tail"}, {"loud"}) +
                       node("Equal", {"loud", "known"}, {"hit"}) +
                       node("RegexFullMatch", {"loud"}, {"short"}, attribute("pattern", ".{0,3}")) +
                       output("loud", 8) + output("hit", 9) + output("short", 9)));
  const onnx::Values out = m.session.run({{"words", onnx::Strings{{3}, {"yes", "no", "maybe"}}}});
  CHECK(out.at(0).strings().items == std::vector<std::string>{"yes!", "no!", "maybe!"});
  CHECK(out.at(1).tensor().to_vector<bool>() == std::vector<bool>{true, false, false});
  CHECK(out.at(2).tensor().to_vector<bool>() == std::vector<bool>{false, true, false});
  CHECK(m.session.run({{"words", onnx::Strings{{1}, {"a"}}}}).at(0).strings().items ==
        std::vector<std::string>{"a!"});
}
