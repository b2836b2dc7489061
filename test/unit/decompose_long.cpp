// 64-bit integers as pairs of words: the arithmetic on single values, then whole kernels on every device.
#include "base/knobs.h"
#include "codegen/lower.h"
#include "codegen/passes.h"
#include "runtime/device.h"
#include "tensor/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "support/evaluate.h"
#include "support/test.h"

using namespace lathe;
using test::Evaluator;
using test::unknown;

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();

Target target() {
  Target t;
  t.dtypes = ~0u;
  for (const DType d : {DType::Int64, DType::UInt64, DType::Float64})
    t.dtypes &= ~(1u << static_cast<int>(d));
  return t;
}

bool has_long(const UOp& u) {
  for (const UOp& v : toposort(u))
    if (v.dtype() == DType::Int64 || v.dtype() == DType::UInt64) return true;
  return false;
}

UOp lowered(const UOp& u) {
  const UOp out = decompose_long(decompose_int(u, target()), target());
  CHECK_FALSE(has_long(out));
  return out;
}

// A 64-bit value made of two words that are given, and the words of a value.
struct Input {
  UOp lo, hi, value;
  Input(int slot, DType d)
      : lo(unknown(DType::UInt32, slot)),
        hi(unknown(DType::UInt32, slot + 1)),
        value(cast((cast(hi, DType::UInt64) << constant(DType::UInt64, 32)) | cast(lo, DType::UInt64), d)) {}
};
UOp low_word(const UOp& u) { return cast(u, DType::UInt32); }
UOp high_word(const UOp& u) {
  return cast(cast(u, DType::UInt64) >> constant(DType::UInt64, 32), DType::UInt32);
}
Scalar low_word(uint64_t v) { return Scalar(v & 0xffffffff); }
Scalar high_word(uint64_t v) { return Scalar(v >> 32); }

std::vector<uint64_t> samples(size_t n_random) {
  std::vector<uint64_t> v;
  for (const int64_t s :
       {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{10}, int64_t{65535},
        int64_t{65536}, int64_t{0x7fffffff}, int64_t{0x80000000}, int64_t{0xffffffff}, int64_t{0x100000000},
        int64_t{0x100000001}, int64_t{0xffffffff0000}, int64_t{1} << 53, (int64_t{1} << 53) + 1, kMax})
    for (const int64_t signed_value : {s, -s}) v.push_back(static_cast<uint64_t>(signed_value));
  v.push_back(static_cast<uint64_t>(kMin));
  std::mt19937_64 random(7);
  for (size_t i = 0; i < n_random; i++) v.push_back(random() >> (random() % 64));
  return v;
}
Scalar as(uint64_t v, DType d) { return d == DType::Int64 ? Scalar(static_cast<int64_t>(v)) : Scalar(v); }

constexpr DType kLong[] = {DType::Int64, DType::UInt64};

}  // namespace

TEST_CASE("arithmetic on words is that of 64 bits") {
  const std::vector<uint64_t> values = samples(8);
  for (const DType d : kLong)
    for (const Op op : {Op::Add, Op::Sub, Op::Mul, Op::Max, Op::And, Op::Or, Op::Xor, Op::CDiv, Op::CMod,
                        Op::FloorDiv, Op::FloorMod, Op::CmpLt, Op::CmpNe, Op::CmpEq}) {
      const Input x(0, d), y(2, d);
      const UOp whole = alu(op, {x.value, y.value});
      const bool is_test = is_bool(whole.dtype());
      Evaluator lo(lowered(is_test ? whole : low_word(whole)), {x.lo, x.hi, y.lo, y.hi});
      Evaluator hi(lowered(is_test ? whole : high_word(whole)), {x.lo, x.hi, y.lo, y.hi});
      for (const uint64_t a : values)
        for (const uint64_t b : values) {
          const auto want = eval(op, whole.dtype(), std::vector<Scalar>{as(a, d), as(b, d)});
          if (!want) continue;  // division by zero
          const std::initializer_list<Scalar> in{low_word(a), high_word(a), low_word(b), high_word(b)};
          const Scalar got_lo = lo(in), got_hi = hi(in);
          const uint64_t bits = encode(*want, whole.dtype());
          const bool ok = is_test ? got_lo == *want : got_lo == low_word(bits) && got_hi == high_word(bits);
          if (!ok)
            FAIL(op_name(op), " of ", dtype_name(d), ": ", a, ", ", b, " gives ", got_hi.to_string(), ":",
                 got_lo.to_string(), " instead of ", want->to_string());
        }
    }
}

