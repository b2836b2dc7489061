#include "codegen/passes.h"

#include <bit>
#include <cmath>

#include "support/evaluate.h"
#include "support/test.h"

using namespace lathe;
using test::Evaluator;
using test::unknown;

namespace {

constexpr DType kNarrow[] = {DType::Fp8E4M3,     DType::Fp8E4M3Fnuz, DType::Fp8E5M2,
                             DType::Fp8E5M2Fnuz, DType::Float16,     DType::BFloat16};

Target target() {
  Target t;
  t.dtypes = ~0u;
  for (const DType d : kNarrow) t.dtypes &= ~(1u << static_cast<int>(d));
  return t;
}
DType storage(DType d) { return bit_width(d) == 8 ? DType::UInt8 : DType::UInt16; }
uint64_t n_codes(DType d) { return uint64_t{1} << bit_width(d); }
bool same(const Scalar& a, const Scalar& b) {
  return a == b || (std::isnan(a.as_double()) && std::isnan(b.as_double()));
}

bool mentions(const UOp& u, DType d) {
  for (const UOp& v : toposort(u))
    if (v.dtype() == d) return true;
  return false;
}

double single(double v) { return static_cast<double>(static_cast<float>(v)); }

}  // namespace

TEST_CASE("every code decodes and encodes to itself") {
  for (const DType d : kNarrow) {
    const UOp code = unknown(DType::UInt32), value = unknown(DType::Float32);
    Evaluator decode_it(decode_expression(code, d), {code}), encode_it(encode_expression(value, d), {value});
    for (uint64_t c = 0; c < n_codes(d); c++) {
      const Scalar v = decode(c, d), got = decode_it({Scalar(c)});
      if (!same(got, v))
        FAIL(dtype_name(d), " code ", c, ": ", got.to_string(), " instead of ", v.to_string());
      const auto again = static_cast<uint64_t>(encode_it({v}).as_int());
      if (again != encode(v, d))
        FAIL(dtype_name(d), " value ", v.to_string(), ": code ", again, " instead of ", encode(v, d));
    }
  }
}

TEST_CASE("float32 values round like the reference") {
  for (const DType d : kNarrow) {
    const UOp value = unknown(DType::Float32);
    Evaluator encode_it(encode_expression(value, d), {value});
    const auto check = [&](double v) {
      const auto got = static_cast<uint64_t>(encode_it({Scalar(v)}).as_int());
      const uint64_t want = encode(Scalar(v), d);
      if (got != want) FAIL(dtype_name(d), " of ", v, ": code ", got, " instead of ", want);
    };
    // Halfway between neighbours, and just beside it.
    for (uint64_t c = 0; c + 1 < n_codes(d) / 2; c++) {
      const double a = decode(c, d).as_double(), b = decode(c + 1, d).as_double();
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      const float middle = static_cast<float>((a + b) / 2);
      for (const float v : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e38f)}) {
        check(static_cast<double>(v));
        check(static_cast<double>(-v));
      }
    }
    for (uint64_t u = 0; u < uint64_t{1} << 32; u += 65537 * 3)
      check(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(u))));
    for (const double v :
         {448.0, 464.0, 464.1, 480.0, 240.0, 248.0, 57344.0, 61439.0, 61440.0, 65519.0, 65520.0, 1e9, 3e38}) {
      check(single(v));
      check(single(-v));
    }
  }
}

TEST_CASE("float64 is rounded once") {
  for (const DType d : kNarrow) {
    const UOp x = unknown(DType::Float64);
    const UOp low = decompose_dtype(cast(cast(x, d), DType::Float32), target());
    CHECK_FALSE(mentions(low, d));
    Evaluator f(low, {x});
    const auto check = [&](double v) {
      const Scalar want = cast_scalar(Scalar(v), d), got = f({Scalar(v)});
      if (!same(got, want))
        FAIL(dtype_name(d), " of ", v, ": ", got.to_string(), " instead of ", want.to_string());
    };
    const uint64_t step = bit_width(d) == 8 ? 1 : 61;
    for (uint64_t c = 0; c + 1 < n_codes(d) / 2; c += step) {
      const double a = decode(c, d).as_double(), b = decode(c + 1, d).as_double();
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      const double middle = (a + b) / 2;
      for (const double v : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e38)}) {
        check(v);
        check(-v);
      }
    }
    for (const double v :
         {0.0, 1e-300, 1e300, 3.5e38, std::numeric_limits<double>::infinity(), std::nan("")}) {
      check(v);
      check(-v);
    }
  }
}

