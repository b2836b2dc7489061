// Single operators. Samples of each result are compared with sums in double precision over the same inputs.
#include "tensor/jit.h"
#include "workload.h"

#include <algorithm>
#include <cmath>

namespace bench {
namespace {

using lathe::DType, lathe::Shape, lathe::Tensor;
using Tensors = std::vector<Tensor>;
using Host = std::vector<std::vector<float>>;

// What an element should be, and how large the numbers are that rounding errors come from.
struct Expected {
  double value = 0, scale = 0;
  void add(double a, double b) { value += a * b, scale += std::abs(a * b); }
};

struct Operator {
  std::string name;
  std::vector<Shape> inputs;
  Work work;
  Tensor (*apply)(const Tensors& inputs);
  Expected (*element)(const Host& inputs, size_t index);
  // The last input is a weight: the same in every call, so that what depends on it alone is computed once.
  bool has_weight = false;
  DType dtype = DType::Float32;  // of the inputs
};

void run(const Operator& op, const Request& request, const std::string& name) {
  Tensors inputs, weights;
  for (const Shape& shape : op.inputs) {
    Tensor values = random_values(shape);
    if (op.dtype != DType::Float32) values = values.cast(op.dtype).realize();
    inputs.push_back(values);
  }
  if (op.has_weight) {
    weights.push_back(inputs.back());
    inputs.pop_back();
  }
  auto step = lathe::jit([&](const Tensors& arguments) {
    Tensors all = arguments;
    all.insert(all.end(), weights.begin(), weights.end());
    return op.apply(all);
  });
  Tensor result;
  const auto check = [&] {
    Host host;
    for (const Tensors* list : {&inputs, &weights})
      for (const Tensor& t : *list) host.push_back(t.to_vector<float>());
    const std::vector<float> got = result.to_vector<float>();
    for (size_t sample = 0; sample < std::min<size_t>(got.size(), 64); sample++) {
      const size_t at = got.size() <= 64 ? sample : sample * 2654435761u % got.size();
      const Expected want = op.element(host, at);
      const double off = std::abs(static_cast<double>(got[at]) - want.value);
      require(off <= 1e-5 * want.scale, "element {} is {}, not {}", at, got[at], want.value);
    }
  };
  measure(request, name, [&] { result = step(inputs); }, check, op.work);
}

size_t rounded_root(size_t n) { return static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(n)))); }

// Element (i, j) of a product of square matrices.
Expected product_element(const Host& in, size_t n, size_t first, size_t i, size_t j) {
  Expected out;
  for (size_t k = 0; k < n; k++) out.add(in[0][first + i * n + k], in[1][first + k * n + j]);
  return out;
}

Expected gemm_element(const Host& in, size_t index) {
  const size_t n = rounded_root(in[0].size());
  return product_element(in, n, 0, index / n, index % n);
}

Operator gemm(int64_t n, bool is_bf16) {
  const double flops = 2.0 * static_cast<double>(n * n * n);
  Operator out{fmt::format("gemm_{}_{}", is_bf16 ? "bf16" : "f32", n),
               {{n, n}, {n, n}},
               {flops, is_bf16 ? "bf16_peak" : "f32_peak"},
               [](const Tensors& in) { return in[0].to_float().matmul(in[1].to_float()); },
               gemm_element};
  // The peer's second operand of bf16 is a weight in a layout of its own choice.
  if (is_bf16) out.dtype = DType::BFloat16, out.has_weight = true;
  return out;
}

constexpr size_t kRow = 4096;  // of softmax and layernorm
constexpr double kMiB = 1 << 20;

Expected fused_sum(const Host& in, size_t) {
  Expected out;
  for (size_t i = 0; i < in[0].size(); i++)
    out.add(1, std::max(0.0, static_cast<double>(in[0][i]) * in[1][i] + in[2][i]));
  return out;
}

Expected softmax_element(const Host& in, size_t index) {
  const float* row = in[0].data() + index / kRow * kRow;
  double sum = 0;
  for (size_t i = 0; i < kRow; i++) sum += std::exp(static_cast<double>(row[i]));
  const double value = std::exp(static_cast<double>(row[index % kRow])) / sum;
  return {value, value};
}

