// Sums of products with dot instructions: what is legal, and that no schedule changes a result.
#include "codegen/tensor_core.h"

#include "base/knobs.h"
#include "codegen/actions.h"
#include "codegen/lower.h"
#include "renderer/llvm.h"
#include "tensor/custom_kernel.h"
#include "unit/tensor_check.h"
#include "uop/spec_rules.h"

#include <algorithm>
#include <array>
#include <random>

using namespace lathe;
using namespace lathe::test;
using enum ActionKind;

namespace {

struct Sizes {
  int64_t m, n, k;
};

UOp reduce_over(const UOp& x, const UOp& r) { return UOp::make(Op::Reduce, {x, r}, ReduceArg{Op::Add, 0}); }

// out (m, n) = Σ_k wide(a (m, k)) · wide(b (n, k), or (k, n)).
UOp product_kernel(const std::vector<UOp>& args, const Sizes& s, bool transposed) {
  const UOp m = range(s.m, 0, AxisType::Loop), n = range(s.n, 1, AxisType::Loop),
            k = range(s.k, 2, AxisType::Reduce);
  const DType wide = args[0].dtype();
  const UOp x = load(index(args[1], std::array{m, k})),
            y = load(index(args[2], transposed ? std::array{n, k} : std::array{k, n}));
  const UOp sum = reduce_over(cast(x, wide) * cast(y, wide), k);
  return UOp::make(Op::End, {store(index(args[0], std::array{m, n}), sum), m, n});
}

// Σ_b sx(m, b) · sw(n, b) · (Σ_j x(m, 32 b + j) · w(n, 32 b + j) - c(n, b)), the inner sum in int32.
UOp block_kernel(const std::vector<UOp>& args, const Sizes& s) {
  const UOp m = range(s.m, 0, AxisType::Loop), n = range(s.n, 1, AxisType::Loop),
            b = range(s.k / 32, 2, AxisType::Reduce), j = range(32, 3, AxisType::Reduce);
  const auto whole = [&](const UOp& p, const UOp& row) {
    return cast(load(index(p, std::array{row, b * 32 + j})), DType::Int32);
  };
  const UOp sum = reduce_over(whole(args[1], m) * whole(args[3], n), j);
  const UOp scale = load(index(args[2], std::array{m, b})) * load(index(args[4], std::array{n, b}));
  const UOp offset = load(index(args[5], std::array{n, b}));
  const UOp all = reduce_over(cast(sum - offset, DType::Float32) * scale, b);
  return UOp::make(Op::End, {store(index(args[0], std::array{m, n}), all), m, n});
}

// Whole numbers over all of the type, its extremes among them; of a float -8 to 8.
Tensor numbers(const Shape& shape, DType d) {
  static std::mt19937 random(7);
  const auto lo = is_float(d) ? -8 : min_value(d).as_i64(), hi = is_float(d) ? 8 : max_value(d).as_i64();
  std::vector<int32_t> v(static_cast<size_t>(prod(shape).value()));
  for (int32_t& x : v)
    x = static_cast<int32_t>(lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1)));
  v[0] = static_cast<int32_t>(lo), v.back() = static_cast<int32_t>(hi);
  return Tensor::from(v).reshape(shape).cast(d).realize();
}

std::vector<double> products(const Tensor& a, const Tensor& b, const Sizes& s, bool transposed) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  std::vector<double> out;
  for (int64_t m = 0; m < s.m; m++)
    for (int64_t n = 0; n < s.n; n++) {
      double sum = 0;
      for (int64_t k = 0; k < s.k; k++)
        sum += x[static_cast<size_t>(m * s.k + k)] *
               y[static_cast<size_t>(transposed ? n * s.k + k : k * s.n + n)];
      // Sums of integers wrap.
      out.push_back(is_float(a.dtype()) ? sum : static_cast<int32_t>(static_cast<int64_t>(sum)));
    }
  return out;
}