TEST_CASE("arithmetic is that of the reference, bit for bit") {
  for (const DType d : kNarrow) {
    const UOp raw_x = unknown(storage(d), 0), raw_y = unknown(storage(d), 1);
    const UOp x = bitcast(raw_x, d), y = bitcast(raw_y, d);
    const uint64_t step = bit_width(d) == 8 ? 5 : 1021;
    for (const Op op : {Op::Add, Op::Mul, Op::Max, Op::CmpLt, Op::CmpNe, Op::Sub}) {
      const UOp whole = alu(op, {x, y}),
                low = decompose_dtype(bitcast(whole, is_bool(whole.dtype()) ? DType::Bool : storage(d)),
                                      target());
      CHECK_FALSE(mentions(low, d));
      Evaluator f(low, {raw_x, raw_y});
      for (uint64_t a = 0; a < n_codes(d); a += step)
        for (uint64_t b = 1; b < n_codes(d); b += 3 * step) {
          const Scalar want = *eval(op, whole.dtype(), std::vector<Scalar>{decode(a, d), decode(b, d)});
          const Scalar got = f({Scalar(a), Scalar(b)});
          const bool ok = is_bool(whole.dtype()) ? got == want
                                                 : same(decode(static_cast<uint64_t>(got.as_int()), d), want);
          if (!ok)
            FAIL(op_name(op), " of ", dtype_name(d), ": ", a, ", ", b, " gives ", got.to_string(), ", not ",
                 want.to_string());
        }
    }
    const UOp root = decompose_dtype(cast(alu(Op::Sqrt, {x}), DType::Float32), target());
    Evaluator f(root, {raw_x});
    for (uint64_t a = 0; a < n_codes(d); a += step)
      CHECK(same(f({Scalar(a)}), *eval(Op::Sqrt, d, std::vector<Scalar>{decode(a, d)})));
  }
}

TEST_CASE("casts between types") {
  for (const DType from : kNarrow)
    for (const DType to : kNarrow) {
      if (from == to) continue;
      const UOp raw = unknown(storage(from));
      const UOp low = decompose_dtype(cast(cast(bitcast(raw, from), to), DType::Float32), target());
      CHECK_FALSE(mentions(low, from));
      CHECK_FALSE(mentions(low, to));
      Evaluator f(low, {raw});
      for (uint64_t c = 0; c < n_codes(from); c += bit_width(from) == 8 ? 1 : 37)
        if (!same(f({Scalar(c)}), cast_scalar(decode(c, from), to)))
          FAIL(dtype_name(from), " to ", dtype_name(to), ": code ", c, " gives ", f({Scalar(c)}).to_string());
    }
  for (const DType d : kNarrow) {
    const UOp i = unknown(DType::Int32), raw = unknown(storage(d));
    Evaluator from_int(decompose_dtype(cast(cast(i, d), DType::Float32), target()), {i});
    for (const int v : {0, 1, -1, 3, 17, 100, 255, 256, 257, 449, 1234, 23456, 65519, 65520, -60000, 16777217,
                        INT32_MAX, INT32_MIN})
      CHECK(same(from_int({Scalar(v)}), cast_scalar(Scalar(v), d)));
    Evaluator to_int(decompose_dtype(cast(bitcast(raw, d), DType::Int32), target()), {raw});
    for (const double v : {0.0, 1.0, -3.5, 120.0})
      CHECK(to_int({Scalar(encode(Scalar(v), d))}) == cast_scalar(cast_scalar(Scalar(v), d), DType::Int32));
    Evaluator to_bool(decompose_dtype(cast(bitcast(raw, d), DType::Bool), target()), {raw});
    CHECK(to_bool({Scalar(0)}) == Scalar(false));
    CHECK(to_bool({Scalar(1)}) == Scalar(true));
  }
}

TEST_CASE("memory keeps its layout, copies keep their bits") {
  for (const DType d : kNarrow) {
    const UOp zero = constant(DType::Int32, 0);
    const UOp in = param(0, {16}, d), out = param(1, {16}, d);
    const UOp copy = store(index(out, zero), load(index(in, zero)));
    const UOp low_in = param(0, {16}, storage(d)), low_out = param(1, {16}, storage(d));
    CHECK(decompose_dtype(copy, target()) == store(index(low_out, zero), load(index(low_in, zero))));

    const UOp gate = unknown(DType::Bool, 2);
    const UOp gated = UOp::make(Op::Load, {index(in, zero), constant(d, 1.5), gate});
    const UOp low = decompose_dtype(store(index(out, zero), gated), target());
    CHECK(low == store(index(low_out, zero),
                       UOp::make(Op::Load, {index(low_in, zero),
                                            constant(storage(d), Scalar(encode(Scalar(1.5), d))), gate})));
    Target native = target();
    native.dtypes |= 1u << static_cast<int>(d);
    CHECK(decompose_dtype(copy, native) == copy);
  }
}

TEST_CASE("scratch and vectors") {
  const DType d = DType::Fp8E5M2;
  auto arg = std::make_shared<ParamArg>();
  arg->dtype = d;
  arg->space = AddrSpace::Reg;
  const UOp four = constant(DType::Int32, 4), zero = constant(DType::Int32, 0);
  const UOp scratch = UOp::make(Op::Buffer, {stack({&four, 1})}, ParamPtr(arg));
  const UOp lanes = UOp::make(Op::Shrink, {scratch, stack({&zero, 1}), stack({&four, 1})});
  const UOp low = decompose_dtype(store(lanes, load(lanes) + constant(d, 1.0)), target());
  CHECK_FALSE(mentions(low, d));
  CHECK(low.src(0).dtype() == DType::UInt8);
  CHECK(low.src(1).dtype() == DType::UInt8);
  CHECK(low.src(1).ndim() == 1);
}
