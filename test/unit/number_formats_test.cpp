#include "uop/number_formats.h"

#include <bit>
#include <cmath>
#include <limits>

#include "support/test.h"

using namespace lathe;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr DType kNarrow[] = {DType::Fp8E4M3,     DType::Fp8E4M3Fnuz, DType::Fp8E5M2,
                             DType::Fp8E5M2Fnuz, DType::Float16,     DType::BFloat16};
constexpr DType kFp8[] = {DType::Fp8E4M3, DType::Fp8E5M2, DType::Fp8E4M3Fnuz, DType::Fp8E5M2Fnuz};

double half(double x) { return round_float(x, DType::Float16); }
double bf16(double x) { return round_float(x, DType::BFloat16); }

}  // namespace

TEST_CASE("layouts agree with the dtype table") {
  for (DType d : kNarrow) {
    INFO(dtype_name(d));
    CHECK(float_layout(d).width() == bit_width(d));
    const bool fnuz = d == DType::Fp8E4M3Fnuz || d == DType::Fp8E5M2Fnuz;
    CHECK(float_layout(d).finite_only == fnuz);
    CHECK(float_layout(d).bias == (1 << (float_format(d).exponent_bits - 1)) - (fnuz ? 0 : 1));
  }
}

TEST_CASE("every code decodes and encodes to itself") {
  for (DType d : kNarrow) {
    int nans = 0, infinities = 0;
    for (uint32_t code = 0; code < (1u << bit_width(d)); code++) {
      const double x = decode_float(code, d);
      if (std::isnan(x)) {
        nans++;
        CHECK(std::isnan(decode_float(encode_float(x, d), d)));
        continue;
      }
      infinities += std::isinf(x);
      if (encode_float(x, d) != code) FAIL_CHECK(dtype_name(d), " code ", code, " is ", x);
      CHECK(round_float(x, d) == x);
    }
    INFO(dtype_name(d));
    const int expected_nans[] = {2, 1, 6, 1, 2 * 1023, 2 * 127};
    const int expected_infinities[] = {0, 0, 2, 0, 2, 2};
    const int i = static_cast<int>(d) - static_cast<int>(DType::Fp8E4M3);
    CHECK(nans == expected_nans[i]);
    CHECK(infinities == expected_infinities[i]);
  }
}

TEST_CASE("codes of a sign are in the order of their values") {
  for (DType d : kNarrow)
    for (uint32_t code = 0; code < float_layout(d).largest; code++) {
      CHECK(decode_float(code, d) < decode_float(code + 1, d));
      if (code) CHECK(decode_float(code | float_layout(d).sign_bit(), d) == -decode_float(code, d));
    }
}

TEST_CASE("ties go to the even code, all else to the nearest") {
  for (DType d : kNarrow) {
    for (uint32_t code = 0; code < float_layout(d).largest; code++) {
      const double middle = (decode_float(code, d) + decode_float(code + 1, d)) / 2;
      // bfloat16 rounds to float32 on the way, so its nearest neighbours of a tie are float32's.
      const bool wide = d == DType::BFloat16;
      const double below = wide ? std::nextafterf(static_cast<float>(middle), 0) : std::nextafter(middle, 0);
      const double above =
          wide ? std::nextafterf(static_cast<float>(middle), HUGE_VALF) : std::nextafter(middle, kInf);
      const uint32_t even = code + (code & 1);
      const bool good = encode_float(middle, d) == even && encode_float(below, d) == code &&
                        encode_float(above, d) == code + 1;
      if (!good) FAIL_CHECK(dtype_name(d), " between codes ", code, " and ", code + 1);
      const uint32_t sign = float_layout(d).sign_bit();
      const bool vanishes = float_layout(d).finite_only && even == 0;
      if (encode_float(-middle, d) != (vanishes ? 0 : (sign | even)))
        FAIL_CHECK(dtype_name(d), " at ", -middle);
    }
  }
}

TEST_CASE("fp8 rows") {
  struct Row {
    double x;
    uint32_t codes[4];  // e4m3, e5m2, e4m3fnuz, e5m2fnuz
  };
  const Row rows[] = {
      {1.0, {0x38, 0x3c, 0x40, 0x40}},
      {1.0625, {0x38, 0x3c, 0x40, 0x40}},
      {1.1875, {0x3a, 0x3d, 0x42, 0x41}},
      {240, {0x77, 0x5c, 0x7f, 0x60}},
      {448, {0x7e, 0x5f, 0x7f, 0x63}},
      {1e9, {0x7e, 0x7b, 0x7f, 0x7f}},
      {-1e9, {0xfe, 0xfb, 0xff, 0xff}},
      {0x1p-9, {0x01, 0x18, 0x02, 0x1c}},
      {0x1p-10, {0x00, 0x14, 0x01, 0x18}},
      {0x1p-10 * 1.01, {0x01, 0x14, 0x01, 0x18}},
      {-0.0, {0x80, 0x80, 0x00, 0x00}},
      {kInf, {0x7f, 0x7c, 0x80, 0x80}},
      {-kInf, {0xff, 0xfc, 0x80, 0x80}},
      {kNaN, {0x7f, 0x7f, 0x80, 0x80}},
      {-kNaN, {0xff, 0xff, 0x80, 0x80}},
      {std::numeric_limits<double>::max(), {0x7e, 0x7b, 0x7f, 0x7f}},
      {std::numeric_limits<double>::denorm_min(), {0, 0, 0, 0}},
      {-std::numeric_limits<double>::denorm_min(), {0x80, 0x80, 0, 0}},
  };
  for (const Row& row : rows)
    for (int i = 0; i < 4; i++) {
      INFO(dtype_name(kFp8[i]), " of ", row.x);
      CHECK(encode_float(row.x, kFp8[i]) == row.codes[i]);
    }
}