// On every CPU device, with dot instructions and without.
void check_everywhere(const std::vector<Tensor>& inputs, const Shape& shape, DType d,
                      const KernelFunction& kernel, const std::vector<Action>& actions,
                      const std::vector<double>& expected, double tolerance = 0) {
  CAPTURE(print_actions(actions));
  for (const char* device : {"CPU", "CPU:C", "INTERP"})
    for (int dot : {1, 0}) {
      CAPTURE(device);
      CAPTURE(dot);
      const KnobScope knob(Knob::DOT, dot);
      std::vector<Tensor> args{Tensor::empty(shape, {.dtype = d, .device = device})};
      for (const Tensor& t : inputs) args.push_back(t.to(device));
      check_values(custom_kernel(args, kernel, {.name = "", .actions = actions})[0], expected, tolerance);
    }
}

void check_products(DType a, DType b, const Sizes& s, bool transposed, const std::vector<Action>& actions) {
  CAPTURE(dtype_name(a));
  CAPTURE(dtype_name(b));
  const Tensor x = numbers({s.m, s.k}, a), y = numbers(transposed ? Shape{s.n, s.k} : Shape{s.k, s.n}, b);
  check_everywhere(
      {x, y}, {s.m, s.n}, is_float(a) ? DType::Float32 : DType::Int32,
      [&](const auto& args) { return product_kernel(args, s, transposed); }, actions,
      products(x, y, s, transposed));
}

constexpr DType kBytes[] = {DType::UInt8, DType::Int8};

// The kernel of a product on its own.
UOp product_body(DType a, DType b, DType wide, const std::vector<Action>& actions) {
  const Sizes s{4, 16, 32};
  const std::vector<UOp> args{param(0, {64}, wide), param(1, {128}, a), param(2, {512}, b)};
  const UOp m = range(s.m, 0, AxisType::Loop), n = range(s.n, 1, AxisType::Loop),
            k = range(s.k, 2, AxisType::Reduce);
  const UOp x = load(index(args[1], m * s.k + k)), y = load(index(args[2], k * s.n + n));
  const UOp end = UOp::make(
      Op::End, {store(index(args[0], m * s.n + n), reduce_over(cast(x, wide) * cast(y, wide), k)), m, n});
  KernelArg arg;
  arg.given = actions;
  return sink({&end, 1}, std::make_shared<const KernelArg>(std::move(arg)));
}

long dots_in(const std::vector<UOp>& program) { return std::ranges::count(program, Op::Dot, &UOp::op); }

}  // namespace

TEST_CASE("lanes along the columns, with and without packing") {
  for (DType a : kBytes)
    for (DType b : kBytes)
      for (const auto& actions : std::initializer_list<std::vector<Action>>{
               {{TensorCore, 2, 4}, {Vector, 1, 16}},
               {{Vector, 1, 8}, {TensorCore, 3, 4}, {Unroll, 3, 3}},
               {{TensorCore, 2, 4}, {Vector, 1, 0}, {Upcast, 0, 5}, {Stage, 1, 0}}})
        check_products(a, b, {5, 32, 24}, false, actions);
  check_products(DType::UInt8, DType::Int8, {3, 32, 8}, true,
                 {{TensorCore, 2, 4}, {Vector, 1, 16}, {Stage, 1, 0}});
}

TEST_CASE("lanes along the sum, no lanes, and numbers of lanes that fill no register") {
  for (DType b : kBytes) {
    check_products(DType::Int8, b, {3, 5, 96}, true, {{TensorCore, 2, 4}, {Vector, 2, 12}});
    check_products(DType::Int8, b, {3, 5, 96}, true, {{TensorCore, 2, 4}, {Vector, 2, 8}, {Upcast, 1, 5}});
    check_products(DType::Int8, b, {3, 5, 12}, true, {{TensorCore, 2, 4}});
    check_products(DType::Int8, b, {3, 7, 4}, false, {{TensorCore, 2, 0}, {Vector, 1, 0}});
    check_products(DType::Int8, b, {2, 24, 8}, false, {{TensorCore, 2, 4}, {Vector, 1, 24}});
  }
}

