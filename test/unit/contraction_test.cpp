// Register tiles of products and convolutions: every action that makes them, and that the heuristic's choice
// computes what the plain loops do.
#include "base/knobs.h"
#include "codegen/actions.h"
#include "codegen/lower.h"
#include "codegen/passes.h"
#include "codegen/stage.h"
#include "schedule/schedule.h"
#include "tensor/custom_kernel.h"
#include "unit/tensor_check.h"
#include "uop/gates.h"
#include "uop/simplify.h"
#include "uop/variable.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

using namespace lathe;
using namespace lathe::test;
using enum ActionKind;

namespace {

UOp sum_over(const UOp& x, std::initializer_list<UOp> ranges) {
  std::vector<UOp> srcs{x};
  srcs.insert(srcs.end(), ranges.begin(), ranges.end());
  return UOp::make(Op::Reduce, x.dtype(), {srcs.data(), srcs.size()}, ReduceArg{Op::Add, 0});
}

// Whole numbers, so that sums are exact in any order.
Tensor numbers(const Shape& shape) {
  int64_t n = prod(shape).value();
  std::vector<float> v(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) v[static_cast<size_t>(i)] = static_cast<float>((i * 7 + i / 5) % 11 - 5);
  return Tensor::from(v).reshape(shape).realize();
}

// out (13, 21) = Σ_k a (13, 30) · b (30, 21).
UOp product(const std::vector<UOp>& args) {
  const UOp m = range(13, 0, AxisType::Loop), n = range(21, 1, AxisType::Loop),
            k = range(30, 2, AxisType::Reduce);
  const UOp x = load(index(args[1], std::array{m, k})), y = load(index(args[2], std::array{k, n}));
  return UOp::make(Op::End, {store(index(args[0], std::array{m, n}), sum_over(x * y, {k})), m, n});
}

// out (4, 9) = Σ_c,k padded in (3, 9 + 2) at (c, j + k) · w (4, 3, 3).
UOp sliding_sum(const std::vector<UOp>& args) {
  const UOp o = range(4, 0, AxisType::Loop), j = range(9, 1, AxisType::Loop),
            c = range(3, 2, AxisType::Reduce), k = range(3, 3, AxisType::Reduce);
  const UOp at = j + k + -1, inside = ge(at, 0) & lt(at, 9);
  const UOp x = load(index(args[1], std::array{c, where(inside, at, invalid())}));
  const UOp w = load(index(args[2], std::array{o, c * 3 + k}));
  return UOp::make(Op::End, {store(index(args[0], std::array{o, j}), sum_over(x * w, {c, k})), o, j});
}

std::vector<float> run(const char* device, const std::vector<Tensor>& inputs, const Shape& shape,
                       const KernelFunction& kernel, const std::vector<Action>& actions) {
  std::vector<Tensor> args{Tensor::empty(shape, {.dtype = DType::Float32, .device = device})};
  for (const Tensor& t : inputs) args.push_back(t.to(device));
  return custom_kernel(args, kernel, {.name = "", .actions = actions})[0].to_vector<float>();
}

void check_schedule(const std::vector<Tensor>& inputs, const Shape& shape, const KernelFunction& kernel,
                    const std::vector<Action>& actions) {
  CAPTURE(print_actions(actions));
  const std::vector<float> plain = run("INTERP", inputs, shape, kernel, {});
  for (const char* device : {"CPU", "CPU:C", "INTERP"})
    CHECK(run(device, inputs, shape, kernel, actions) == plain);
}

std::string error_of(const std::vector<Action>& actions) {
  try {
    run("CPU", {numbers({13, 30}), numbers({30, 21})}, {13, 21}, product, actions);
  } catch (const UserError& e) {
    return e.what();
  }
  return {};
}

bool has(const std::vector<Action>& list, ActionKind kind) {
  return std::ranges::any_of(list, [&](const Action& a) { return a.kind == kind; });
}
std::vector<std::vector<Action>> actions_of(const Tensor& t) {
  std::vector<std::vector<Action>> out;
  VariableValues values;
  const UOp graph = take_values(t.uop(), values);
  for (const ScheduledKernel& k : make_schedule({&graph, 1}).kernels)
    out.push_back(lower(k.body, llvm_target()).actions);
  return out;
}

}  // namespace