TEST_CASE("shifts by constants and by values") {
  const std::vector<uint64_t> values = samples(24);
  for (const DType d : kLong)
    for (const Op op : {Op::Shl, Op::Shr}) {
      const Input x(0, d), n(2, d);
      Evaluator lo(lowered(low_word(alu(op, {x.value, n.value}))), {x.lo, x.hi, n.lo, n.hi});
      Evaluator hi(lowered(high_word(alu(op, {x.value, n.value}))), {x.lo, x.hi, n.lo, n.hi});
      for (const int count : {0, 1, 5, 31, 32, 33, 47, 62, 63, 64, 1000}) {
        const UOp fixed = alu(op, {x.value, constant(d, count)}),
                  narrow = alu(op, {x.value, constant(DType::UInt32, count)});
        Evaluator fixed_lo(lowered(low_word(fixed)), {x.lo, x.hi}),
            fixed_hi(lowered(high_word(fixed)), {x.lo, x.hi});
        Evaluator narrow_lo(lowered(low_word(narrow)), {x.lo, x.hi});
        for (const uint64_t a : values) {
          const uint64_t want = encode(*eval(op, d, std::vector<Scalar>{as(a, d), Scalar(count)}), d);
          INFO(op_name(op), " of ", a, " by ", count);
          CHECK(lo({low_word(a), high_word(a), Scalar(count), Scalar(0)}) == low_word(want));
          CHECK(hi({low_word(a), high_word(a), Scalar(count), Scalar(0)}) == high_word(want));
          CHECK(fixed_lo({low_word(a), high_word(a)}) == low_word(want));
          CHECK(fixed_hi({low_word(a), high_word(a)}) == high_word(want));
          CHECK(narrow_lo({low_word(a), high_word(a)}) == low_word(want));
        }
      }
    }
}

TEST_CASE("conversions") {
  const std::vector<uint64_t> values = samples(400);
  for (const DType d : kLong) {
    const Input x(0, d);
    for (const DType to : {DType::Bool, DType::Int8, DType::UInt16, DType::Int32, DType::UInt32,
                           DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
      Evaluator f(lowered(cast(x.value, to)), {x.lo, x.hi});
      for (const uint64_t v : values) {
        const Scalar want = cast_scalar(as(v, d), to), got = f({low_word(v), high_word(v)});
        if (!(got == want))
          FAIL(dtype_name(d), " ", as(v, d).to_string(), " to ", dtype_name(to), ": ", got.to_string(),
               " instead of ", want.to_string());
      }
    }
    for (const DType from : {DType::Bool, DType::Int8, DType::UInt8, DType::Int16, DType::Int32,
                             DType::UInt32, DType::Float16, DType::Float32, DType::Float64}) {
      const UOp y = unknown(from);
      Evaluator lo(lowered(low_word(cast(y, d))), {y}), hi(lowered(high_word(cast(y, d))), {y});
      for (const uint64_t v : values) {
        const Scalar in = cast_scalar(as(v, d), from);
        if (is_float(from)) {
          const double limit = d == DType::Int64 ? 0x1p63 : 0x1p64, size = in.as_double();
          if (size >= limit || size < (d == DType::Int64 ? -limit : 0)) continue;
        }
        const uint64_t want = encode(cast_scalar(in, d), d);
        INFO(dtype_name(from), " ", in.to_string(), " to ", dtype_name(d));
        CHECK(lo({in}) == low_word(want));
        CHECK(hi({in}) == high_word(want));
      }
      for (const double v : {0.5, -0.5, 1.75, -1.75, 1e10 + 0.5, -4294967296.5, -0x1p63})
        if (is_float(from) && bit_width(from) > 16 && (v >= 0 || d == DType::Int64)) {
          const Scalar in = cast_scalar(Scalar(v), from);
          const uint64_t want = encode(cast_scalar(in, d), d);
          INFO(v);
          CHECK(lo({in}) == low_word(want));
          CHECK(hi({in}) == high_word(want));
        }
    }
  }
}

TEST_CASE("memory doubles, coordinates use the low word") {
  const UOp i = unknown(DType::Int32), two = constant(DType::Int32, 2), one = constant(DType::Int32, 1);
  const UOp in = param(0, {8}, DType::Int64), out = param(1, {8}, DType::UInt64);
  const UOp words_in = param(0, {16}, DType::UInt32), words_out = param(1, {16}, DType::UInt32);
  const UOp copy = store(index(out, i), cast(load(index(in, i)), DType::UInt64));
  const UOp first = i * two, second = first + one;
  CHECK(decompose_long(copy, target()) ==
        UOp::make(Op::Group, DType::Void,
                  {store(index(words_out, first), load(index(words_in, first))),
                   store(index(words_out, second), load(index(words_in, second)))}));
  Target native = target();
  native.dtypes = ~0u;
  CHECK(decompose_long(copy, native) == copy);

  const UOp f = param(2, {8}, DType::Float32);
  const UOp low = decompose_long(load(index(f, load(index(in, i)))), target());
  CHECK(low == load(index(f, cast(load(index(words_in, first)), DType::Int32))));
}

TEST_CASE("what has no words is refused") {
  const UOp x = unknown(DType::Float64);
  CHECK_THROWS_AS(decompose_long(bitcast(x, DType::Int64), target()), UserError);
  CHECK_THROWS_AS(decompose_long(cast(variable("n", 0, 10, DType::Int64), DType::Int32), target()),
                  UserError);
  const UOp big = param(0, {(int64_t{1} << 30) + 1}, DType::Int64);
  CHECK_THROWS_AS(decompose_long(load(index(big, constant(DType::Int32, 0))), target()), UserError);
  const UOp far = load(index(param(1, {4}, DType::Int64), constant(DType::Int32, 0)));
  CHECK_THROWS_AS(decompose_long(load(index(param(0, {int64_t{1} << 33}, DType::Float32), far)), target()),
                  UserError);
  KnobScope scope(Knob::EMULATED_DTYPES, "half,float32");
  CHECK_THROWS_AS(without_emulated(target()), UserError);
}

namespace {

// Every op that tensors have on 64-bit integers, as one list of results.
std::vector<Tensor> results(const std::string& where, const std::vector<int64_t>& a,
                            const std::vector<int64_t>& b) {
  std::vector<Tensor> out;
  const auto n = static_cast<int64_t>(a.size());
  for (const DType d : kLong) {
    const Tensor x = Tensor::from(a, {DType::Int64, where}).cast(d),
                 y = Tensor::from(b, {DType::Int64, where}).cast(d);
    const Tensor count = y.bitwise_and(Tensor(63)), divisor = y.eq(0).where(Tensor(3), y);
    for (const Tensor& t : {x + y,
                            x - y,
                            x * y,
                            x & y,
                            x | y,
                            x ^ y,
                            x << count,
                            x >> count,
                            x.div_floor(divisor),
                            x.mod(divisor),
                            x.maximum(y),
                            x.minimum(y),
                            x.neg(),
                            x.mul(7).div_floor(1000),
                            x.cast(DType::Float32),
                            x.lt(y),
                            x.eq(y),
                            x.ne(y),
                            x.cast(DType::Int32),
                            x.cast(DType::Bool),
                            x.gt(y).where(x, y),
                            x.sum(),
                            x.max(),
                            x.flip(0),
                            x.reshape({n / 4, 4}).permute({1, 0}).contiguous().sum(0),
                            x.pad({{1, 2}}),
                            x.cumsum(0),
                            Tensor::arange(n, {DType::Int64, where}).mul(int64_t{1} << 33).cast(d),
                            x.cast(DType::Int32).cast(d),
                            x.cast(DType::Int8).cast(d),
                            y.cast(DType::Float32).mul(1e-3).trunc().cast(d)})
      out.push_back(t);
  }
  return out;
}

std::vector<std::vector<std::byte>> bytes_of(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<std::byte>> out;
  for (const Tensor& t : tensors) out.push_back(t.bytes());
  return out;
}

}  // namespace

TEST_CASE("kernels on every device give the bytes of native integers") {
  std::vector<int64_t> a, b;
  const std::vector<uint64_t> values = samples(30);
  for (size_t i = 0; i < 64; i++) {
    a.push_back(static_cast<int64_t>(values[i % values.size()]));
    b.push_back(static_cast<int64_t>(values[(i * 7 + 3) % values.size()]));
  }
  b[static_cast<size_t>(std::find(a.begin(), a.end(), kMin) - a.begin())] = -1;
  const auto want = bytes_of(results("INTERP", a, b));
  KnobScope emulated(Knob::EMULATED_DTYPES, "long");
  for (const char* where : {"INTERP", "CPU", "CPU:C"}) {
    const auto got = bytes_of(results(where, a, b));
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); i++) CHECK_MESSAGE(got[i] == want[i], where, ": result ", i);
  }
}

