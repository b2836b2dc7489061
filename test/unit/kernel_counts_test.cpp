// How many kernels a graph takes. The numbers are upper bounds: fewer is a pass, values are checked elsewhere.
#include <functional>
#include <string>
#include <vector>

#include "engine/counters.h"
#include "tensor/tensor.h"

#include "support/test.h"

namespace lathe {
namespace {

const TensorOptions kNull{.dtype = std::nullopt, .device = "NULL"};

// A realised buffer without contents.
Tensor e(const Shape& s, DType d = DType::Float32) {
  Tensor t = Tensor::empty(s, {.dtype = d, .device = "NULL"});
  t.realize();
  return t;
}

struct Row {
  const char* graph;
  uint64_t most;
  std::function<std::vector<Tensor>()> outputs;
};

uint64_t kernels_of(const Row& row) {
  const std::vector<Tensor> outputs = row.outputs();
  reset_counters();
  Tensor::realize(outputs);
  return counters().kernels;
}

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.graph);
    CHECK(kernels_of(row) <= row.most);
  }
}

}  // namespace

TEST_CASE("views, constants and buffers need no kernel") {
  check({
      {"constant", 0, [] { return std::vector{Tensor(2.0)}; }},
      {"constant times 4", 0, [] { return std::vector{Tensor(2.0) * 4}; }},
      {"empty", 0, [] { return std::vector{e({4})}; }},
      {"contiguous of a buffer", 0, [] { return std::vector{e({4, 4}).contiguous()}; }},
      {"contiguous of its reshape", 0, [] { return std::vector{e({4, 4}).reshape({16}).contiguous()}; }},
      {"view of a realised tensor", 0, [] { return std::vector{e({4, 4}).permute({1, 0})}; }},
      {"view of an expand", 0, [] { return std::vector{e({4, 1}).expand({4, 4})}; }},
      {"contiguous of an expand", 1, [] { return std::vector{e({4, 1}).expand({4, 4}).contiguous()}; }},
      {"contiguous of a permute", 1, [] { return std::vector{e({4, 8}).permute({1, 0}).contiguous()}; }},
      {"contiguous twice", 1, [] { return std::vector{e({4, 8}).permute({1, 0}).contiguous().contiguous()}; }},
      {"one value as two outputs", 1, [] {
         const Tensor s = e({4}) + e({4});
         return std::vector{s, s};
       }},
      {"(x+y).contiguous()+z", 2, [] { return std::vector{(e({4}) + e({4})).contiguous() + e({4})}; }},
      {"sum, contiguous, add, contiguous", 2, [] { return std::vector{(e({4, 4, 4}).sum(2).contiguous() + e({4, 4})).contiguous()}; }},
      {"24 doublings", 1, [] {
         Tensor a = e({4});
         for (int i = 0; i < 24; i++) a = a + a;
         return std::vector{a};
       }},
      {"24 levels of stack()[0]", 0, [] {
         Tensor a = e({1});
         for (int i = 0; i < 24; i++) a = Tensor::stack({a, a}).at(0);
         return std::vector{a};
       }},
  });
}