TEST_CASE("tiles that do not divide, blocks, padding, merged and doubly threaded axes") {
  const std::vector<Tensor> inputs{numbers({13, 30}), numbers({30, 21})};
  for (const auto& actions : std::initializer_list<std::vector<Action>>{
           {{Tile, 1, 8}, {Vector, 2, 8}, {Tile, 0, 4}, {Upcast, 1, 4}},
           {{Tile, 1, 16},
            {Vector, 2, 8},
            {Upcast, 2, 2},
            {Tile, 0, 5},
            {Upcast, 1, 5},
            {Swap, 0, 2},
            {Stage, 1, 0}},
           {{Tile, 0, 4}, {Upcast, 1, 4}, {Block, 3, 10}},
           {{Tile, 1, 8}, {Vector, 2, 8}, {Block, 3, 6}, {Stage, 1, 0}, {Thread, 1, 3}},
           {{PadTo, 1, 16}, {Vector, 1, 8}},
           {{PadTo, 0, 8}, {Upcast, 0, 8}, {PadTo, 3, 16}, {Unroll, 3, 8}},
           {{Merge, 0, 0}, {Vector, 0, 7}},
           {{Tile, 0, 4},
            {Upcast, 1, 4},
            {Tile, 2, 7},
            {Vector, 3, 7},
            {Merge, 0, 0},
            {Thread, 0, 3},
            {Block, 4, 6}},
           {{Tile, 0, 5}, {Tile, 2, 8}, {Thread, 0, 3}, {Thread, 2, 3}}})
    check_schedule(inputs, {13, 21}, product, actions);
}

TEST_CASE("copies that slide along an output loop hold each element once") {
  const std::vector<Tensor> inputs{numbers({3, 9}), numbers({4, 9})};
  for (const auto& actions : std::initializer_list<std::vector<Action>>{
           {{Stage, 0, 1}},
           {{Stage, 0, 1}, {Vector, 0, 4}, {Tile, 1, 4}, {Upcast, 2, 4}},
           {{Stage, 0, 0}},
           {{Swap, 2, 3}},
           {{Stage, 0, 1}, {Swap, 2, 3}, {Vector, 0, 4}, {Unroll, 3, 3}}})
    check_schedule(inputs, {4, 9}, sliding_sum, actions);
}

TEST_CASE("what no tile may do is refused") {
  CHECK(error_of({{Tile, 2, 7}}).find("does not divide") != std::string::npos);
  CHECK(error_of({{Block, 1, 7}}).find("not a reduction loop") != std::string::npos);
  CHECK(error_of({{Block, 2, 30}}).find("the whole axis") != std::string::npos);
  CHECK(error_of({{PadTo, 0, 13}}).find("a multiple already") != std::string::npos);
  CHECK(error_of({{Swap, 1, 2}}).find("only output loops can be swapped, and loops of one reduction") !=
        std::string::npos);
  CHECK(error_of({{Merge, 1, 0}}).find("another kind") != std::string::npos);
  CHECK(error_of({{Merge, 2, 0}}).find("no next axis") != std::string::npos);
  CHECK(error_of({{Stage, 0, 1}}).find("slides along fewer loops") != std::string::npos);
  CHECK(error_of({{Stage, 9, 0}}).find("no such load") != std::string::npos);
  const Tensor sum = numbers({13, 21});
  const KernelFunction adding = [](const std::vector<UOp>& args) {
    const UOp n = range(273, 0, AxisType::Loop), at = index(args[0], n);
    return UOp::make(Op::End, {store(at, load(at) + constant(DType::Float32, 1.0)), n});
  };
  const std::vector<Tensor> args{sum.reshape({273})};
  const std::vector<Action> actions{{Tile, 0, 16}};
  CHECK_THROWS_WITH_AS(custom_kernel(args, adding, {.name = "", .actions = actions})[0].realize(),
                       doctest::Contains("parts overlap"), UserError);
}

TEST_CASE(
    "products of any size and order are those of plain loops, with the same bits for any thread count") {
  struct Sizes {
    int64_t m, n, k;
  };
  for (const Sizes& s : {Sizes{37, 53, 71}, {128, 100, 64}, {5, 300, 40}, {130, 10, 33}, {64, 64, 4096}})
    for (const bool left : {false, true})
      for (const bool right : {false, true}) {
        CAPTURE(s.m);
        CAPTURE(s.n);
        const Tensor a = left ? numbers({s.k, s.m}).transpose(0, 1) : numbers({s.m, s.k});
        const Tensor b = right ? numbers({s.n, s.k}).transpose(0, 1) : numbers({s.k, s.n});
        const auto run = [&](int threads) {
          KnobScope count(Knob::CPU_COUNT, threads);
          return ((a / 3).contiguous().matmul(b) + 1).relu().to_vector<float>();
        };
        const std::vector<float> one = run(1);
        for (const int threads : {2, 3, 5, 7, 12}) CHECK(run(threads) == one);
        KnobScope plain(Knob::NOOPT, 1);
        check_values((a.matmul(b) + 3).relu() / 3, std::vector<double>(one.begin(), one.end()), 2e-3);
      }
}