TEST_CASE("the knob leaves no such value in the program") {
  const UOp r = range(64, 0, AxisType::Loop);
  const UOp x = load(index(param(1, {64}, DType::Int64), r)),
            y = cast(load(index(param(2, {64}, DType::Float16), r)), DType::Int64);
  const UOp effect = UOp::make(Op::End, {store(index(param(0, {64}, DType::Int64), r), x * y + x), r});
  const UOp body = sink({&effect, 1}, std::make_shared<const KernelArg>());
  const auto mentions = [&](const char* emulated, DType d) {
    KnobScope scope(Knob::EMULATED_DTYPES, emulated);
    bool found = false;
    for (const UOp& u : lower(body, device("CPU").target()).linear) found |= u.dtype() == d;
    return found;
  };
  CHECK(mentions("", DType::Int64));
  CHECK_FALSE(mentions("long", DType::Int64));
  CHECK(mentions("long", DType::Float16));
  CHECK_FALSE(mentions("long,half", DType::Int64));
  CHECK_FALSE(mentions("half,ulong", DType::Float16));
}

TEST_CASE("random numbers and powers need no 64-bit integers") {
  for (const char* where : {"INTERP", "CPU"}) {
    const auto numbers = [&] {
      Tensor::manual_seed(1337);
      const Tensor x = Tensor::from(std::vector<int64_t>{-3, 0, 7, 1000003}, {DType::Int64, where});
      return bytes_of({Tensor::rand({37}, {DType::Float32, where}), x.pow(Tensor(5))});
    };
    const auto want = numbers();
    KnobScope emulated(Knob::EMULATED_DTYPES, "long");
    CHECK(numbers() == want);
  }
}
