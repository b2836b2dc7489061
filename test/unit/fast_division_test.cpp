// Division by constants with DISABLE_FAST_IDIV off and on, over whole types where that is feasible.
#include "base/knobs.h"
#include "codegen/passes.h"
#include "tensor/tensor.h"
#include "uop/number_formats.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "support/evaluate.h"
#include "support/test.h"

using namespace lathe;
using test::Evaluator;
using test::unknown;

namespace {

Target target() {
  Target t;
  t.dtypes = ~0u;
  return t;
}

int64_t floor_div(int64_t x, int64_t d) { return x / d - (x % d != 0 && (x < 0) != (d < 0)); }

// x / d by a shift of a product steps up only at multiples of d, and is monotonous, so that the numbers
// around multiples stand for all.
void check_around_multiples(const UOp& x, int64_t lo, int64_t hi, int64_t d, int64_t stride) {
  const DType type = x.dtype();
  const UOp y = constant(type, d);
  Evaluator quotient(decompose_int(x / y, target()), {x}), rest(decompose_int(x % y, target()), {x});
  const auto check = [&](int64_t v) {
    if (v < lo || v > hi) return;
    const int64_t q = floor_div(v, d);
    if (!(quotient({Scalar(v)}) == Scalar(q)) || !(rest({Scalar(v)}) == Scalar(v - q * d)))
      FAIL(dtype_name(type), " ", v, " by ", d, ": ", quotient({Scalar(v)}).to_string(), " rest ",
           rest({Scalar(v)}).to_string());
  };
  for (int64_t k = floor_div(lo, d); k <= floor_div(hi, d) + 1; k += stride)
    for (const int64_t v : {k * d - 1, k * d}) check(v);
  check(lo), check(hi);
}

}  // namespace

TEST_CASE("16-bit numbers by every divisor") {
  KnobScope fast(Knob::DISABLE_FAST_IDIV, 0);
  const UOp u = unknown(DType::UInt16, 0), i = unknown(DType::Int16, 1),
            positive = variable("n", 0, INT16_MAX, DType::Int16);
  for (int64_t d = 1; d <= UINT16_MAX; d++) {
    check_around_multiples(u, 0, UINT16_MAX, d, 1);
    if (d > INT16_MAX || d % 5) continue;
    check_around_multiples(i, INT16_MIN, INT16_MAX, d, 1);
    check_around_multiples(positive, 0, INT16_MAX, d, 1);
  }
}

TEST_CASE("32-bit numbers, sampled divisors") {
  KnobScope fast(Knob::DISABLE_FAST_IDIV, 0);
  std::mt19937_64 random(11);
  std::vector<int64_t> divisors{
      1, 3, 5, 7, 10, 11, 641, 1000, 65535, 65536, 65537, 1000000007, INT32_MAX - 1, INT32_MAX};
  for (int n = 0; n < 400; n++)
    divisors.push_back(static_cast<int64_t>(random() >> (33 + random() % 28)) | 1);
  const UOp u = unknown(DType::UInt32, 0), i = unknown(DType::Int32, 1),
            positive = variable("n", 0, INT32_MAX, DType::Int32);
  for (const int64_t d : divisors) {
    // About 40 multiples, evenly spread, and the last ones.
    const int64_t stride = std::max<int64_t>(1, (int64_t{1} << 32) / d / 40);
    check_around_multiples(u, 0, UINT32_MAX, d, stride);
    check_around_multiples(i, INT32_MIN, INT32_MAX, d, stride);
    check_around_multiples(positive, 0, INT32_MAX, d, stride);
    check_around_multiples(positive, INT32_MAX - 4 * std::min(d, int64_t{1} << 20), INT32_MAX, d,
                           std::max<int64_t>(1, 4 * std::min(d, int64_t{1} << 20) / d / 40));
  }
}

TEST_CASE("compiled division of all 16-bit numbers") {
  std::vector<int32_t> all(65536);
  std::iota(all.begin(), all.end(), 0);
  for (const DType type : {DType::UInt16, DType::Int16}) {
    const Tensor x = Tensor::from(all).cast(type).contiguous();
    const std::vector<int32_t> values = x.cast(DType::Int32).to_vector<int32_t>();
    for (const int off : {0, 1}) {
      KnobScope knob(Knob::DISABLE_FAST_IDIV, off);
      for (const int d : {1, 2, 3, 6, 7, 10, 11, 64, 641, 1000, 8191, 32767, -1, -2, -3, -7, -1000}) {
        if (d < 0 && type == DType::UInt16) continue;
        const Tensor y = x.const_like(d);
        const std::vector<int32_t> q = x.div_floor(y).cast(DType::Int32).to_vector<int32_t>();
        const std::vector<int32_t> r = x.mod(y).cast(DType::Int32).to_vector<int32_t>();
        const std::vector<int32_t> t = x.div_trunc(y).cast(DType::Int32).to_vector<int32_t>();
        for (size_t k = 0; k < all.size(); k++) {
          const int64_t want = floor_div(values[k], d);
          // -2^15 / -1 wraps.
          const bool ok = q[k] == wrap_integer(want, type) && r[k] == values[k] - want * d &&
                          t[k] == wrap_integer(values[k] / d, type);
          if (!ok)
            FAIL(dtype_name(type), " ", values[k], " by ", d, ": ", q[k], " rest ", r[k], ", cut ", t[k]);
        }
      }
    }
  }
}