TEST_CASE("tiles beside loops whose number is known at the launch, and sums over them") {
  constexpr int64_t kHeads = 3, kRows = 40, kBlock = 32, kWidth = 24;
  const Variable blocks("blocks", 1, 5);
  const Tensor queries = numbers({kHeads, kRows, kWidth}), keys = numbers({kHeads, 5 * kBlock, kWidth}),
               values = (keys + 1).contiguous().realize();
  const auto mixed = [&](int64_t n) {
    const SInt b = blocks.bind(n);
    const auto part = [&](const Tensor& t) {
      return t.unflatten(1, {-1, kBlock}).at(Slice{}, Slice{0, b});  // (heads, blocks, kBlock, width)
    };
    const Tensor scores = (queries.reshape({kHeads, kRows, 1, 1, kWidth}) * part(keys).unsqueeze(1)).sum(-1);
    return scores.contiguous()
        .reshape({kHeads, kRows, b * SInt(kBlock)})
        .matmul(part(values).reshape({kHeads, b * SInt(kBlock), kWidth}));
  };
  const auto kernels = actions_of(mixed(2));
  REQUIRE(kernels.size() == 2);
  CHECK(has(kernels[0], Stage));  // keys, for the rows
  for (const std::vector<Action>& actions : kernels) {
    CHECK(has(actions, Vector));
    CHECK(has(actions, Upcast));
  }
  for (const int64_t n : {1, 2, 5}) {
    const std::vector<float> got = mixed(n).to_vector<float>();
    KnobScope plain(Knob::NOOPT, 1);
    CHECK(mixed(n).to_vector<float>() == got);
  }
}

TEST_CASE("sums that leave out what lies beyond an edge, for any number of threads") {
  // A row of the image that is left out does not meet weights that are no numbers.
  const Tensor x = numbers({2, 3, 14, 14});
  for (const bool is_infinite : {false, true}) {
    const Tensor w = is_infinite ? numbers({5, 3, 3, 3}) +
                                       Tensor::full({5, 3, 3, 3}, std::numeric_limits<double>::infinity())
                                 : numbers({5, 3, 3, 3});
    const Tensor weights = w.contiguous().realize();
    const auto bits = [&] {
      const auto v = x.conv2d(weights, std::nullopt, {.padding = 1}).to_vector<float>();
      std::vector<uint32_t> out(v.size());
      for (size_t i = 0; i < v.size(); i++) out[i] = std::isnan(v[i]) ? 1 : std::bit_cast<uint32_t>(v[i]);
      return out;
    };
    std::vector<uint32_t> one;
    for (const int threads : {1, 2, 3, 5, 7, 12}) {
      const KnobScope count(Knob::CPU_COUNT, threads);
      if (one.empty()) one = bits();
      CHECK(bits() == one);
    }
    if (is_infinite) continue;
    const KnobScope plain(Knob::NOOPT, 1);
    CHECK(bits() == one);
  }
  // And where the number of rows is known at the launch.
  const Variable rows("rows", 1, 67);
  const Tensor a = numbers({67, 67}).tril(), b = numbers({67, 9});
  const auto sums = [&](int64_t n) {
    return a.at(Slice{0, rows.bind(n)}).matmul(b).sum(0).to_vector<float>();
  };
  for (const int64_t n : {1, 5, 67}) {
    const std::vector<float> got = sums(n);
    const KnobScope plain(Knob::NOOPT, 1);
    CHECK(sums(n) == got);
  }
}

TEST_CASE("few rows are not worth packing what lies along the sum") {
  const Tensor weights = numbers({256, 512});
  const auto packs = [&](int64_t rows) {
    return has(actions_of(numbers({rows, 512}).matmul(weights.transpose(0, 1))).back(), Stage);
  };
  CHECK(!packs(2));
  CHECK(!packs(4));
  CHECK(packs(128));
}

TEST_CASE("a product and a convolution of everyday size run in tiles") {
  const auto product = actions_of(numbers({200, 300}).matmul(numbers({300, 250}))).back();
  CHECK(has(product, Vector));
  CHECK(has(product, Upcast));
  const auto conv =
      actions_of(numbers({2, 16, 20, 20}).conv2d(numbers({24, 16, 3, 3}), std::nullopt, {.padding = 1}))
          .back();
  CHECK(has(conv, Vector));
  CHECK(has(conv, Upcast));
  CHECK(has(conv, Stage));
}
