// Conversions to and from narrow floats in generated code, bit for bit, with the device's own instructions
// and with integer ones.
#include "base/knobs.h"
#include "tensor/tensor.h"
#include "uop/number_formats.h"
#include "uop/simplify.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "support/test.h"

using namespace lathe;

namespace {

constexpr DType kNarrow[] = {DType::Fp8E4M3,     DType::Fp8E4M3Fnuz, DType::Fp8E5M2,
                             DType::Fp8E5M2Fnuz, DType::Float16,     DType::BFloat16};
constexpr const char* kEmulated = "half,bfloat16,fp8e4m3,fp8e5m2,fp8e4m3fnuz,fp8e5m2fnuz";

DType storage(DType d) { return bit_width(d) == 8 ? DType::UInt8 : DType::UInt16; }

Tensor from_codes(const std::vector<uint16_t>& codes, DType d, const char* where) {
  return Tensor::from(codes, {DType::UInt16, where}).cast(storage(d)).contiguous().bitcast(d);
}
std::vector<uint16_t> to_codes(const Tensor& t) {
  return t.contiguous().bitcast(storage(t.dtype())).cast(DType::UInt16).to_vector<uint16_t>();
}
std::vector<uint16_t> all_codes(DType d) {
  std::vector<uint16_t> v(size_t{1} << bit_width(d));
  for (size_t i = 0; i < v.size(); i++) v[i] = static_cast<uint16_t>(i);
  return v;
}

// Runs `f(device, step)` on every device, with and without its own narrow floats. The interpreter is slow and
// takes every `step`th value.
template <class F>
void everywhere(F f) {
  for (const char* emulated : {"", kEmulated}) {
    KnobScope scope(Knob::EMULATED_DTYPES, emulated);
    for (const char* where : {"INTERP", "CPU", "CPU:C"}) {
      INFO(where, " emulating '", emulated, "'");
      f(where, std::string_view(where) == "INTERP" ? size_t{211} : size_t{1});
    }
  }
}

template <class T>
std::vector<T> every(size_t step, const std::vector<T>& v) {
  std::vector<T> out;
  for (size_t i = 0; i < v.size(); i += step) out.push_back(v[i]);
  return out;
}

bool is_nan_code(uint64_t code, DType d) { return std::isnan(decode_float(code, d)); }

// The NaN that hardware makes of a NaN may be another one.
void check_codes(const std::vector<uint16_t>& got, const std::vector<double>& x, DType d) {
  REQUIRE(got.size() == x.size());
  for (size_t i = 0; i < got.size(); i++) {
    const uint64_t want = encode_float(x[i], d);
    if (got[i] != want && !(is_nan_code(want, d) && is_nan_code(got[i], d)))
      FAIL(dtype_name(d), " of ", x[i], ": code ", got[i], " instead of ", want);
  }
}

// float32 numbers: a stride over all, and around every number of `d` and every tie between two.
std::vector<double> inputs(DType d) {
  std::vector<double> v{0.0, -0.0, std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity(), std::nan("")};
  for (uint64_t u = 0; u < uint64_t{1} << 32; u += 65537 * 5)
    v.push_back(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(u))));
  const uint64_t step = bit_width(d) == 8 ? 1 : 7;
  for (uint64_t c = 0; c + 1 < uint64_t{1} << (bit_width(d) - 1); c += step) {
    const double a = decode_float(c, d), b = decode_float(c + 1, d);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    for (const double x : {a, (a + b) / 2}) {
      const auto y = static_cast<float>(x);
      for (const float z : {std::nextafter(y, 0.0f), y, std::nextafter(y, 1e38f)})
        v.push_back(static_cast<double>(z)), v.push_back(static_cast<double>(-z));
    }
  }
  for (const double x : {448.0, 464.0, 464.01, 480.0, 240.0, 248.0, 57344.0, 61439.0, 61440.0, 65519.0,
                         65520.0, 1e9, 3.39e38, 0x1.fffffep127})
    v.push_back(static_cast<double>(static_cast<float>(x))), v.push_back(-v.back());
  return v;
}

}  // namespace

TEST_CASE("every code decodes") {
  everywhere([](const char* where, size_t step) {
    for (const DType d : kNarrow) {
      const std::vector<uint16_t> codes = every(bit_width(d) == 8 ? 1 : step, all_codes(d));
      const std::vector<float> got = from_codes(codes, d, where).cast(DType::Float32).to_vector<float>();
      for (size_t i = 0; i < codes.size(); i++) {
        const auto want = static_cast<float>(decode_float(codes[i], d));
        const bool same = std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want);
        if (!same && !(std::isnan(got[i]) && std::isnan(want)))
          FAIL(dtype_name(d), " code ", codes[i], ": ", got[i], " instead of ", want);
      }
    }
  });
}

