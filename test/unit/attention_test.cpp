// Attention in one kernel against its steps one by one on the interpreter.
#include "base/clock.h"
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

// Blocks are of 64 keys or fewer, of 96 queries or fewer.
const Row kRows[] = {
    {"plain", {2, 2, 96, 8}, {2, 2, 128, 8}, {2, 2, 128, 8}},
    {"sizes that nothing divides", {1, 2, 103, 7}, {1, 2, 101, 7}, {1, 2, 101, 13}},
    {"prime keys", {1, 1, 109, 5}, {1, 1, 191, 5}, {1, 1, 191, 40}},
    {"few keys", {2, 2, 131, 8}, {2, 2, 19, 8}, {2, 2, 19, 8}},
    {"few queries", {2, 2, 17, 8}, {2, 2, 131, 8}, {2, 2, 131, 8}},
    {"causal", {1, 2, 192, 8}, {1, 2, 192, 8}, {1, 2, 192, 8}, window(1000, 0)},
    {"causal, odd", {1, 2, 131, 6}, {1, 2, 131, 6}, {1, 2, 131, 6}, window(1000, 0)},
    {"sliding window", {1, 2, 140, 6}, {1, 2, 140, 6}, {1, 2, 140, 6}, window(20, 3)},
    {"a window past the keys", {1, 1, 290, 6}, {1, 1, 150, 6}, {1, 1, 150, 6}, window(20, 3)},
    {"added mask", {1, 2, 100, 8}, {1, 2, 100, 8}, {1, 2, 100, 8}, added},
    {"rows without keys", {1, 2, 100, 8}, {1, 2, 100, 8}, {1, 2, 100, 8}, some_rows_masked},
    {"shared keys", {1, 6, 70, 8}, {1, 2, 70, 8}, {1, 2, 70, 8}, window(1000, 0)},
    {"one head of keys", {2, 4, 70, 8}, {2, 1, 70, 8}, {2, 1, 70, 8}},
    {"bfloat16", {1, 2, 150, 16}, {1, 2, 150, 16}, {1, 2, 150, 16}, window(1000, 0), DType::BFloat16},
    {"half", {1, 2, 150, 16}, {1, 2, 150, 16}, {1, 2, 150, 16}, nullptr, DType::Float16},
};

struct Inputs {
  Tensor q, k, v;
  Inputs to(const char* device) const { return {q.to(device), k.to(device), v.to(device)}; }
  std::vector<Tensor> all() const { return {q, k, v}; }
};
Inputs inputs_of(const Row& row) {
  Tensor::manual_seed(7);
  const auto made = [&](const Shape& s) { return Tensor::randn(s).cast(row.dtype).contiguous().realize(); };
  return {made(row.q), made(row.k), made(row.v)};
}

Tensor output(const Row& row, const Inputs& in, bool in_steps) {
  return attention(row, in.q, in.k, in.v, in_steps);
}
// Of a sum in which every element of the output counts differently.
std::vector<Tensor> gradients(const Row& row, const Inputs& in, bool in_steps) {
  const Tensor out = output(row, in, in_steps).cast(DType::Float32);
  const Tensor weights =
      Tensor::arange(out.numel().value(), {.dtype = DType::Float32, .device = out.device()});
  return out.mul(weights.sin().reshape(out.shape())).sum().gradient(in.all());
}

// What they are when nothing is optimised.
std::vector<std::vector<double>> in_steps(const std::vector<Tensor>& tensors) {
  const KnobScope plain(Knob::NOOPT, 1);
  std::vector<std::vector<double>> out;
  for (const Tensor& t : tensors) out.push_back(t.to_vector<double>());
  return out;
}

double tolerance_of(const Row& row) { return row.dtype == DType::Float32 ? 1e-5 : 2e-2; }

}  // namespace

TEST_CASE("attention in one kernel is what its steps are") {
  for (const Row& row : kRows) {
    INFO(row.name);
    const Inputs in = inputs_of(row);
    const Tensor out = output(row, in, false);
    CHECK(kernels_of({out}) == 1);
    const std::vector<double> wanted = in_steps({output(row, in.to("INTERP"), true)})[0];
    check_values(out, wanted, tolerance_of(row));
  }
}

