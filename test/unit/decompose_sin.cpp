// Kernels with sin, whose huge angles are reduced in a loop of their own, run whole.
#include "codegen/lower.h"
#include "codegen/passes.h"
#include "runtime/interp/executor.h"
#include "uop/simplify.h"
#include "uop/spec.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

Target target() {
  Target t;
  t.name = "test";
  t.native_ops = {Op::Sqrt,  Op::Trunc, Op::Reciprocal, Op::Neg, Op::Add, Op::Sub,  Op::Mul,
                  Op::FDiv,  Op::CDiv,  Op::CMod,       Op::Shl, Op::Shr, Op::Max,  Op::CmpLt,
                  Op::CmpNe, Op::CmpEq, Op::Xor,        Op::Or,  Op::And, Op::Where};
  t.dtypes = ~0u;
  return t;
}

UOp kernel(const UOp& address, const UOp& value, const UOp& loop) {
  const UOp effect = UOp::make(Op::End, {store(address, value), loop});
  return sink({&effect, 1}, std::make_shared<const KernelArg>());
}

template <class T>
std::vector<T> run(const UOp& body, const std::vector<T>& in, size_t n_out) {
  const LoweredKernel k = lower(body, target());
  CHECK_FALSE(find_violation(k.linear));
  for (const UOp& u : k.linear) CHECK_FALSE(u.op() == Op::Sin);
  std::vector<T> out(n_out, T(77)), copy = in;
  const std::span<std::byte> memory[] = {std::as_writable_bytes(std::span(out)),
                                         std::as_writable_bytes(std::span(copy))};
  for (int core = 0; core < k.n_cores; core++) interp::Code("sines", k.linear).run(memory, {}, core);
  return out;
}

template <class T>
void check(T got, double want) {
  if (std::isnan(want))
    CHECK(std::isnan(got));
  else
    CHECK(static_cast<double>(got) == doctest::Approx(want).epsilon(1e-6));
}

// Ordinary and huge angles, in groups of several sizes, and what is no number.
template <class T>
std::vector<T> angles(int n) {
  std::vector<T> in;
  for (int i = 0; i < n; i++)
    in.push_back(static_cast<T>(i % 37 < 20 ? i * 0.37 - 9 : std::ldexp(1.0 + i, i % 70)));
  in[3] = std::numeric_limits<T>::infinity();
  in[5] = std::numeric_limits<T>::quiet_NaN();
  return in;
}

}  // namespace

TEST_CASE_TEMPLATE("sin of each element", T, float, double) {
  const DType d = sizeof(T) == 4 ? DType::Float32 : DType::Float64;
  for (const int n : {1, 7, 64, 96}) {
    std::vector<T> in = angles<T>(std::max(n, 8));
    in.resize(static_cast<size_t>(n));
    const UOp r = range(n, 0, AxisType::Loop);
    const UOp x = load(index(param(1, {n}, d), r));
    const std::vector<T> out = run(kernel(index(param(0, {n}, d), r), alu(Op::Sin, {x}), r), in, in.size());
    for (size_t i = 0; i < in.size(); i++) check(out[i], std::sin(static_cast<double>(in[i])));
  }
}

TEST_CASE("sin of pi/2 - x is cos of x, however large") {
  std::vector<float> in{0, 1e-4f, 1, 1.5707964f, -2, 4.712389f, 10000, 54304, -1e10f, 3e38f};
  const int n = static_cast<int>(in.size());
  const UOp r = range(n, 0, AxisType::Loop);
  const UOp x = load(index(param(1, {n}, DType::Float32), r));
  const UOp angle = x * constant(DType::Float32, -1.0) + constant(DType::Float32, std::numbers::pi / 2);
  const std::vector<float> out =
      run(kernel(index(param(0, {n}, DType::Float32), r), alu(Op::Sin, {angle}), r), in, in.size());
  for (size_t i = 0; i < in.size(); i++) {
    const double want = std::cos(static_cast<double>(in[i]));
    CHECK(std::fabs(static_cast<double>(out[i]) - want) <= 1.2e-7 * std::fabs(want));
  }
}

TEST_CASE("sin inside a reduction, and of another sin") {
  constexpr int kRows = 6, kColumns = 40;
  std::vector<float> in;
  for (int i = 0; i < kRows * kColumns; i++)
    in.push_back(i % 11 ? static_cast<float>(i) * 0.3f : 1e6f * static_cast<float>(i + 1));
  const UOp row = range(kRows, 0, AxisType::Loop), column = range(kColumns, 1, AxisType::Reduce);
  const UOp x = load(index(param(1, {kRows * kColumns}, DType::Float32), row * kColumns + column));
  const UOp inner = alu(Op::Sin, {x});
  const UOp value = alu(Op::Sin, {inner * constant(DType::Float32, 1e5)}) + inner;
  const UOp sum = UOp::make(Op::Reduce, {value, column}, ReduceArg{Op::Add, 0});
  const UOp result = alu(Op::Sin, {sum * constant(DType::Float32, 1e4)}) + sum;
  const std::vector<float> out =
      run(kernel(index(param(0, {kRows}, DType::Float32), row), sum, row), in, kRows);
  for (size_t i = 0; i < kRows; i++) {
    double want = 0;
    for (size_t j = 0; j < kColumns; j++) {
      const float s = static_cast<float>(std::sin(static_cast<double>(in[i * kColumns + j])));
      want += std::sin(static_cast<double>(s * 1e5f)) + static_cast<double>(s);
    }
    // One place of the inner sine is 0.006 in the outer angle.
    CHECK(static_cast<double>(out[i]) == doctest::Approx(want).epsilon(0.05));
  }
  const std::vector<float> after =
      run(kernel(index(param(0, {kRows}, DType::Float32), row), result, row), in, kRows);
  for (size_t i = 0; i < kRows; i++)
    CHECK(after[i] ==
          doctest::Approx(std::sin(static_cast<double>(out[i] * 1e4f)) + static_cast<double>(out[i]))
              .epsilon(1e-4));
}

TEST_CASE("the loop around huge angles outlives simplification") {
  const UOp x = load(index(param(1, {8}, DType::Float32), constant(DType::Int32, 0)));
  const UOp low = simplify(decompose_float(alu(Op::Sin, {x}), target()));
  int loops = 0;
  for (const UOp& u : toposort(low)) loops += u.op() == Op::Range;
  CHECK(loops == 1);
}