TEST_CASE("elementwise and movement fuse around one reduction") {
  check({
      {"a+b+c+d", 1, [] { return std::vector{e({10}) + e({10}) + e({10}) + e({10})}; }},
      {"(a*b).sum()", 1, [] { return std::vector{(e({16, 16}) * e({16, 16})).sum()}; }},
      {"(a*b).sum().relu()", 1, [] { return std::vector{(e({16, 16}) * e({16, 16})).sum().relu()}; }},
      {"(a+b).reshape+c", 1, [] { return std::vector{(e({10}) + e({10})).reshape({5, 2}) + e({5, 2})}; }},
      {"(a+b).permute+c", 1, [] { return std::vector{(e({2, 5}) + e({2, 5})).permute({1, 0}) + e({5, 2})}; }},
      {"(a+b).reshape.sum(0,keep)", 1, [] { return std::vector{(e({100}) + e({100})).reshape({10, 10}).sum(0, true)}; }},
      {"a.sum(0)+b", 1, [] { return std::vector{e({10, 10}).sum(0) + e({10})}; }},
      {"((a+b).reshape+c).sum(0)", 1, [] { return std::vector{((e({16}) + e({16})).reshape({4, 4}) + e({4, 4})).sum(0)}; }},
      {"elu", 1, [] { return std::vector{e({4, 4}).elu()}; }},
      {"sum.sqrt.neg", 1, [] { return std::vector{e({64}).sum().sqrt().neg()}; }},
      {"a.sum()+a.sum()", 1, [] {
         const Tensor a = e({64});
         return std::vector{a.sum() + a.sum()};
       }},
      {"img.sum(0)+img.sum(1) relu", 1, [] {
         const Tensor img = e({64, 64});
         return std::vector{(img.sum(0) + img.sum(1)).relu()};
       }},
      {"a.sum(0)+a.max(1)+2", 1, [] {
         const Tensor a = e({4, 4});
         return std::vector{a.sum(0) + a.max(1) + 2};
       }},
      {"a.sum(0)+a.max(0)+a.max(1)+a.sum(1)+2", 1, [] {
         const Tensor a = e({4, 4});
         return std::vector{a.sum(0) + a.max(0) + a.max(1) + a.sum(1) + 2};
       }},
      {"x.sum(1)[:16]+y", 1, [] { return std::vector{e({32, 32}).sum(1).at(Slice{none, 16}) + e({16})}; }},
      {"c.sum()+d.sum() of one a+b", 1, [] {
         const Tensor c = e({4, 4}) + e({4, 4});
         return std::vector{c.sum() + c.reshape({16}).sum()};
       }},
      {"(a.sum(2)+b).permute twice", 1, [] {
         return std::vector{(e({4, 4, 4}).sum(2) + e({4, 4})).permute({1, 0}).permute({1, 0})};
       }},
      {"(a*b)*d broadcast up", 1, [] { return std::vector{(e({4}) * e({4})).reshape({1, 4}) * e({4, 4})}; }},
      {"x.sum(1).relu().elu()+y.sum(1).relu().elu()", 1, [] {
         return std::vector{e({32, 32}).sum(1).relu().elu() + e({32, 32}).sum(1).relu().elu()};
       }},
      {"x.sum(2).relu().sum(1)", 1, [] { return std::vector{e({8, 8, 8}).sum(2).relu().sum(1)}; }},
      {"a@b+c@d", 1, [] { return std::vector{e({16, 16}).matmul(e({16, 16})) + e({16, 16}).matmul(e({16, 16}))}; }},
      {"x.sum()+y.max()", 1, [] { return std::vector{e({16}).sum() + e({16}).max()}; }},
      {"(a+b).pad(1).sum()", 1, [] { return std::vector{(e({4}) + e({4})).pad({1, 1}).sum()}; }},
      {"(a/b)/c", 1, [] { return std::vector{e({4}) / e({4}) / e({4})}; }},
      {"a/a", 1, [] {
         const Tensor a = e({4});
         return std::vector{a / a};
       }},
      {"x.exp2() bitcast + x bitcast", 1, [] {
         const Tensor x = e({16});
         return std::vector{x.exp2().bitcast(DType::Int32) + x.bitcast(DType::Int32)};
       }},
  });
}

TEST_CASE("several reductions and several outputs") {
  check({
      {"[s+2, s+4, product] of one sum", 3, [] {
         const Tensor s = e({64}).sum();
         const Tensor a = s + 2, b = s + 4;
         return std::vector{a, b, a * b};
       }},
      {"[exp2 s, s+exp2 s]", 2, [] {
         const Tensor s = e({64}).sum();
         return std::vector{s.exp2(), s + s.exp2()};
       }},
      {"[a.sum()+b.sum()+2, a.sum()+b.sum()+4]", 2, [] {
         const Tensor s = e({64}).sum() + e({64}).sum();
         return std::vector{s + 2, s + 4};
       }},
      {"a-a.mean(0,keep)", 2, [] {
         const Tensor a = e({32, 16});
         return std::vector{a - a.mean(0, true)};
       }},
      {"(a+a.sum(-1,keep)).sum(-1)", 2, [] {
         const Tensor a = e({16, 16});
         return std::vector{(a + a.sum(-1, true)).sum(-1)};
       }},
      {"(y+x.sum(-1,keep)).sum(-1)", 2, [] { return std::vector{(e({16, 16}) + e({16, 16}).sum(-1, true)).sum(-1)}; }},
      {"x.std(-1)", 2, [] { return std::vector{e({16, 16}).std(-1)}; }},
      {"x.std(-1)+y.std(-1)", 3, [] { return std::vector{e({16, 16}).std(-1) + e({16, 16}).std(-1)}; }},
      {"(x-x.max(-1,keep)).sum(-1)", 2, [] {
         const Tensor x = e({16, 16});
         return std::vector{(x - x.max(-1, true)).sum(-1)};
       }},
      {"x.sum(2): relu().sum(1)+(x+1)[0]", 2, [] {
         const Tensor x = e({4, 4, 4}).sum(2);
         return std::vector{x.relu().sum(1) + (x + 1).at(0)};
       }},
      {"[a.sum()+b[0], a.sum()+2]", 2, [] {
         const Tensor s = e({16}).sum();
         return std::vector{s + e({4}).at(0), s + 2};
       }},
      {"r = a.sum(0)+6: [r.sum(0)*4, r.sum(1)*2]", 3, [] {
         const Tensor r = e({4, 4, 4}).sum(0) + 6;
         return std::vector{r.sum(0) * 4, r.sum(1) * 2};
       }},
      {"a-a.sum(1)", 2, [] {
         const Tensor a = e({32, 32});
         return std::vector{a - a.sum(1)};
       }},
  });
}

