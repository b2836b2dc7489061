// Conversions between all dtypes.
#include "ops/table.h"

#include <cmath>
#include <cstring>

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

const std::vector<DType> kAll = {
    DType::Bool,        DType::Int8,    DType::UInt8,    DType::Int16,   DType::UInt16,  DType::Int32,
    DType::UInt32,      DType::Int64,   DType::UInt64,   DType::Fp8E4M3, DType::Fp8E5M2, DType::Fp8E4M3Fnuz,
    DType::Fp8E5M2Fnuz, DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};

// One element of each dtype: all conversions of one input in one go.
Tensors to_all(T x) {
  Tensors out;
  for (DType d : kAll) out.push_back(x.cast(d));
  return out;
}
Arrays rounded_to_all(A x) {
  Arrays out;
  for (DType d : kAll) out.push_back(map(x, [d](double v) { return rounded(v, d); }));
  return out;
}
std::vector<Result> all_results() { return {kAll.begin(), kAll.end()}; }

Row conversions(const char* name, std::vector<double> values, std::vector<DType> from) {
  const auto n = static_cast<int64_t>(values.size());
  return Row(name, {given({n}, std::move(values))}, to_all, rounded_to_all)
      .on(std::move(from))
      .gives(all_results())
      .exact()
      .no_gradient(kRounded);
}

Row alias(const char* name, Tensor (Tensor::*method)() const, DType to) {
  return Row(
             name, {given({4}, {1.5, -2.25, 0, 3})}, [=](T x) { return (x.*method)(); },
             [=](A x) { return is_float(to) ? x : map(x, [to](double v) { return rounded(v, to); }); })
      .gives(to)
      .exact();
}

// The same bits as another type.
Array reinterpret(A x, DType from, DType to) {
  const auto wide = static_cast<size_t>(bit_width(from)) / 8, narrow = static_cast<size_t>(bit_width(to)) / 8;
  std::vector<unsigned char> bytes;
  for (double v : x.data) {
    const uint64_t code = to_code(v, from);
    for (size_t i = 0; i < wide; i++) bytes.push_back(static_cast<unsigned char>(code >> (8 * i)));
  }
  Array out;
  out.shape = x.shape;
  out.shape.back() = static_cast<int64_t>(bytes.size() / narrow);
  for (size_t at = 0; at < bytes.size(); at += narrow) {
    uint64_t code = 0;
    std::memcpy(&code, &bytes[at], narrow);
    out.data.push_back(from_code(code, to));
  }
  return out;
}
Row bits(const char* name, DType from, DType to) {
  return Row(
             name, {given({4}, {1.5, -2.25, 100, 7}).of(from)}, [=](T x) { return x.bitcast(to); },
             [=](A x) { return reinterpret(x, from, to); })
      .gives(to)
      .exact()
      .no_gradient("bits have none");
}

Rows casts() {
  return {
      conversions("cast: floats", {0, 1, -1, 1.0625, 1.1875, 2.75, -3.4, 17, -100.5, 1.0 / 3},
                  {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64}),
      conversions("cast: fp8", {0, 1, -1, 1.125, 2.75, -3.5, 18, -104},
                  {DType::Fp8E4M3, DType::Fp8E5M2, DType::Fp8E4M3Fnuz, DType::Fp8E5M2Fnuz}),
      conversions("cast: integers", {0, 1, 2, 100, 127},
                  {DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32, DType::UInt32,
                   DType::Int64, DType::UInt64}),
      conversions("cast: negative integers", {-1, -2, -100, -128},
                  {DType::Int8, DType::Int16, DType::Int32, DType::Int64}),
      conversions("cast: integers that wrap", {300, -300, 40000, 65537, 123456789},
                  {DType::Int32, DType::Int64}),
      conversions("cast: bool", {0, 1}, {DType::Bool}),
      Row(
          "cast: the ends of small floats",
          {given({8}, {464, 465, 61440, 1e9, -1e9, 65519.99, 65520, -240.1})},
          [](T x) {
            Tensors out;
            for (DType d : {DType::Fp8E4M3, DType::Fp8E5M2, DType::Fp8E4M3Fnuz, DType::Fp8E5M2Fnuz,
                            DType::Float16, DType::BFloat16})
              out.push_back(x.cast(d).cast(DType::Float32));
            return out;
          },
          [](A x) {
            Arrays out;
            for (DType d : {DType::Fp8E4M3, DType::Fp8E5M2, DType::Fp8E4M3Fnuz, DType::Fp8E5M2Fnuz,
                            DType::Float16, DType::BFloat16})
              out.push_back(map(x, [d](double v) { return rounded(v, d); }));
            return out;
          })
          .exact()
          .no_gradient(kNotSmooth),
      Row(
          "cast: no numbers", {given({3}, {NAN, INFINITY, -INFINITY})},
          [](T x) {
            return Tensors{x.half().to_float(), x.bfloat16().to_float(), x.to_double().to_float(),
                           x.cast(DType::Fp8E5M2).to_float(), x.cast(DType::Fp8E4M3).to_float()};
          },
          [](A x) { return Arrays{x, x, x, x, map(x, [](double) { return NAN; })}; })
          .exact()
          .no_gradient(kNotFinite),
      Row(
          "cast: gradient", {in({3, 5})}, [](T x) { return x.to_double() * x; },
          [](A x) { return map(x, [](double v) { return v * v; }); })
          .gives(DType::Float64),
      Row(
          "cast: in the middle of an expression", {in({3, 5}).range(-9, 9)},
          [](T x) { return (x * 3).to_int().to_float() + x; },
          [](A x) { return map(x, [](double v) { return std::trunc(v * 3) + v; }); })
          .no_gradient(kNotSmooth),
      alias("to_float", &Tensor::to_float, DType::Float32),
      alias("half", &Tensor::half, DType::Float16),
      alias("bfloat16", &Tensor::bfloat16, DType::BFloat16),
      alias("to_double", &Tensor::to_double, DType::Float64),
      alias("to_int", &Tensor::to_int, DType::Int32),
      alias("to_long", &Tensor::to_long, DType::Int64),
      alias("to_short", &Tensor::to_short, DType::Int16),
      alias("to_bool", &Tensor::to_bool, DType::Bool),
  };
}

Rows bitcasts() {
  return {
      bits("bitcast: float to int", DType::Float32, DType::Int32),
      bits("bitcast: int to float", DType::Int32, DType::Float32),
      bits("bitcast: half to ushort", DType::Float16, DType::UInt16),
      bits("bitcast: bfloat16 to short", DType::BFloat16, DType::Int16),
      bits("bitcast: double to ulong", DType::Float64, DType::UInt64),
      bits("bitcast: char to uchar", DType::Int8, DType::UInt8),
      bits("bitcast: fp8 to uchar", DType::Fp8E4M3, DType::UInt8),
      bits("bitcast: to narrower", DType::Float32, DType::UInt8),
      bits("bitcast: to wider", DType::UInt16, DType::UInt64),
      bits("bitcast: float to two halves", DType::Int32, DType::Float16),
  };
}

}  // namespace

TABLE_TEST_CASE("casts", casts)
TABLE_TEST_CASE("bitcasts", bitcasts)
