// ctest: --heads 2 --length 48 --width 16
// prints: agrees
// Attention as one kernel that the user writes: blocks of keys come by, and the softmax over all of them is
// kept up to date (Dao et al., FlashAttention, 2022). docs/custom_kernels.md goes through it.
#include "options.h"

#include <array>
#include <cmath>
#include <vector>

using namespace lathe;

namespace {

constexpr char kHelp[] =
    "Attention as a kernel of UOps, compared with scaled_dot_product_attention.\n\n"
    "usage: example_flash_attention [options]\n"
    "  --heads N    heads (default 8)\n"
    "  --length N   queries and keys, a multiple of 16 (default 512)\n"
    "  --width N    elements of each (default 64)\n\n"
    "example: example_flash_attention --heads 4 --length 1024\n";

constexpr int64_t kBlock = 16;  // keys that are scored before the softmax is brought up to date

UOp after(const UOp& x, std::vector<UOp> effects) {
  effects.insert(effects.begin(), x);
  return UOp::make(Op::After, DType::Void, effects);
}
UOp end(const UOp& effect, std::vector<UOp> loops) {
  loops.insert(loops.begin(), effect);
  return UOp::make(Op::End, DType::Void, loops);
}
UOp at(const UOp& memory, std::vector<UOp> coordinates) { return index(memory, coordinates); }
UOp scratch(int64_t n) { return new_buffer({n}, DType::Float32, "", AddrSpace::Reg); }
UOp over(Op op, const UOp& value, const UOp& loop) {
  return UOp::make(Op::Reduce, {value, loop}, ReduceArg{op, 0});
}
UOp number(double v) { return constant(DType::Float32, v); }

// out, q, k, v: (heads, length, width).
UOp flash_attention(const std::vector<UOp>& args) {
  const UOp &out = args[0], &q = args[1], &k = args[2], &v = args[3];
  const int64_t heads = q.shape()[0].value(), length = q.shape()[1].value(), width = q.shape()[2].value();
  int id = 0;
  const auto loop = [&](int64_t n, AxisType type = AxisType::Loop) { return range(n, id++, type); };
  const UOp head = loop(heads, AxisType::Thread), row = loop(length), block = loop(length / kBlock);
  const UOp zero = constant(0);

  // What is known of the softmax so far: its largest score, its sum, and the sum of values weighted by it.
  const UOp largest = scratch(1), sum = scratch(1), total = scratch(width), scores = scratch(kBlock);
  const UOp e0 = loop(width, AxisType::Vector);
  const UOp largest0 = store(at(after(largest, {head, row}), {zero}), number(-INFINITY));
  const UOp sum0 = store(at(after(sum, {head, row}), {zero}), number(0));
  const UOp total0 = end(store(at(after(total, {head, row}), {e0}), number(0)), {e0});

  // Scores of a block of keys, in powers of two.
  const UOp c = loop(kBlock), d = loop(width, AxisType::Vector);
  const UOp dot = over(Op::Add, load(at(q, {head, row, d})) * load(at(k, {head, block * kBlock + c, d})), d);
  const double scale = std::log2(std::exp(1.0)) / std::sqrt(static_cast<double>(width));
  const UOp scored = end(store(at(after(scores, {block}), {c}), dot * number(scale)), {c});

  // The largest may grow: then all that was summed shrinks.
  const UOp known = at(after(largest, {largest0, block}), {zero});
  const UOp c1 = loop(kBlock, AxisType::Reduce);
  const UOp grown = maximum(load(known), over(Op::Max, load(at(after(scores, {scored}), {c1})), c1));
  const UOp shrink = alu(Op::Exp2, {load(known) - grown});
  const UOp c2 = loop(kBlock);
  const UOp weight = at(after(scores, {scored}), {c2});
  const UOp weighted = end(store(weight, alu(Op::Exp2, {load(weight) - grown})), {c2});

  const UOp weights = after(scores, {weighted});
  const UOp c3 = loop(kBlock, AxisType::Reduce), c4 = loop(kBlock, AxisType::Reduce);
  const UOp e = loop(width, AxisType::Vector);
  const UOp sum_at = at(after(sum, {sum0, block}), {zero}), total_at = at(after(total, {total0, block}), {e});
  const UOp more = over(Op::Add, load(at(weights, {c4})) * load(at(v, {head, block * kBlock + c4, e})), c4);
  const std::array steps{
      store(known, grown),
      store(sum_at, load(sum_at) * shrink + over(Op::Add, load(at(weights, {c3})), c3)),
      end(store(total_at, load(total_at) * shrink + more), {e}),
  };
  const UOp seen = end(UOp::make(Op::Group, DType::Void, steps), {block});

  const UOp f = loop(width, AxisType::Vector);
  const UOp result = load(at(after(total, {seen}), {f})) / load(at(after(sum, {seen}), {zero}));
  return end(store(at(out, {head, row, f}), result), {head, row, f});
}

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

int compare(const example::Options& options) {
  const int64_t heads = options.number("--heads", 8), length = options.number("--length", 512),
                width = options.number("--width", 64);
  if (length % kBlock != 0 || length == 0) throw example::WrongUsage{"--length wants a multiple of 16"};
  Tensor::manual_seed(1);
  const Shape shape{heads, length, width};
  const Tensor q = Tensor::randn(shape).realize(), k = Tensor::randn(shape).realize(),
               v = Tensor::randn(shape).realize();
  // What the kernel computes is differentiated by way of the plain form.
  const GradientFunction gradient = [](const auto& grads, const auto& a) {
    const Tensor plain = a[1].scaled_dot_product_attention(a[2], a[3]);
    const auto g = plain.gradient({a[1], a[2], a[3]}, grads[0]);
    return std::vector<std::optional<Tensor>>{std::nullopt, g[0], g[1], g[2]};
  };
  const auto flash = [&] {
    return custom_kernel({Tensor::empty(shape), q, k, v}, flash_attention,
                         {.name = "flash_attention", .gradient = gradient})[0];
  };
  const auto plain = [&] { return q.scaled_dot_product_attention(k, v); };
  const auto seconds_of = [](const auto& attention) {
    attention().realize();
    const double start = now_seconds();
    attention().realize();
    return now_seconds() - start;
  };
  const double difference = largest_difference(flash(), plain());
  const double gradients =
      largest_difference(flash().square().sum().gradient({q})[0], plain().square().sum().gradient({q})[0]);
  std::printf("one kernel %.2f ms, scaled_dot_product_attention %.2f ms\n", seconds_of(flash) * 1e3,
              seconds_of(plain) * 1e3);
  const bool ok =
      example::expect(difference < 1e-4, "the values are those of scaled_dot_product_attention") &&
      example::expect(gradients < 1e-3, "so are the gradients");
  if (ok) std::printf("agrees within %.1e\n", difference);
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return example::run(argc, argv, kHelp, compare); }
