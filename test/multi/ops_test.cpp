// Every op over two and four devices, its operands whole or in pieces, against one device; gradients too.
#include "base/knobs.h"
#include "unit/tensor_check.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace lathe;
using namespace lathe::test;

namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;

struct Row {
  std::string name;
  std::vector<Shape> shapes;
  Function f;
  std::set<std::pair<size_t, int>> refused = {};  // (operand, axis) along which it may not be in pieces
  bool has_gradient = true;
};

const std::vector<Row> kRows = {
    {"sum of two", {{4, 8}, {4, 8}}, [](const Tensors& t) { return t[0] + t[1] * 2; }},
    {"broadcast from the left", {{4, 8}, {8}}, [](const Tensors& t) { return t[0] * t[1]; }},
    {"broadcast of a column", {{4, 8}, {4, 1}}, [](const Tensors& t) { return t[0] - t[1].exp(); }},
    {"literals and constants",
     {{4, 8}},
     [](const Tensors& t) { return t[0] * 3 + Tensor::arange(8) + t[0].const_like(2.0); }},
    {"where", {{4, 8}, {4, 8}}, [](const Tensors& t) { return (t[0] > 0).where(t[1], t[0]); }},
    {"relu, exp, sqrt",
     {{4, 8}},
     [](const Tensors& t) { return t[0].relu() + t[0].exp() + t[0].abs().sqrt(); }},
    {"cast", {{4, 8}}, [](const Tensors& t) { return t[0].cast(DType::Float64) * 2; }},
    {"bitcast",
     {{4, 8}},
     [](const Tensors& t) {
       return t[0].bitcast(DType::Int32).bitwise_and(Tensor(0x7fffffff)).bitcast(DType::Float32);
     },
     {},
     false},
    {"sum", {{4, 8}}, [](const Tensors& t) { return t[0].sum(); }},
    {"sum of axis 0", {{4, 8}}, [](const Tensors& t) { return t[0].sum(0); }},
    {"sum of axis 1", {{4, 8, 4}}, [](const Tensors& t) { return t[0].sum(1); }},
    {"mean of two axes", {{4, 8, 4}}, [](const Tensors& t) { return t[0].mean({0, 2}, true); }},
    {"max", {{4, 8}}, [](const Tensors& t) { return t[0].max(0); }},
    {"product", {{4, 8}}, [](const Tensors& t) { return t[0].prod(1); }},
    {"argmax", {{4, 8}}, [](const Tensors& t) { return t[0].argmax(-1).cast(DType::Float32); }, {}, false},
    {"standard deviation", {{4, 8}}, [](const Tensors& t) { return t[0].std(0); }},
    {"softmax", {{4, 8}}, [](const Tensors& t) { return t[0].softmax(-1); }},
    {"log softmax of columns", {{4, 8}}, [](const Tensors& t) { return t[0].log_softmax(0); }},
    {"layer norm", {{4, 8}}, [](const Tensors& t) { return t[0].layernorm(-1); }},
    {"matmul", {{4, 8}, {8, 12}}, [](const Tensors& t) { return t[0].matmul(t[1]); }},
    {"batched matmul", {{4, 4, 8}, {4, 8, 4}}, [](const Tensors& t) { return t[0].matmul(t[1]); }},
    {"linear", {{4, 8}, {12, 8}, {12}}, [](const Tensors& t) { return t[0].matmul(t[1].T()) + t[2]; }},
    {"einsum", {{4, 8}, {4, 8}}, [](const Tensors& t) { return Tensor::einsum("ij,ij->i", {t[0], t[1]}); }},
    {"convolution",
     {{4, 4, 5, 5}, {8, 4, 3, 3}},
     [](const Tensors& t) { return t[0].conv2d(t[1], {}, {.padding = 1}); }},
    {"max pool", {{4, 4, 6, 6}}, [](const Tensors& t) { return t[0].max_pool2d(); }, {{0, 2}, {0, 3}}},
    {"batch norm",
     {{4, 4, 5}, {4}, {4}},
     [](const Tensors& t) {
       const Tensor mean = t[0].mean({0, 2}), var = t[0].var(Ints{0, 2}, false, 0);
       return t[0].batchnorm(t[1], t[2], mean, (var + 1e-5).rsqrt());
     }},
    {"embedding",
     {{4}, {8, 4}},
     [](const Tensors& t) { return t[1].at(t[0].abs().mul(3).cast(DType::Int32)); }},
    {"reshape that splits an axis", {{4, 8}}, [](const Tensors& t) { return t[0].reshape({4, 4, 2}); }},
    {"reshape that merges axes", {{4, 8}}, [](const Tensors& t) { return t[0].reshape({32}); }, {{0, 1}}},
    {"reshape with axes of 1", {{4, 8}}, [](const Tensors& t) { return t[0].reshape({1, 4, 1, 8, 1}); }},
    {"reshape of other rows", {{4, 8}}, [](const Tensors& t) { return t[0].reshape({8, 4}); }, {{0, 1}}},
    {"permute", {{4, 8, 12}}, [](const Tensors& t) { return t[0].permute({2, 0, 1}); }},
    {"expand", {{4, 1, 8}}, [](const Tensors& t) { return t[0].expand({3, 4, 5, 8}); }},
    {"shrink", {{4, 8}}, [](const Tensors& t) { return t[0].shrink({none, {2, 7}}); }, {{0, 1}}},
    {"pad", {{4, 8}}, [](const Tensors& t) { return t[0].pad({1, 2, 0, 0}); }, {{0, 1}}},
    {"flip", {{4, 8}}, [](const Tensors& t) { return t[0].flip(0); }, {{0, 0}}},
    {"stack", {{4, 8}, {4, 8}}, [](const Tensors& t) { return Tensor::stack({t[0], t[1]}, 1); }},
    {"cat",
     {{4, 8}, {4, 8}},
     [](const Tensors& t) { return Tensor::cat({t[0], t[1]}, 0); },
     {{0, 0}, {1, 0}}},
    {"attention",
     {{4, 4, 4, 8}, {4, 4, 4, 8}, {4, 4, 4, 8}},
     [](const Tensors& t) { return t[0].scaled_dot_product_attention(t[1], t[2]); }},
    {"cross entropy",
     {{4, 8}},
     [](const Tensors& t) { return t[0].sparse_categorical_crossentropy(Tensor::arange(4)); }},
    {"contiguous and detach", {{4, 8}}, [](const Tensors& t) { return t[0].contiguous() * t[0].detach(); }},
};

