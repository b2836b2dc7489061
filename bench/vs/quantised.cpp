// Products with packed weights, made of tensor ops. A block is 32 weights along the rows of W (n, k) with one
// f16 scale: "Q8" keeps int8, "Q4" nibbles whose value is off by 8, the first 16 of a block in the low halves
// of its bytes. Activations become int8 in blocks of 32 inside the graph, and the products of a block are
// summed as int32.
#include "tensor/jit.h"
#include "workload.h"

#include <cmath>

namespace bench {
namespace {

using lathe::DType, lathe::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kBlock = 32;
constexpr int64_t kRows = 14336, kDepth = 4096;  // of the matrices of a GEMV

// Of x (…, k): numbers int8 (…, k/32, 32), scales (…, k/32).
struct Blocks {
  Tensor numbers, scales;
};
Blocks to_blocks(const Tensor& x) {
  lathe::Shape shape(x.shape().begin(), x.shape().end() - 1);
  shape.push_back(x.size(-1).value() / kBlock);
  shape.push_back(kBlock);
  const Tensor parts = x.reshape(shape);
  const Tensor scales = (parts.abs().max(-1, true) / 127).contiguous();
  const Tensor numbers = (scales == 0).where(0, parts / scales).round().cast(DType::Int8);
  return {numbers.contiguous(), scales.squeeze(-1)};
}

Tensor whole(const Tensor& x) { return x.cast(DType::Int32); }

// Weights (n, k) in memory: what they are packed as, and scales f16 (n, k/32).
struct Packed {
  Tensor numbers, scales;
};

struct Format {
  const char* name;
  int64_t copies;           // so many matrices are read in turn that no cache holds them
  double bytes_per_weight;  // scales included
  Packed (*random)(int64_t rows, int64_t depth);
  // W·x for x (k).
  Tensor (*times)(const Packed& w, const Tensor& x);
  // The value of weights, (n, k) float32, without what `times` is made of.
  std::vector<float> (*values)(const Packed& w);
};

Tensor random_scales(int64_t rows, int64_t depth) {
  return Tensor::uniform({rows, depth / kBlock}, 0.001, 0.01).half().realize();
}

Packed random_q8(int64_t rows, int64_t depth) {
  return {Tensor::randint({rows, depth / kBlock, kBlock}, -127, 128).cast(DType::Int8).realize(),
          random_scales(rows, depth)};
}
// x (m, k) gives (m, n), x (k) gives (n).
Tensor times_q8(const Packed& w, const Tensor& x) {
  Blocks in = to_blocks(x);
  if (x.ndim() == 2) in = {in.numbers.unsqueeze(1), in.scales.unsqueeze(1)};
  const Tensor sums = (whole(w.numbers) * whole(in.numbers)).sum(-1);
  return (sums.to_float() * (w.scales.to_float() * in.scales)).sum(-1);
}
std::vector<float> values_q8(const Packed& w) {
  std::vector<float> out = w.numbers.to_vector<float>();
  const std::vector<float> scales = w.scales.to_vector<float>();
  for (size_t i = 0; i < out.size(); i++) out[i] *= scales[i / kBlock];
  return out;
}

Packed random_q4(int64_t rows, int64_t depth) {
  return {Tensor::randint({rows, depth / kBlock, kBlock / 2}, 0, 256).cast(DType::UInt8).realize(),
          random_scales(rows, depth)};
}
Tensor times_q4(const Packed& w, const Tensor& x) {
  const Blocks in = to_blocks(x);
  const int64_t blocks = x.size(0).value() / kBlock;
  const Tensor shift = (Tensor::arange(2) * 4).cast(DType::UInt8).reshape({2, 1});
  const Tensor nibbles = (w.numbers.unsqueeze(2) >> shift) & 15;
  const Tensor sums = (whole(nibbles) * whole(in.numbers.reshape({blocks, 2, kBlock / 2}))).sum({-2, -1});
  const Tensor offset = (whole(in.numbers).sum(-1) * 8).contiguous();
  return ((sums - offset).to_float() * (w.scales.to_float() * in.scales)).sum(-1);
}
std::vector<float> values_q4(const Packed& w) {
  const std::vector<uint8_t> bytes = w.numbers.to_vector<uint8_t>();
  const std::vector<float> scales = w.scales.to_vector<float>();
  std::vector<float> out(2 * bytes.size());
  for (size_t i = 0; i < out.size(); i++) {
    const size_t block = i / kBlock, at = i % kBlock;
    const int byte = bytes[block * 16 + at % 16];
    out[i] = static_cast<float>((at < 16 ? byte & 15 : byte >> 4) - 8) * scales[block];
  }
  return out;
}

Packed random_bf16(int64_t rows, int64_t depth) {
  return {random_values({rows, depth}).bfloat16().realize(), Tensor()};
}
Tensor times_bf16(const Packed& w, const Tensor& x) { return w.numbers.to_float().matmul(x); }
std::vector<float> values_bf16(const Packed& w) { return w.numbers.to_vector<float>(); }

// Compares samples of `got` (m, n) with sums in double precision of x (m, k) and W (n, k). Rounding
// activations to `steps` steps may move each by half a step of the largest of its block.
void check_product(const Tensor& got, const Tensor& x, const std::vector<float>& w, size_t depth,
                   double steps) {
  const std::vector<float> y = got.to_vector<float>(), in = x.to_vector<float>();
  const size_t rows = w.size() / depth;
  for (size_t sample = 0; sample < 64; sample++) {
    const size_t at = sample * 2654435761u % y.size();
    const float *left = &in[at / rows * depth], *right = &w[at % rows * depth];
    double want = 0, scale = 0, squares = 0;
    for (size_t k = 0; k < depth; k++) {
      const double product = static_cast<double>(left[k]) * right[k];
      want += product, scale += std::abs(product), squares += static_cast<double>(right[k]) * right[k];
    }
    const double rounding = steps > 0 ? 5 * std::sqrt(squares / 12) / steps : 0;
    require(std::abs(y[at] - want) <= 1e-5 * scale + rounding, "element {} is {}, not {}", at, y[at], want);
  }
}

// One call multiplies by all copies, and is timed as so many calls.
void gemv(const Format& format, const Request& request, const std::string& name) {
  std::vector<Packed> weights{format.random(kRows, kDepth)};
  while (static_cast<int64_t>(weights.size()) < format.copies)
    weights.push_back({weights[0].numbers.clone().realize(), weights[0].scales.clone().realize()});
  auto step = lathe::jit([&](const Tensor& x) {
    Tensors out;
    for (const Packed& w : weights) out.push_back(format.times(w, x));
    return out;
  });
  const Tensor x = random_values({kDepth});
  Tensors results;
  const auto check = [&] {
    const std::vector<float> values = format.values(weights[0]);
    for (const Tensor& result : results)
      check_product(result, x, values, kDepth, format.times == times_bf16 ? 0 : 127);
  };
  const double bytes = format.bytes_per_weight * static_cast<double>(kRows * kDepth);
  measure(
      request, name, [&] { results = step(x); }, check, {bytes, "bw_read"}, static_cast<int>(format.copies));
}

void gemm_q8(const Request& request, const std::string& name) {
  constexpr int64_t kTokens = 512, kOut = 4096;
  const Packed w = random_q8(kOut, kDepth);
  auto step = lathe::jit([&](const Tensor& x) { return times_q8(w, x); });
  const Tensor x = random_values({kTokens, kDepth});
  Tensor result;
  measure(
      request, name, [&] { result = step(x); }, [&] { check_product(result, x, values_q8(w), kDepth, 127); },
      {2.0 * kTokens * kOut * kDepth, "int8_peak"});
}

}  // namespace

std::vector<Workload> quantised() {
  std::vector<Workload> out;
  for (const Format& format : {Format{"bf16", 4, 2, random_bf16, times_bf16, values_bf16},
                               Format{"q8", 8, 34.0 / 32, random_q8, times_q8, values_q8},
                               Format{"q4", 8, 18.0 / 32, random_q4, times_q4, values_q4}})
    out.push_back({fmt::format("gemv_{}_{}x{}", format.name, kRows, kDepth),
                   [format](const Request& r, const std::string& name) { gemv(format, r, name); }});
  out.push_back({"gemm_q8_512x4096x4096", gemm_q8});
  return out;
}

}  // namespace bench