TEST_CASE("arange and indexing fuse") {
  check({
      {"arange sum", 1, [] { return std::vector{Tensor::arange(100, kNull).sum().contiguous()}; }},
      {"x+arange[k]", 1, [] { return std::vector{e({4}) + Tensor::arange(8, kNull).at(3)}; }},
      {"index by a list", 1, [] { return std::vector{e({3, 3}).at(TensorIndex({0, 2}), 1).contiguous()}; }},
      {"index by a tensor", 1, [] { return std::vector{e({32, 4}).at(e({4}, DType::Int32)).contiguous()}; }},
      {"argmax", 2, [] { return std::vector{e({10, 20}).argmax(1)}; }},
  });
}

TEST_CASE("layers and losses") {
  check({
      {"softmax", 3, [] { return std::vector{e({4, 12, 64, 64}).softmax(-1)}; }},
      {"layernorm", 3, [] { return std::vector{e({20, 5, 10, 10}).layernorm()}; }},
      {"conv relu", 1, [] { return std::vector{e({1, 3, 8, 8}).conv2d(e({4, 3, 3, 3}), e({4})).relu()}; }},
      {"conv elu", 1, [] { return std::vector{e({1, 3, 8, 8}).conv2d(e({4, 3, 3, 3}), e({4})).elu()}; }},
      {"two convs", 2, [] {
         return std::vector{e({1, 16, 8, 8}).conv2d(e({16, 16, 3, 3}), e({16})).relu().conv2d(e({16, 16, 3, 3}), e({16})).relu()};
       }},
      {"conv3x3 conv1x1", 2, [] {
         return std::vector{e({1, 4, 8, 8}).conv2d(e({4, 4, 3, 3})).conv2d(e({4, 4, 1, 1}))};
       }},
      {"attention", 4, [] {
         return std::vector{e({2, 4, 8, 16}).scaled_dot_product_attention(e({2, 4, 8, 16}), e({2, 4, 8, 16}))};
       }},
      {"causal attention", 4, [] {
         return std::vector{e({2, 4, 8, 16}).scaled_dot_product_attention(e({2, 4, 8, 16}), e({2, 4, 8, 16}), std::nullopt,
                                                                          {.is_causal = true})};
       }},
      {"sparse cross entropy 2x3", 3, [] {
         return std::vector{e({2, 3}).sparse_categorical_crossentropy(e({2}, DType::Int32))};
       }},
      {"softmax backward", 4, [] {
         const Tensor x = e({4, 16});
         return x.softmax(-1).square().sum().gradient({x});
       }},
  });
}

TEST_CASE("reductions over many elements are split") {
  check({
      {"(x-x.max()).max() of 32768", 3, [] {
         const Tensor x = e({32768});
         return std::vector{(x - x.max()).max()};
       }},
      {"gather of 4 rows of 32768", 3, [] { return std::vector{e({32768, 4}).at(e({4}, DType::Int32)).contiguous()}; }},
  });
}

TEST_CASE("assignment") {
  check({
      {"x += y", 1, [] {
         Tensor x = e({16});
         x += e({16});
         return std::vector{x};
       }},
      {"double assign", 2, [] {
         Tensor x = e({16});
         x.assign(Tensor::constant_of({16}, 1.0, DType::Float32));
         x.assign(x + 1);
         return std::vector{x};
       }},
      {"slice assign", 1, [] {
         Tensor x = e({4, 4});
         x.set({1}, e({4}));
         return std::vector{x};
       }},
  });
}

}  // namespace lathe