std::vector<std::string> devices_of(size_t n) {
  std::vector<std::string> out;
  for (size_t i = 0; i < n; i++) out.push_back("CPU:" + std::to_string(i));
  return out;
}

// Different everywhere, of both signs.
Tensor operand(const Shape& shape, size_t number) {
  const auto n = static_cast<size_t>(prod(shape).value());
  std::vector<float> values(n);
  for (size_t i = 0; i < n; i++) values[i] = static_cast<float>((i * 37 + number * 11) % 61) / 24.0F - 1.2F;
  return Tensor::from(values, shape);
}

// The result, then the gradients of a weighted sum of it.
Tensors values_of(const Row& row, const Tensors& operands) {
  const Tensor y = row.f(operands);
  Tensors out{y};
  if (!row.has_gradient) return out;
  const Tensor weight = Tensor::arange(y.numel().value()).reshape(y.shape()).cast(y.dtype()) * 0.1 + 1;
  for (const Tensor& g : (y * weight).sum().gradient(operands)) out.push_back(g);
  Tensor::realize(out);
  return out;
}

// Axis of each operand, -1 for none.
void check(const Row& row, const Tensors& whole, const Tensors& expected, size_t n,
           const std::vector<int>& axes) {
  Tensors operands;
  std::string text;
  bool is_refused = false;
  for (size_t i = 0; i < whole.size(); i++) {
    const auto axis = axes[i] < 0 ? std::nullopt : std::optional<int64_t>(axes[i]);
    operands.push_back(whole[i].shard(devices_of(n), axis));
    text += std::to_string(axes[i]) + " ";
    is_refused = is_refused || row.refused.contains({i, axes[i]});
  }
  INFO(row.name, ", ", n, " devices, axes ", text);
  if (is_refused) {
    const std::string error = user_error([&] {
                                for (const Tensor& t : values_of(row, operands)) t.bytes();
                              }).what();
    CHECK((contains(error, "not supported") || contains(error, "moved items between shards")));
    return;
  }
  const Tensors got = values_of(row, operands);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); i++) check_values(got[i], expected[i].to_vector<double>(), 2e-5);
}

