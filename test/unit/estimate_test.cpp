// Work and memory of kernels against counts made by hand.

#include "codegen/lower.h"
#include "schedule/schedule.h"
#include "tensor/tensor.h"

#include <functional>

#include "support/test.h"

namespace lathe {
namespace {

Tensor e(const Shape& s, DType d) {
  Tensor t = Tensor::empty(s, {.dtype = d, .device = "NULL"});
  t.realize();
  return t;
}

// Of all kernels of `t`.
Estimate estimate_of(const Tensor& t) {
  Estimate sum;
  for (const ScheduledKernel& k : make_schedule({&t.uop(), 1}).kernels) {
    const Estimate one = estimate(k.body);
    sum.flops += one.flops;
    sum.bytes += one.bytes;
  }
  return sum;
}

}  // namespace

TEST_CASE("bytes: each buffer once for reads and once for writes") {
  constexpr double kMiB = 1 << 20;
  const auto a = [] { return e({1024, 1024}, DType::UInt8); };
  struct Row {
    const char* graph;
    double bytes;
    std::function<Tensor()> make;
  };
  const Row rows[] = {
      {"a+b", 3 * kMiB, [&] { return a() + a(); }},
      {"a+3", 2 * kMiB, [&] { return a() + 3; }},
      {"a + a column", 2 * kMiB + 1024, [&] { return a() + e({1024, 1}, DType::UInt8); }},
      {"a+a", 2 * kMiB,
       [&] {
         const Tensor x = a();
         return x + x;
       }},
      {"a+a.T", 2 * kMiB,
       [&] {
         const Tensor x = a();
         return x + x.T();
       }},
  };
  for (const Row& row : rows) {
    INFO(row.graph);
    CHECK(estimate_of(row.make()).bytes == row.bytes);
  }
}

TEST_CASE("operations: arithmetic on data, not on indices") {
  constexpr double n = 100 * 100;
  const Tensor a = e({100, 100}, DType::Float32), b = e({100, 100}, DType::Float32);
  const Estimate sum = estimate_of(a + b), square = estimate_of((a + b).square());
  CHECK(sum.flops >= n);
  CHECK(sum.flops <= 2 * n);
  CHECK(square.flops >= 2 * n);
  CHECK(square.flops <= 4 * n);
  CHECK(sum.bytes == 3 * 4 * n);
  CHECK(square.bytes == 3 * 4 * n);
  CHECK(estimate_of(Tensor::cat({a, b})).flops == 0);  // equal pieces only move
  for (int64_t size : {64, 1024}) {
    const double flops = 2.0 * static_cast<double>(size * size * size);
    const Estimate gemm = estimate_of(e({size, size}, DType::Float32).dot(e({size, size}, DType::Float32)));
    CHECK(gemm.flops >= flops);
    CHECK(gemm.flops <= 1.2 * flops);
    CHECK(gemm.bytes == 12.0 * static_cast<double>(size * size));
  }
  CHECK(estimate_of(e({128, 128}, DType::Float32).sum()).flops == 128 * 128);
}

TEST_CASE("the work of a lowered kernel is that of the loops that are left") {
  const Tensor sum = e({64}, DType::Float32).pad({0, 960}).sum();
  const auto kernels = make_schedule({&sum.uop(), 1}).kernels;
  REQUIRE(kernels.size() == 1);
  CHECK(lower(kernels[0].body, llvm_target()).work.flops == 64);
}

}  // namespace lathe