TEST_CASE("gradients of attention without scores in memory are what they are with") {
  for (const Row& row : kRows) {
    // Sums over heads want scores of them all; what is NaN in rows without keys is left out with its block.
    if (!(row.q[1] == row.k[1]) || row.name == "a window past the keys") continue;
    INFO(row.name);
    const Inputs in = inputs_of(row);
    std::vector<Tensor> got;
    {
      const int64_t scores = (prod(row.q) * row.k[2]).value() / row.q[3].value() * item_size(row.dtype);
      const KnobScope limit(Knob::MAX_BUFFER_SIZE, static_cast<int>(scores - 1));
      got = gradients(row, in, false);
      got.push_back(output(row, in, false));
      CHECK(kernels_of(got) <= 7);
    }
    std::vector<Tensor> steps = gradients(row, in.to("INTERP"), true);
    steps.push_back(output(row, in.to("INTERP"), true));
    const std::vector<std::vector<double>> wanted = in_steps(steps);
    for (size_t i = 0; i < wanted.size(); i++) check_values(got[i], wanted[i], 4 * tolerance_of(row));
  }
}

TEST_CASE("the bits of attention do not depend on the number of threads") {
  const Row row{"", {2, 3, 130, 16}, {2, 3, 130, 16}, {2, 3, 130, 16}, window(1000, 0)};
  const Inputs in = inputs_of(row);
  std::vector<std::vector<double>> first;
  for (const int threads : {1, 2, 3, 7}) {
    const KnobScope count(Knob::CPU_COUNT, threads);
    const KnobScope limit(Knob::MAX_BUFFER_SIZE, 6 * 130 * 130 * 4 - 1);
    std::vector<Tensor> tensors = gradients(row, in, false);
    tensors.push_back(output(row, in, false));
    std::vector<std::vector<double>> bits;
    for (const Tensor& t : tensors) bits.push_back(t.to_vector<double>());
    if (first.empty()) first = bits;
    CHECK((bits == first));
  }
}

TEST_CASE("attention over 2048 tokens keeps no scores, its gradients neither where they are too many") {
  const TensorOptions null{.dtype = std::nullopt, .device = "NULL"};
  const auto peak = [&](int64_t heads, bool backward) {
    const Shape shape{1, heads, 2048, 64};
    std::vector<Tensor> in;
    for (int i = 0; i < 3; i++) in.push_back(Tensor::empty(shape, null).realize());
    const Tensor out = in[0].scaled_dot_product_attention(in[1], in[2], std::nullopt, {.is_causal = true});
    const std::vector<Tensor> wanted = backward ? out.square().sum().gradient(in) : std::vector{out};
    const int64_t before = counters().memory;
    return run(wanted).peak_memory - before;
  };
  constexpr int64_t kScores = 2048 * 2048 * 4;
  CHECK(peak(1, false) < kScores / 4);
  CHECK(peak(64, true) < 64 * kScores / 4);
}

TEST_CASE("exponents that differ by column, and roundings that were asked for") {
  const auto numbers = [](const Shape& shape, const std::string& device) {
    const int64_t n = prod(shape).value();
    std::vector<float> v(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; i++) v[static_cast<size_t>(i)] = std::sin(static_cast<float>(i) * 0.7f) * 2;
    return Tensor::from(v).reshape(shape).to(device).realize();
  };
  const auto weighed = [&](const std::string& device) {
    const Tensor q = numbers({40, 32}, device), k = numbers({32, 48}, device), b = numbers({48, 16}, device);
    const Tensor s = q.dot(k), largest = s.max(-1, true);
    return s.unsqueeze(-1).add(b).sub(largest.unsqueeze(-1)).exp().sum(1);
  };
  const auto rounded = [&](const std::string& device) {
    const Tensor q = numbers({64, 32}, device), k = numbers({32, 64}, device), v = numbers({64, 32}, device);
    return q.dot(k).cast(DType::BFloat16).cast(DType::Float32).softmax(-1).dot(v);
  };
  for (const auto& f : {std::function<Tensor(const std::string&)>(weighed), {rounded}}) {
    std::vector<double> expected;
    {
      const KnobScope plain(Knob::NOOPT, 1);
      expected = f("INTERP").to_vector<double>();
    }
    check_values(f("CPU"), expected, 1e-4);
  }
}

TEST_CASE("a long stack of attentions is scheduled in a moment") {
  const TensorOptions null{.dtype = DType::Float32, .device = "NULL"};
  Tensor x = Tensor::empty({64, 32}, null).realize();
  const Tensor w = Tensor::empty({32, 128}, null).realize(), v = Tensor::empty({128, 32}, null).realize();
  constexpr int kLayers = 100;
  for (int i = 0; i < kLayers; i++) x = x.dot(w).softmax(-1).dot(v).add(x);
  const double start = now_seconds();
  x.realize();
  CHECK(now_seconds() - start < 20);  // well under one second; minutes where layers dissolve into each other
}
