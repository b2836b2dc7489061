// How many kernels positions take: aranges, indices, random numbers; and how many reductions are left.
#include "base/knobs.h"
#include "schedule/schedule.h"
#include "unit/kernel_counts.h"

using namespace lathe;
using namespace lathe::test;

namespace {

// Kernels that fold something.
size_t reducing_kernels(const Tensor& t) {
  const UOp root = t.uop();
  size_t n = 0;
  for (const ScheduledKernel& k : make_schedule({&root, 1}).kernels) {
    const std::vector<UOp> order = toposort(k.body);
    n += std::any_of(order.begin(), order.end(), [](const UOp& u) { return u.op() == Op::Reduce; });
  }
  return n;
}

}  // namespace

TEST_CASE("arange and indexing fuse") {
  check_kernels({
      {"arange sum", 1, [] { return std::vector{Tensor::arange(100, kNull).sum().contiguous()}; }},
      {"x+arange[k]", 1, [] { return std::vector{e({4}) + Tensor::arange(8, kNull).at(3)}; }},
      {"index by a list", 1, [] { return std::vector{e({3, 3}).at(TensorIndex({0, 2}), 1).contiguous()}; }},
      {"index by a tensor", 1, [] { return std::vector{e({32, 4}).at(e({4}, DType::Int32)).contiguous()}; }},
      {"alternating arange sum", 1,
       [] { return std::vector{(Tensor::arange(100, kNull) * 2 + e({})).sum().contiguous()}; }},
      {"arange permuted", 1,
       [] {
         return std::vector{(Tensor::arange(24, kNull).reshape({2, 3, 4}).permute({2, 0, 1}) + e({4, 2, 3}))};
       }},
      {"arange padded and divided", 1,
       [] {
         return std::vector{Tensor::arange(16, kNull).pad({2, 2}).div_floor(3) + e({20}, DType::Int32)};
       }},
      {"arange pooled", 1,
       [] { return std::vector{Tensor::arange(16, kNull).pool(3).sum(-1) + e({14}, DType::Int32)}; }},
      {"clone of an arange", 1, [] { return std::vector{Tensor::arange(16, kNull).clone("NULL")}; }},
      {"x + an element of a cloned arange, sum", 2,
       [] {
         return std::vector{(e({4}, DType::Int32) + Tensor::arange(16, kNull).clone("NULL").at(2)).sum()};
       }},
      {"x+arange expanded", 1,
       [] {
         return std::vector{e({4, 8}, DType::Int32) +
                            Tensor::arange(8, kNull).reshape({1, 8}).expand({4, 8})};
       }},
      {"index by a scalar in a corner", 1, [] { return std::vector{e({3, 3}).at(2, 2) + 1}; }},
      {"index by a slice and a list", 1,
       [] { return std::vector{e({3, 3}).at(Slice{1, 3}, TensorIndex({0, 2})).contiguous()}; }},
      {"index by two tensors", 1,
       [] { return std::vector{e({8, 8}).at(e({4}, DType::Int32), e({4}, DType::Int32)).contiguous()}; }},
      {"(x+arange[k]).sum()", 1, [] { return std::vector{(e({4}) + Tensor::arange(8, kNull).at(3)).sum()}; }},
      {"x+arange[k]+1", 1, [] { return std::vector{e({4}) + Tensor::arange(8, kNull).at(3) + 1}; }},
      {"x+arange shrunk", 1,
       [] { return std::vector{e({4}) + Tensor::arange(8, kNull).shrink({{2, 6}}).to_float()}; }},
      {"arange transposed", 1,
       [] { return std::vector{Tensor::arange(24, kNull).reshape({4, 6}).T() + e({6, 4}, DType::Int32)}; }},
      {"[r+2, r+3] of r=(x+arange).sum()", 2,
       [] {
         const Tensor r = (e({16}, DType::Int32) + Tensor::arange(16, kNull)).sum();
         return std::vector{r + 2, r + 3};
       }},
      {"index by a list and a tensor", 1,
       [] { return std::vector{e({3, 3}).at(TensorIndex({0, 2}), e({2}, DType::Int32)).contiguous()}; }},
      {"cummax of 1022", 3, [] { return std::vector{e({1022}).cummax().values}; }},
      {"argmin", 2, [] { return std::vector{e({10, 20}).argmin(1)}; }},
      {"argmax", 2, [] { return std::vector{e({10, 20}).argmax(1)}; }},
  });
}

TEST_CASE("an element in any corner") {
  for (int64_t rows : {2, 3})
    for (int64_t columns : {2, 3})
      for (int64_t i : {int64_t{0}, rows - 1})
        for (int64_t j : {int64_t{0}, columns - 1})
          check_kernels(
              {{"x[i, j]", 1, [&] { return std::vector{e({rows, columns}).at(i, j).clone("NULL")}; }}});
}

TEST_CASE("pooled positions, unoptimised too") {
  for (int no_opt : {0, 1}) {
    const KnobScope scope(Knob::NOOPT, no_opt);
    check_kernels({{"arange pooled", 1, [] {
                      return std::vector{Tensor::arange(16, kNull).pool(3).sum(-1) + e({14}, DType::Int32)};
                    }}});
  }
}

TEST_CASE("random numbers take one kernel, and one for how many were drawn") {
  Tensor::rand({4}, kNull).realize();  // the counter is in memory from here on
  check_kernels({{"rand(32)", 2, [] { return std::vector{Tensor::rand({32}, kNull)}; }},
                 {"[rand(32), rand(8)]", 4,
                  [] { return std::vector{Tensor::rand({32}, kNull), Tensor::rand({8}, kNull)}; }}});
}

TEST_CASE("reductions that are left") {
  const Tensor pooled = e({1, 1, 7, 7}).avg_pool2d({2, 2}, {.ceil_mode = true});
  CHECK(reducing_kernels(pooled) <= 1);
  CHECK(reducing_kernels(e({32768, 4}).at(e({4}, DType::Int32)).contiguous()) <= 1);
  const Tensor y = e({16}), mean = y.mean();
  CHECK(reducing_kernels(mean + (y - mean).sum() / 2) <= 2);
}