Expected layernorm_element(const Host& in, size_t index) {
  const float* row = in[0].data() + index / kRow * kRow;
  double mean = 0, variance = 0;
  for (size_t i = 0; i < kRow; i++) mean += static_cast<double>(row[i]) / kRow;
  for (size_t i = 0; i < kRow; i++) variance += std::pow(row[i] - mean, 2) / kRow;
  const size_t i = index % kRow;
  return {(row[i] - mean) / std::sqrt(variance + 1e-5) * in[1][i] + in[2][i], 2};
}

Expected conv_element(const Host& in, size_t index) {
  constexpr int64_t kSize = 56, kChannels = 64;
  const auto at = static_cast<int64_t>(index);
  const int64_t x = at % kSize, y = at / kSize % kSize, to = at / (kSize * kSize) % kChannels,
                image = at / (kSize * kSize * kChannels);
  Expected out;
  for (int64_t from = 0; from < kChannels; from++)
    for (int64_t tap = 0; tap < 9; tap++) {
      const int64_t row = y + tap / 3 - 1, column = x + tap % 3 - 1;
      if (row < 0 || row >= kSize || column < 0 || column >= kSize) continue;
      const int64_t pixel = ((image * kChannels + from) * kSize + row) * kSize + column;
      out.add(in[0][static_cast<size_t>(pixel)],
              in[1][static_cast<size_t>((to * kChannels + from) * 9 + tap)]);
    }
  return out;
}

std::vector<Operator> table() {
  const int64_t row = kRow, fused = 1 << 24;
  std::vector<Operator> out;
  for (const int64_t n : {256, 512, 1024, 2048}) out.push_back(gemm(n, false));
  for (const int64_t n : {256, 512, 1024, 2048}) out.push_back(gemm(n, true));
  out.push_back({"bgemm_f32_512x64",
                 {{512, 64, 64}, {512, 64, 64}},
                 {2.0 * 512 * 64 * 64 * 64, "f32_peak"},
                 [](const Tensors& in) { return in[0].matmul(in[1]); },
                 [](const Host& in, size_t index) {
                   return product_element(in, 64, index / 4096 * 4096, index / 64 % 64, index % 64);
                 }});
  out.push_back({"gemv_f32_4096",
                 {{row, row}, {row}},
                 {64 * kMiB, "bw_read_64M"},
                 [](const Tensors& in) { return in[0].matmul(in[1]); },
                 [](const Host& in, size_t index) {
                   Expected sum;
                   for (size_t k = 0; k < kRow; k++) sum.add(in[0][index * kRow + k], in[1][k]);
                   return sum;
                 }});
  out.push_back({"fused_16M",
                 {{fused}, {fused}, {fused}},
                 {192 * kMiB, "bw_read"},
                 [](const Tensors& in) { return (in[0] * in[1] + in[2]).relu().sum(); },
                 fused_sum});
  out.push_back({"softmax_4096",
                 {{row, row}},
                 {128 * kMiB, "bw_copy"},
                 [](const Tensors& in) { return in[0].softmax(-1); },
                 softmax_element});
  out.push_back({"layernorm_4096",
                 {{row, row}, {row}, {row}},
                 {128 * kMiB, "bw_copy"},
                 [](const Tensors& in) { return in[0].layernorm() * in[1] + in[2]; },
                 layernorm_element});
  out.push_back({"conv3x3_64_56_b8",
                 {{8, 64, 56, 56}, {64, 64, 3, 3}},
                 {2.0 * 64 * 64 * 9 * 56 * 56 * 8, "f32_peak"},
                 [](const Tensors& in) { return in[0].conv2d(in[1], std::nullopt, {.padding = 1}); },
                 conv_element,
                 true});
  return out;
}

}  // namespace

std::vector<Workload> operators() {
  std::vector<Workload> out;
  for (const Operator& op : table())
    out.push_back(
        {op.name, [op](const Request& request, const std::string& name) { run(op, request, name); }});
  return out;
}

}  // namespace bench
