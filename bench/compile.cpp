// Schedule, lowering and rendering of a ResNet-18 forward pass (batch 1, 224x224) and of a block of a llama
// (2048 wide, 32 heads over 8, a prompt of 16 tokens), without any cache: what a first run costs before the
// machine-code compiler starts. Every distinct kernel is lowered once, as the engine does.
#include "codegen/actions.h"
#include "codegen/lower.h"
#include "codegen/passes.h"
#include "renderer/llvm.h"
#include "schedule/schedule.h"
#include "tensor/tensor.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include <benchmark/benchmark.h>

#include <unordered_set>

namespace lathe {
namespace {

Tensor weights(const Shape& s) { return Tensor::empty(s, {.dtype = DType::Float32, .device = "NULL"}); }

Tensor conv_bn(const Tensor& x, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  const Tensor y =
      x.conv2d(weights({out, in, kernel, kernel}), std::nullopt, {.stride = stride, .padding = kernel / 2});
  return y.batchnorm(weights({out}), weights({out}), weights({out}), (weights({out}) + 1e-5).rsqrt());
}

Tensor block(const Tensor& x, int64_t in, int64_t out, int64_t stride) {
  const Tensor y = conv_bn(conv_bn(x, in, out, 3, stride).relu(), out, out, 3, 1);
  return (y + (stride == 1 && in == out ? x : conv_bn(x, in, out, 1, stride))).relu();
}

UOp resnet18(int64_t batch = 1) {
  Tensor x = conv_bn(weights({batch, 3, 224, 224}), 3, 64, 7, 2)
                 .relu()
                 .max_pool2d({3, 3}, {.stride = 2, .padding = 1});
  int64_t in = 64;
  for (int64_t out : {64, 128, 256, 512}) {
    x = block(x, in, out, out == 64 ? 1 : 2);
    x = block(x, out, out, 1);
    in = out;
  }
  return x.mean({2, 3}).linear(weights({1000, 512}).transpose(), weights({1000})).uop();
}

Tensor rms_norm(const Tensor& x) {
  return x * (x.square().mean(-1, true) + 1e-5).rsqrt() * weights({x.size(-1).value()});
}

// Turns the halves of each head (…, tokens, heads, width) by the token's angles.
Tensor turned(const Tensor& x, const Tensor& angles) {
  const int64_t half = x.size(-1).value() / 2;
  const auto parts = x.split({half, half}, -1);
  const Tensor c = angles.cos(), s = angles.sin();
  return Tensor::cat({parts[0] * c - parts[1] * s, parts[0] * s + parts[1] * c}, -1);
}

UOp llama_block() {
  constexpr int64_t kTokens = 16, kWidth = 2048, kHeads = 32, kKeyHeads = 8, kHead = 64, kInner = 8192;
  const TensorOptions placed{.dtype = DType::Float32, .device = "NULL"};
  const Tensor x = weights({1, kTokens, kWidth}), h = rms_norm(x);
  const Tensor angles = Tensor::arange(kTokens, placed).reshape({kTokens, 1, 1}) *
                        (Tensor::arange(kHead / 2, placed) * (-2.0 / kHead * 18.93)).exp2();
  const auto linear = [](const Tensor& v, int64_t out) {
    return v.linear(weights({out, v.size(-1).value()}).transpose());
  };
  const auto heads = [&](int64_t n) { return linear(h, n * kHead).reshape({1, kTokens, n, kHead}); };
  const Tensor q = turned(heads(kHeads), angles).transpose(1, 2),
               k = turned(heads(kKeyHeads), angles).transpose(1, 2), v = heads(kKeyHeads).transpose(1, 2);
  const Tensor a =
      q.scaled_dot_product_attention(k, v, std::nullopt, {.is_causal = true, .enable_gqa = true});
  const Tensor o = x + linear(a.transpose(1, 2).reshape({1, kTokens, kWidth}), kWidth), g = rms_norm(o);
  return (o + linear(linear(g, kInner).silu() * linear(g, kInner), kWidth)).uop();
}

using Model = UOp();
UOp resnet18_once() { return resnet18(); }

std::vector<UOp> distinct_kernels(const Schedule& s) {
  std::unordered_set<UOp> seen;
  std::vector<UOp> out;
  for (const ScheduledKernel& k : s.kernels)
    if (seen.insert(k.body).second) out.push_back(k.body);
  return out;
}

void schedule(benchmark::State& state, Model* model) {
  const UOp net = model();
  size_t kernels = 0;
  for (auto _ : state) kernels = make_schedule({&net, 1}).kernels.size();
  state.counters["kernels"] = static_cast<double>(kernels);
}
BENCHMARK_CAPTURE(schedule, resnet18, resnet18_once)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(schedule, llama, llama_block)->Unit(benchmark::kMillisecond);

void lower_kernels(benchmark::State& state, Model* model) {
  const UOp net = model();
  const std::vector<UOp> bodies = distinct_kernels(make_schedule({&net, 1}));
  const Target target = llvm_target();
  size_t nodes = 0;
  for (auto _ : state)
    for (const UOp& b : bodies) nodes += lower(b, target).linear.size();
  state.counters["distinct"] = static_cast<double>(bodies.size());
  state.counters["program_nodes"] = static_cast<double>(nodes) / static_cast<double>(state.iterations());
}
BENCHMARK_CAPTURE(lower_kernels, resnet18, resnet18_once)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(lower_kernels, llama, llama_block)->Unit(benchmark::kMillisecond);

// What the heuristic takes for a kernel.
void optimise_kernels(benchmark::State& state, Model* model) {
  const UOp net = model();
  std::vector<UOp> bodies;
  for (const UOp& b : distinct_kernels(make_schedule({&net, 1})))
    bodies.push_back(prepare_kernel(b, llvm_target()));
  const Target target = llvm_target();
  for (auto _ : state)
    for (const UOp& b : bodies) benchmark::DoNotOptimize(optimise(b, target));
  state.counters["time/kernel"] =
      benchmark::Counter(static_cast<double>(bodies.size()),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(optimise_kernels, resnet18, resnet18_once)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(optimise_kernels, llama, llama_block)->Unit(benchmark::kMillisecond);

// Kernels as the first simplification after the copies of Upcast axes meets them, for more and more images,
// until there are 100,000 nodes.
std::vector<UOp> expanded_kernels(size_t& nodes) {
  std::vector<UOp> out;
  const Target target = llvm_target();
  for (int64_t batch = 1; nodes < 100'000; batch++) {
    const UOp net = resnet18(batch);
    for (const UOp& body : distinct_kernels(make_schedule({&net, 1}))) {
      if (nodes >= 100'000) break;
      out.push_back(expand_upcasts(optimise(simplify(body), target)));
      nodes += toposort(out.back()).size();
    }
  }
  return out;
}

// The same kernels over ranges of other numbers: almost all nodes are new.
std::vector<UOp> in_new_places(const std::vector<UOp>& kernels, int64_t n) {
  std::vector<UOp> out;
  for (const UOp& k : kernels) {
    std::vector<std::pair<UOp, UOp>> other;
    for (const UOp& u : toposort(k))
      if (u.op() == Op::Range)
        other.emplace_back(u, range(u.src(0), u.range().id + static_cast<int>(n) * 100, u.range().type));
    out.push_back(substitute(k, other));
  }
  return out;
}

// Simplifies the kernels, or those that are simple already, and reports the seconds for each node. What an
// iteration notes on nodes must not help the next one: simple kernels meet the same rules in a matcher that
// notes nothing, and the others get new ranges.
void simplify_each(benchmark::State& state, bool simple) {
  size_t nodes = 0;
  int64_t iteration = 0;
  const std::vector<UOp> given = expanded_kernels(nodes);
  const Matcher<UOp> rules({symbolic_rule_set()});
  std::vector<UOp> graphs = given;
  if (simple)
    for (UOp& g : graphs) g = simplify(g);
  for (auto _ : state) {
    if (!simple) {
      state.PauseTiming();
      graphs = in_new_places(given, ++iteration);
      state.ResumeTiming();
    }
    for (const UOp& g : graphs) benchmark::DoNotOptimize(simple ? graph_rewrite(g, rules) : simplify(g));
  }
  state.counters["kernels"] = static_cast<double>(graphs.size());
  state.counters["nodes"] = static_cast<double>(nodes);
  state.counters["time/node"] =
      benchmark::Counter(static_cast<double>(nodes) * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void simplify_kernels(benchmark::State& state) { simplify_each(state, false); }
BENCHMARK(simplify_kernels)->Unit(benchmark::kMillisecond);
void simplify_simple_kernels(benchmark::State& state) { simplify_each(state, true); }
BENCHMARK(simplify_simple_kernels)->Unit(benchmark::kMillisecond);

void render_kernels(benchmark::State& state, Model* model) {
  const UOp net = model();
  const Target target = llvm_target();
  std::vector<LoweredKernel> lowered;
  for (const UOp& b : distinct_kernels(make_schedule({&net, 1}))) lowered.push_back(lower(b, target));
  const LlvmRenderer renderer(target);
  for (auto _ : state)
    for (const LoweredKernel& k : lowered) benchmark::DoNotOptimize(renderer.render(k.name, k.linear));
}
BENCHMARK_CAPTURE(render_kernels, resnet18, resnet18_once)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(render_kernels, llama, llama_block)->Unit(benchmark::kMillisecond);

void everything(benchmark::State& state, Model* model) {
  const UOp net = model();
  const Target target = llvm_target();
  const LlvmRenderer renderer(target);
  for (auto _ : state)
    for (const UOp& b : distinct_kernels(make_schedule({&net, 1}))) {
      const LoweredKernel k = lower(b, target);
      benchmark::DoNotOptimize(renderer.render(k.name, k.linear));
    }
}
BENCHMARK_CAPTURE(everything, resnet18, resnet18_once)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(everything, llama, llama_block)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lathe