TEST_CASE("pairs of 16 bits and of bfloat16") {
  for (DType d : {DType::Int16, DType::Int8, DType::BFloat16})
    for (bool transposed : {false, true}) {
      check_products(d, d, {3, 32, 14}, transposed, {{TensorCore, 2, 2}, {Vector, 1, 16}, {Stage, 1, 0}});
      check_products(d, d, {3, 7, 64}, transposed, {{TensorCore, 2, 2}, {Vector, 2, 8}});
    }
}

TEST_CASE("products that count under a gate only") {
  for (DType d : {DType::Int8, DType::BFloat16}) {
    const Tensor x = numbers({3, 32}, d), y = numbers({5, 32}, d), rest = x * (Tensor::arange(32) % 8).lt(5);
    const DType wide = is_float(d) ? DType::Float32 : DType::Int32;
    const auto kernel = [&](const auto& args) {
      const UOp m = range(3, 0, AxisType::Loop), n = range(5, 1, AxisType::Loop),
                k = range(32, 2, AxisType::Reduce), inside = lt(k % 8, 5);
      const auto factor = [&](const UOp& p, const UOp& row) {
        return cast(load(index(p, where(inside, row * 32 + k, invalid()))), wide);
      };
      const UOp product = factor(args[1], m) * factor(args[2], n);
      const UOp sum = reduce_over(where(inside, product, constant(wide, Scalar(0))), k);
      return UOp::make(Op::End, {store(index(args[0], m * 5 + n), sum), m, n});
    };
    const int32_t group = is_float(d) ? 2 : 4;
    for (const auto& actions : std::initializer_list<std::vector<Action>>{
             {{TensorCore, 2, group}, {Vector, 2, 4}}, {{TensorCore, 2, group}, {Vector, 1, 0}}})
      check_everywhere({x.reshape({96}), y.reshape({160})}, {SInt(15)}, wide, kernel, actions,
                       products(rest, y, {3, 5, 32}, true));
  }
}

TEST_CASE("a sum of bytes is one of products with 1") {
  for (DType d : kBytes) {
    const Tensor x = numbers({3, 96}, d);
    const auto kernel = [](const auto& args) {
      const UOp m = range(3, 0, AxisType::Loop), k = range(96, 1, AxisType::Reduce);
      const UOp sum = reduce_over(cast(load(index(args[1], std::array{m, k})), DType::Int32), k);
      return UOp::make(Op::End, {store(index(args[0], m), sum), m});
    };
    check_everywhere({x}, {SInt(3)}, DType::Int32, kernel, {{TensorCore, 1, 4}, {Vector, 1, 8}},
                     x.cast(DType::Int32).sum(1).to_vector<double>());
  }
}

TEST_CASE("sums of scaled blocks") {
  const Sizes s{3, 32, 256};
  const Shape scales{SInt(3), SInt(8)}, wide{SInt(32), SInt(8)};
  const Tensor x = numbers({s.m, s.k}, DType::Int8), w = numbers({s.n, s.k}, DType::Int8),
               sx = numbers(scales, DType::Float32), sw = numbers(wide, DType::Float32),
               c = numbers(wide, DType::Int8).cast(DType::Int32).realize();
  const auto xs = x.to_vector<double>(), ws = w.to_vector<double>(), ps = sx.to_vector<double>(),
             qs = sw.to_vector<double>(), cs = c.to_vector<double>();
  std::vector<double> expected;
  for (size_t m = 0; m < 3; m++)
    for (size_t n = 0; n < 32; n++) {
      double all = 0;
      for (size_t b = 0; b < 8; b++) {
        double sum = -cs[n * 8 + b];
        for (size_t j = 0; j < 32; j++) sum += xs[m * 256 + b * 32 + j] * ws[n * 256 + b * 32 + j];
        all += ps[m * 8 + b] * qs[n * 8 + b] * sum;
      }
      expected.push_back(all);
    }
  for (const auto& actions : std::initializer_list<std::vector<Action>>{
           {{TensorCore, 2, 4}, {Vector, 1, 16}, {Unroll, 3, 2}, {Upcast, 0, 3}},
           {{TensorCore, 2, 4}, {Vector, 1, 16}, {Unroll, 3, 8}, {Stage, 1, 0}},
           {{TensorCore, 2, 4}, {Vector, 2, 8}},
           {{TensorCore, 2, 4}, {Vector, 2, 8}, {Upcast, 1, 4}, {Unroll, 4, 2}},
           {{TensorCore, 2, 4}, {Vector, 2, 8}, {Vector, 3, 2}}})
    check_everywhere(
        {x, sx, w, sw, c}, {s.m, s.n}, DType::Float32,
        [&](const auto& args) { return block_kernel(args, s); }, actions, expected, 1e-4);
}

