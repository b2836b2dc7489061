// Attention in one kernel against its steps one by one on the interpreter.
#include "base/knobs.h"
#include "tensor/tensor.h"
#include "unit/kernels_of.h"
#include "unit/tensor_check.h"

#include <cmath>
#include <functional>
#include <limits>

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// What scores become before the softmax; a function of scores (…, queries, keys).
using Masking = std::function<Tensor(const Tensor&)>;

struct Row {
  std::string name;
  Shape q, k, v;
  Masking mask = nullptr;
  DType dtype = DType::Float32;
};

Tensor positions(const Tensor& scores, int64_t axis) {
  const int64_t n = scores.size(static_cast<int>(axis)).value();
  const Tensor at = Tensor::arange(n, {.dtype = DType::Int32, .device = scores.device()});
  return axis == -2 ? at.unsqueeze(-1) : at;
}
// Keys from `behind` before the query up to `ahead` after it.
Masking window(int64_t behind, int64_t ahead) {
  return [=](const Tensor& s) {
    const Tensor distance = positions(s, -1).sub(positions(s, -2));
    return distance.ge(-behind).bitwise_and(distance.le(ahead)).where(s, -kInf);
  };
}
Tensor added(const Tensor& s) {
  return s.add(positions(s, -2).mul(positions(s, -1)).cast(DType::Float32).sin().contiguous());
}
Tensor some_rows_masked(const Tensor& s) { return positions(s, -2).mod(3).eq(1).where(-kInf, s); }

Tensor attention(const Row& row, const Tensor& q, const Tensor& k, const Tensor& v, bool in_steps) {
  Tensor kk = k, vv = v;
  const int64_t heads = q.size(-3).value(), own = k.size(-3).value();
  if (heads != own) {
    kk = kk.repeat_interleave(heads / own, -3);
    vv = vv.repeat_interleave(heads / own, -3);
  }
  Tensor s = q.dot(kk.transpose(-2, -1), DType::Float32).div(std::sqrt(q.size(-1).value()));
  if (row.mask) s = row.mask(s);
  s = s.cast(row.dtype);
  if (in_steps) s = s.contiguous();
  Tensor p = s.softmax(-1);
  if (in_steps) p = p.contiguous();
  return p.dot(vv);
}

Tensor made(const Shape& shape, DType d, const char* device) {
  return Tensor::randn(shape, {.dtype = std::nullopt, .device = "CPU"})
      .cast(d)
      .contiguous()
      .to(device)
      .realize();
}

const Row kRows[] = {
    {"plain", {2, 3, 160, 16}, {2, 3, 192, 16}, {2, 3, 192, 16}},
    {"sizes that nothing divides", {1, 2, 193, 7}, {1, 2, 211, 7}, {1, 2, 211, 13}},
    {"prime keys", {1, 1, 271, 5}, {1, 1, 509, 5}, {1, 1, 509, 40}},
    {"few keys", {4, 4, 257, 8}, {4, 4, 19, 8}, {4, 4, 19, 8}},
    {"few queries", {4, 4, 17, 8}, {4, 4, 301, 8}, {4, 4, 301, 8}},
    {"causal", {1, 2, 256, 16}, {1, 2, 256, 16}, {1, 2, 256, 16}, window(1000, 0)},
    {"causal, odd", {1, 2, 259, 6}, {1, 2, 259, 6}, {1, 2, 259, 6}, window(1000, 0)},
    {"sliding window", {1, 2, 270, 6}, {1, 2, 270, 6}, {1, 2, 270, 6}, window(20, 3)},
    {"a window past the keys", {1, 2, 400, 6}, {1, 2, 200, 6}, {1, 2, 200, 6}, window(20, 3)},
    {"added mask", {1, 2, 200, 8}, {1, 2, 200, 8}, {1, 2, 200, 8}, added},
    {"rows without keys", {1, 2, 200, 8}, {1, 2, 200, 8}, {1, 2, 200, 8}, some_rows_masked},
    {"shared keys", {1, 6, 130, 8}, {1, 2, 130, 8}, {1, 2, 130, 8}, window(1000, 0)},
    {"one head of keys", {2, 4, 130, 8}, {2, 1, 130, 8}, {2, 1, 130, 8}},
    {"bfloat16", {1, 2, 300, 16}, {1, 2, 300, 16}, {1, 2, 300, 16}, window(1000, 0), DType::BFloat16},
    {"half", {1, 3, 300, 16}, {1, 3, 300, 16}, {1, 3, 300, 16}, nullptr, DType::Float16},
};

}  // namespace

TEST_CASE("attention in one kernel is what its steps are") {
  Tensor::manual_seed(7);
  for (const Row& row : kRows) {
    INFO(row.name);
    const Tensor q = made(row.q, row.dtype, "CPU"), k = made(row.k, row.dtype, "CPU"),
                 v = made(row.v, row.dtype, "CPU");
    const Tensor out = attention(row, q, k, v, false);
    CHECK(kernels_of({out}) == 1);
    const Tensor wanted = attention(row, q.to("INTERP"), k.to("INTERP"), v.to("INTERP"), true);
    const double tolerance = row.dtype == DType::Float32 ? 1e-5 : 2e-2;
    check_values(out, wanted.to_vector<double>(), tolerance);
  }
}