void check_row(const Row& row) {
  Tensors whole;
  for (size_t i = 0; i < row.shapes.size(); i++) whole.push_back(operand(row.shapes[i], i));
  const Tensors expected = values_of(row, whole);
  for (const size_t n : {size_t{2}, size_t{4}}) {
    std::vector<int> none(whole.size(), -1);
    check(row, whole, expected, n, none);
    for (size_t i = 0; i < whole.size(); i++)
      for (int axis = 0; axis < whole[i].ndim(); axis++) {
        if (whole[i].size(axis).value() % static_cast<int64_t>(n)) continue;
        std::vector<int> one = none, all = none;
        one[i] = axis;
        check(row, whole, expected, n, one);
        if (i > 0) continue;
        for (size_t k = 0; k < whole.size(); k++)
          if (axis < whole[k].ndim() && whole[k].size(axis).value() % static_cast<int64_t>(n) == 0)
            all[k] = axis;
        if (all != one) check(row, whole, expected, n, all);
      }
  }
}

}  // namespace

TEST_CASE("ops over several devices have the values and gradients of one device") {
  for (const Row& row : kRows) SUBCASE(row.name.c_str()) {
      check_row(row);
    }
}

TEST_CASE("operands in pieces along different axes meet along that of the last") {
  const Tensor x = operand({4, 8}, 0), y = operand({4, 8}, 1);
  for (const size_t n : {size_t{2}, size_t{4}}) {
    const Tensor z = x.shard(devices_of(n), 1) * y.shard(devices_of(n), 0);
    CHECK(z.shard_axis() == 0);
    check_values(z, (x * y).to_vector<double>());
  }
}

TEST_CASE("sums over pieces are the same whichever way they travel") {
  for (const size_t n : {size_t{2}, size_t{4}})
    for (const int count : {1, 7, 36, 1000}) {
      std::vector<float> values(n * static_cast<size_t>(count)), sums(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); i++) {
        values[i] = static_cast<float>(i % 17);
        sums[i % static_cast<size_t>(count)] += values[i];
      }
      const Tensor x = Tensor::from(values, {static_cast<int64_t>(n), count});
      for (const auto& [ring, all_to_all] :
           std::vector<std::pair<int, int>>{{0, 0}, {2, 0}, {0, 2}, {2, 2}}) {
        INFO(n, " devices, ", count, " elements, RING=", ring, " ALL2ALL=", all_to_all);
        const KnobScope r(Knob::RING, ring), a(Knob::ALL2ALL, all_to_all);
        const Tensor y = x.shard(devices_of(n), 0).sum(0).realize();
        check_values(y, std::vector<double>(sums.begin(), sums.end()));
        for (const std::string& d : devices_of(n)) CHECK(y.to(d).to_vector<float>() == sums);
      }
    }
}

TEST_CASE("sums of halves travel as halves unless told otherwise") {
  const Tensor x = Tensor::from(std::vector<float>{2048, 1, 0, 0}, {4, 1}).half().realize();
  const auto sum = [&] { return x.shard(devices_of(2), 0).to_float().sum(0).to_vector<float>(); };
  {
    const KnobScope narrow(Knob::ALLREDUCE_CAST, 1);
    CHECK(sum() == std::vector<float>{2048});  // 2049 is no half
  }
  const KnobScope wide(Knob::ALLREDUCE_CAST, 0);
  CHECK(sum() == std::vector<float>{2049});
}