TEST_CASE("targets use what they have") {
  const UOp body =
      product_body(DType::UInt8, DType::Int8, DType::Int32, {{TensorCore, 2, 4}, {Vector, 1, 16}});
  Target with = llvm_target(), without = with;
  with.dots = all_dots();
  without.dots.clear();
  CHECK(dots_in(lower(body, with).linear) == 1);
  CHECK(dots_in(lower(body, without).linear) == 0);
  CHECK(with.key() != without.key());
  const auto steps = [](DType d, DType wide, const Target& t) {
    const UOp plain = product_body(d, d, wide, {});
    return dot_steps(plain, kernel_axes(plain)[2], t);
  };
  CHECK(steps(DType::Int8, DType::Int32, with) == 4);
  CHECK(steps(DType::Int16, DType::Int32, with) == 2);
  CHECK(steps(DType::BFloat16, DType::Float32, with) == 2);
  CHECK(steps(DType::Int32, DType::Int32, with) == 0);
  CHECK(steps(DType::Int8, DType::Int32, without) == 0);
  const std::string text = LlvmRenderer(with).render("dot", lower(body, with).linear).source;
  CHECK(contains(text, "@llvm.x86.avx512.vpdpbusd.512(<16 x i32>"));
  std::erase_if(with.dots, [](const DotInstruction& d) { return d.lanes > 4; });
  const std::string narrow = LlvmRenderer(with).render("dot", lower(body, with).linear).source;
  CHECK(contains(narrow, "@llvm.x86.avx512.vpdpbusd.128(<4 x i32>"));
}

TEST_CASE("packing for a dot instruction gathers nothing") {
  Target t = llvm_target();
  t.dots = all_dots();
  for (DType d : {DType::Int8, DType::BFloat16}) {
    const DType wide = is_float(d) ? DType::Float32 : DType::Int32;
    const int group = is_float(d) ? 2 : 4;
    const UOp body = product_body(d, d, wide, {{TensorCore, 2, group}, {Vector, 1, 16}, {Stage, 1, 0}});
    for (const UOp& u : lower(body, t).linear)
      if (u.op() == Op::Index && is_memory(u.src(0))) CHECK(u.src(1).shape().empty());
  }
}

TEST_CASE("illegal schedules say why") {
  const auto refused = [](DType a, DType b, DType wide, const std::vector<Action>& actions) {
    const UOp body = product_body(a, b, wide, actions);
    return std::string(user_error([&] { lower(body, llvm_target()); }).what());
  };
  const DType i8 = DType::Int8, i32 = DType::Int32, f32 = DType::Float32;
  CHECK(contains(refused(i8, i8, i32, {{TensorCore, 0, 4}}), "TensorCore(0, 4): not a reduction loop"));
  CHECK(
      contains(refused(i8, i8, i32, {{TensorCore, 2, 8}}), "TensorCore(2, 8): no dot instruction sums this"));
  CHECK(contains(refused(i8, i32, i32, {{TensorCore, 2, 4}}), "no dot instruction sums this"));
  CHECK(contains(refused(DType::Int16, i8, i32, {{TensorCore, 2, 4}}), "no dot instruction sums this"));
  CHECK(contains(refused(i8, i8, f32, {{TensorCore, 2, 2}}), "no dot instruction sums this"));
  CHECK(contains(refused(DType::Float16, DType::BFloat16, f32, {{TensorCore, 2, 2}}), "no dot instruction"));
  CHECK(contains(refused(i8, i8, i32, {{TensorCore, 2, 4}, {TensorCore, 2, 4}}),
                 "the reduction has a dot axis"));
  CHECK(contains(refused(i8, i8, i32, {{TensorCore, 2, 3}}), "the amount does not divide the axis"));
}