TEST_CASE("float32 numbers encode") {
  for (const DType d : kNarrow) {
    const std::vector<double> all = inputs(d);
    everywhere([&](const char* where, size_t step) {
      const std::vector<double> x = every(step, all);
      check_codes(to_codes(Tensor::from(x, {DType::Float32, where}).cast(d)), x, d);
    });
  }
}

TEST_CASE("float64 numbers encode with one rounding") {
  for (const DType d : kNarrow) {
    std::vector<double> all = inputs(d);
    for (size_t i = 0, n = all.size(); i < n; i += 3)
      if (std::isfinite(all[i]))
        for (const double to : {1e300, -1e300}) all.push_back(std::nextafter(all[i], to));
    everywhere([&](const char* where, size_t step) {
      const std::vector<double> x = every(step, all);
      check_codes(to_codes(Tensor::from(x, {DType::Float64, where}).cast(d)), x, d);
    });
  }
}

TEST_CASE("numbers of one narrow type encode in another") {
  everywhere([](const char* where, size_t step) {
    for (const DType from : {DType::Float16, DType::BFloat16, DType::Fp8E5M2Fnuz})
      for (const DType to : kNarrow) {
        if (from == to) continue;
        const std::vector<uint16_t> codes = every(step, all_codes(from));
        std::vector<double> x;
        for (const uint16_t c : codes) x.push_back(decode_float(c, from));
        check_codes(to_codes(from_codes(codes, from, where).cast(to)), x, to);
      }
  });
}

TEST_CASE("arithmetic rounds after every operation") {
  everywhere([](const char* where, size_t) {
    for (const DType d : kNarrow) {
      std::vector<uint16_t> a, b;
      const size_t step = bit_width(d) == 8 ? 7 : 1531;
      for (size_t i = 0; i < size_t{1} << bit_width(d); i += step)
        for (size_t k = 1; k < size_t{1} << bit_width(d); k += 5 * step)
          a.push_back(static_cast<uint16_t>(i)), b.push_back(static_cast<uint16_t>(k));
      const Tensor x = from_codes(a, d, where), y = from_codes(b, d, where);
      std::vector<double> sum, product, mixed;
      const auto round = [&](double v) { return round_float(v, d); };
      for (size_t i = 0; i < a.size(); i++) {
        const double u = decode_float(a[i], d), v = decode_float(b[i], d);
        sum.push_back(u + v), product.push_back(u * v), mixed.push_back(round(u * v) + u);
      }
      check_codes(to_codes(x + y), sum, d);
      check_codes(to_codes(x * y), product, d);
      check_codes(to_codes(x * y + x), mixed, d);
    }
  });
}

TEST_CASE("bitcasts of constants and of lanes fold, unless sizes differ") {
  const auto i32 = [](int64_t v) { return constant(DType::Int32, v); };
  const auto u32 = [](int64_t v) { return constant(DType::UInt32, v); };
  const UOp in[] = {i32(-1), i32(INT32_MIN), i32(75)},
            want[] = {u32(4294967295), u32(int64_t{1} << 31), u32(75)};
  CHECK(simplify(bitcast(stack(in), DType::UInt32)) == stack(want));
  CHECK(simplify(bitcast(constant(DType::UInt8, 1), DType::Bool)) == constant(DType::Bool, true));
  CHECK(simplify(bitcast(constant(DType::Bool, true), DType::Int8)) == constant(DType::Int8, 1));
  CHECK(simplify(bitcast(constant(DType::Int16, 13496), DType::Float16)) ==
        constant(DType::Float16, .294921875));
  const UOp halves = bitcast(stack(in), DType::Int16);
  CHECK(simplify(halves).op() == Op::Bitcast);
}

TEST_CASE("a number that float32 cannot hold casts to int32 alike, folded and computed") {
  const Tensor folded = Tensor::constant_of({1}, static_cast<double>(2147483000.0f)).to_float().to_int();
  CHECK(folded.to_vector<int>()[0] == 2147483008);
  everywhere([](const char* where, size_t) {
    CHECK(Tensor::from({2147483000.0}, {DType::Float32, where}).to_int().to_vector<int>()[0] == 2147483008);
  });
}