TEST_CASE("fp8 limits") {
  struct Row {
    DType d;
    double largest, saturates, min_subnormal, min_normal;
    uint32_t code_of_largest;
  };
  const Row rows[] = {
      {DType::Fp8E4M3, 448, 464, 0x1p-9, 0x1p-6, 0x7e},
      {DType::Fp8E5M2, 57344, 61440, 0x1p-16, 0x1p-14, 0x7b},
      {DType::Fp8E4M3Fnuz, 240, 248, 0x1p-10, 0x1p-7, 0x7f},
      {DType::Fp8E5M2Fnuz, 57344, 61440, 0x1p-17, 0x1p-15, 0x7f},
  };
  for (const Row& r : rows) {
    INFO(dtype_name(r.d));
    CHECK(decode_float(r.code_of_largest, r.d) == r.largest);
    CHECK(encode_float(r.saturates, r.d) == r.code_of_largest);
    CHECK(encode_float(std::nextafter(r.saturates, kInf), r.d) == r.code_of_largest);
    CHECK(decode_float(1, r.d) == r.min_subnormal);
    CHECK(decode_float(1u << float_layout(r.d).mantissa_bits, r.d) == r.min_normal);
    CHECK(encode_float(r.min_subnormal / 2, r.d) == 0);
    CHECK(encode_float(std::nextafter(r.min_subnormal / 2, 1), r.d) == 1);
  }
  for (uint32_t code : {0x7fu, 0xffu}) CHECK(std::isnan(decode_float(code, DType::Fp8E4M3)));
  for (uint32_t code : {0x7du, 0x7eu, 0x7fu, 0xfdu, 0xfeu, 0xffu})
    CHECK(std::isnan(decode_float(code, DType::Fp8E5M2)));
  CHECK(decode_float(0xfc, DType::Fp8E5M2) == -kInf);
  CHECK(std::isnan(decode_float(0x80, DType::Fp8E4M3Fnuz)));
  CHECK(std::isnan(decode_float(0x80, DType::Fp8E5M2Fnuz)));
}

TEST_CASE("half rows") {
  CHECK(half(65519.999) == 65504);
  CHECK(half(65520) == kInf);
  CHECK(half(-65520) == -kInf);
  CHECK(half(1e-8) == 0);
  CHECK(std::signbit(half(-1e-8)));
  CHECK(half(0x1p-24) == 0x1p-24);
  CHECK(half(0x1p-25) == 0);
  CHECK(half(0x1p-25 * 1.0001) == 0x1p-24);
  // Rounding to float32 first would land on a tie and then on the wrong side.
  CHECK(half(1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10);
  CHECK(std::isnan(half(kNaN)));
  CHECK(encode_float(kNaN, DType::Float16) == 0x7e00);
}

TEST_CASE("bfloat16 rows") {
  const double rows[][2] = {{1.1, 1.1015625}, {1234, 1232},   {23456, 23424},
                            {-777.777, -776}, {3.1, 3.09375}, {-60000, -59904},
                            {kInf, kInf},     {-kInf, -kInf}, {3.39e38, 3.3895313892515355e38},
                            {3.40e39, kInf}};
  for (const auto& [x, expected] : rows) CHECK(bf16(x) == expected);
  CHECK(std::isnan(bf16(kNaN)));
  CHECK(bf16(static_cast<double>(std::numeric_limits<float>::max())) == kInf);
  CHECK(bf16(0x1p-133) == 0x1p-133);
  CHECK(bf16(0x1p-134) == 0);
}

TEST_CASE("wide floats") {
  CHECK(round_float(0.1, DType::Float32) == 0.1f);
  CHECK(round_float(0.1, DType::Float64) == 0.1);
  CHECK(round_float(0.1, DType::WeakFloat) == 0.1);
  CHECK(encode_float(-2.0, DType::Float32) == 0xc0000000);
  CHECK(decode_float(0x7ff0000000000000, DType::Float64) == kInf);
  CHECK_THROWS_AS(encode_float(1, DType::Int32), InternalError);
  CHECK_THROWS_AS(decode_float(1, DType::WeakFloat), InternalError);
}

TEST_CASE("integers wrap") {
  CHECK(wrap_integer(300, DType::UInt8) == 44);
  CHECK(wrap_integer(128, DType::Int8) == -128);
  CHECK(wrap_integer(-1, DType::UInt16) == 65535);
  CHECK(wrap_integer(int128{1} << 40, DType::Int32) == 0);
  CHECK(wrap_integer(int128{1} << 63, DType::Int64) == std::numeric_limits<int64_t>::min());
  CHECK(wrap_integer(-1, DType::UInt64) == std::numeric_limits<uint64_t>::max());
  CHECK(wrap_integer(int128{1} << 100, DType::WeakInt) == int128{1} << 100);
}
