#include "uop/scalar.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/test.h"

using namespace lathe;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
const int128 kTwoTo100 = static_cast<int128>(1) << 100;

std::string cast_text(const Scalar& v, DType d) { return cast_scalar(v, d).to_string(); }

}  // namespace

TEST_CASE("scalar identity") {
  CHECK(Scalar(3) == Scalar(int64_t{3}));
  CHECK(Scalar(3) == Scalar(uint64_t{3}));
  CHECK(Scalar(-1) != Scalar(uint64_t{0xffffffffffffffff}));
  CHECK(Scalar(1) != Scalar(1.0));
  CHECK(Scalar(1) != Scalar(true));
  CHECK(Scalar(0.0) != Scalar(-0.0));
  CHECK(Scalar(std::bit_cast<double>(0xffffffffffffffff)) == Scalar(kNaN));
  CHECK(Scalar() == Scalar(false));
  CHECK(Scalar::invalid() == Scalar::invalid());
  CHECK(Scalar::invalid() != Scalar(false));
  CHECK(Scalar(3).hash() == Scalar(3).hash());
  CHECK(Scalar(3).hash() != Scalar(3.0).hash());
  CHECK(Scalar(0.0).hash() != Scalar(-0.0).hash());
  CHECK(Scalar(std::bit_cast<double>(0x7ff0000000000001)).hash() == Scalar(kNaN).hash());
  CHECK(Scalar(false).hash() != Scalar::invalid().hash());
  CHECK(Scalar(kTwoTo100).hash() != Scalar(0).hash());
}

TEST_CASE("scalar conversions") {
  CHECK(Scalar(kTwoTo100).as_int() == kTwoTo100);
  CHECK(Scalar(-kTwoTo100).as_int() == -kTwoTo100);
  CHECK(Scalar(-kTwoTo100).as_double() == -0x1p100);
  CHECK(Scalar(-2.9).as_int() == -2);
  CHECK(Scalar(1e300).as_int() == max_value(DType::WeakInt).as_int());
  CHECK(Scalar(-kInf).as_int() == min_value(DType::WeakInt).as_int());
  CHECK(Scalar(kNaN).as_int() == 0);
  CHECK(Scalar(true).as_double() == 1.0);
  CHECK(Scalar(kNaN).as_bool());
  CHECK(!Scalar(-0.0).as_bool());
  CHECK(Scalar(kTwoTo100).as_bool());
  CHECK(Scalar(std::numeric_limits<int64_t>::min()).as_i64() == std::numeric_limits<int64_t>::min());
  CHECK_THROWS_AS(Scalar(uint64_t{1} << 63).as_i64(), InternalError);
  CHECK_THROWS_AS(Scalar::invalid().as_int(), InternalError);
  CHECK_THROWS_AS(Scalar::invalid().as_double(), InternalError);
  CHECK_THROWS_AS(Scalar::invalid().as_bool(), InternalError);
}

TEST_CASE("numeric equality and order across kinds") {
  CHECK(Scalar(0).equals(Scalar(0.0)));
  CHECK(Scalar(0).equals(Scalar(-0.0)));
  CHECK(Scalar(0).equals(Scalar(false)));
  CHECK(Scalar(1.0).equals(Scalar(true)));
  CHECK(!Scalar(-1).equals(Scalar(true)));
  CHECK(Scalar(kNaN).equals(Scalar(kNaN)));
  CHECK(!Scalar(kNaN).equals(Scalar(0)));
  CHECK(Scalar::invalid().equals(Scalar::invalid()));
  CHECK(!Scalar::invalid().equals(Scalar(false)));
  CHECK(!Scalar(false).equals(Scalar::invalid()));

  // 2^53 + 1 is no double: neither equal to its neighbour nor lost in the comparison.
  const Scalar odd(int64_t{(1LL << 53) + 1}), even(0x1p53);
  CHECK(!odd.equals(even));
  CHECK(even.less(odd));
  CHECK(!odd.less(even));
  CHECK(Scalar(2).less(Scalar(2.5)));
  CHECK(Scalar(2.5).less(Scalar(3)));
  CHECK(Scalar(-3).less(Scalar(-2.5)));
  CHECK(Scalar(-2.5).less(Scalar(-2)));
  CHECK(!Scalar(-2).less(Scalar(-2.5)));
  CHECK(Scalar(kTwoTo100).less(Scalar(kInf)));
  CHECK(Scalar(-kInf).less(min_value(DType::WeakInt)));
  CHECK(max_value(DType::WeakInt).less(Scalar(0x1p127)));
  CHECK(min_value(DType::WeakInt).equals(Scalar(-0x1p127)));
  CHECK(Scalar(false).less(Scalar(true)));
  CHECK(!Scalar(true).less(Scalar(true)));
  CHECK(!Scalar(-0.0).less(Scalar(0.0)));
  for (const Scalar& v : {Scalar(1), Scalar(1.0), Scalar(kNaN), Scalar::invalid()}) {
    CHECK(!Scalar(kNaN).less(v));
    CHECK(!v.less(Scalar(kNaN)));
    CHECK(!Scalar::invalid().less(v));
  }
}

TEST_CASE("scalar text") {
  const std::pair<Scalar, const char*> rows[] = {
      {3, "3"},
      {-17, "-17"},
      {0, "0"},
      {kTwoTo100, "1267650600228229401496703205376"},
      {min_value(DType::WeakInt), "-170141183460469231731687303715884105728"},
      {max_value(DType::WeakInt), "170141183460469231731687303715884105727"},
      {-1.5, "-1.5"},
      {1.0, "1.0"},
      {-0.0, "-0.0"},
      {0.1, "0.1"},
      {1e22, "1e+22"},
      {5e-324, "5e-324"},
      {kInf, "inf"},
      {-kInf, "-inf"},
      {kNaN, "nan"},
      {true, "true"},
      {false, "false"},
      {Scalar::invalid(), "Invalid"},
  };
  for (const auto& [v, text] : rows) CHECK(v.to_string() == text);
}

TEST_CASE("float text round-trips") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; i++) {
    const double x = std::bit_cast<double>(random());
    if (!std::isfinite(x)) continue;
    const std::string text = Scalar(x).to_string();
    double back = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), back);
    REQUIRE(code == std::errc());
    CHECK(end == text.data() + text.size());
    CHECK(std::bit_cast<uint64_t>(back) == std::bit_cast<uint64_t>(x));
    CHECK(text.find_first_of(".e") != std::string::npos);
  }
}

TEST_CASE("value ranges") {
  const std::pair<DType, std::pair<const char*, const char*>> rows[] = {
      {DType::Bool, {"false", "true"}},
      {DType::Int8, {"-128", "127"}},
      {DType::UInt8, {"0", "255"}},
      {DType::Int32, {"-2147483648", "2147483647"}},
      {DType::Int64, {"-9223372036854775808", "9223372036854775807"}},
      {DType::UInt64, {"0", "18446744073709551615"}},
      {DType::Float16, {"-inf", "inf"}},
      {DType::WeakFloat, {"-inf", "inf"}},
  };
  for (const auto& [d, texts] : rows) {
    INFO(dtype_name(d));
    CHECK(min_value(d).to_string() == texts.first);
    CHECK(max_value(d).to_string() == texts.second);
  }
  CHECK(weak_dtype(true) == DType::Bool);
  CHECK(weak_dtype(1) == DType::WeakInt);
  CHECK(weak_dtype(1.0) == DType::WeakFloat);
  CHECK(weak_dtype(Scalar::invalid()) == DType::Bool);
}

TEST_CASE("casts") {
  CHECK(cast_text(-1, DType::UInt8) == "255");
  CHECK(cast_text(300, DType::UInt8) == "44");
  CHECK(cast_text(128, DType::Int8) == "-128");
  CHECK(cast_text(-1, DType::UInt64) == "18446744073709551615");
  CHECK(cast_text(kTwoTo100, DType::Int32) == "0");
  CHECK(cast_text(kTwoTo100, DType::WeakInt) == Scalar(kTwoTo100).to_string());
  CHECK(cast_text(true, DType::Int16) == "1");
  CHECK(cast_text(-2.9, DType::Int32) == "-2");
  CHECK(cast_text(-1.0, DType::UInt8) == "255");
  CHECK(cast_text(2147483000.0, DType::Int32) == "2147483000");
  CHECK(cast_text(static_cast<double>(2147483000.0f), DType::Int32) == "2147483008");
  CHECK(cast_text(1e300, DType::Int64) == "0");
  CHECK(cast_text(kNaN, DType::Int32) == "0");
  CHECK(cast_text(kInf, DType::Int32) == "0");
  CHECK(cast_text(2.5, DType::WeakInt) == "2");
  CHECK(cast_text(3, DType::WeakFloat) == "3.0");
  CHECK(cast_text(3, DType::Float32) == "3.0");
  CHECK(cast_text(0.1, DType::Float32) == "0.10000000149011612");
  CHECK(cast_text(0.1, DType::Float16) == "0.0999755859375");
  CHECK(cast_text(0.1, DType::WeakFloat) == "0.1");
  CHECK(cast_text(1e300, DType::Float32) == "inf");
  CHECK(cast_text(70000, DType::Float16) == "inf");
  CHECK(cast_text(70000, DType::Fp8E4M3) == "448.0");
  CHECK(cast_text(kInf, DType::Fp8E4M3) == "nan");
  CHECK(cast_text(-0.0, DType::Fp8E4M3) == "-0.0");
  CHECK(cast_text(-0.0, DType::Fp8E4M3Fnuz) == "0.0");
  CHECK(cast_text(0.3, DType::Bool) == "true");
  CHECK(cast_text(kNaN, DType::Bool) == "true");
  CHECK(cast_text(-0.0, DType::Bool) == "false");
  CHECK(cast_scalar(Scalar::invalid(), DType::Int32).is_invalid());
  CHECK_THROWS_AS(cast_scalar(1, DType::Void), InternalError);
  // Through double this integer would round twice and end on the other neighbour.
  const int128 tie = (static_cast<int128>(1) << 60) + (static_cast<int128>(1) << 36) + 1;
  CHECK(cast_scalar(tie, DType::Float32).as_double() == 0x1p60 + 0x1p37);
}

TEST_CASE("bit patterns") {
  CHECK(encode(-1, DType::Int8) == 0xff);
  CHECK(encode(-1, DType::Int64) == 0xffffffffffffffff);
  CHECK(encode(true, DType::Bool) == 1);
  CHECK(encode(1.0, DType::Float32) == 0x3f800000);
  CHECK(encode(1, DType::Float32) == 0x3f800000);
  CHECK(encode(1.0, DType::Float64) == 0x3ff0000000000000);
  CHECK(encode(kNaN, DType::Float32) == 0x7fc00000);
  CHECK(decode(0x80, DType::Int8) == Scalar(-128));
  CHECK(decode(0x80, DType::UInt8) == Scalar(128));
  CHECK(decode(0xffffffffffffffff, DType::UInt64) == max_value(DType::UInt64));
  CHECK(decode(2, DType::Bool) == Scalar(true));
  CHECK(decode(0x1280, DType::Int8) == Scalar(-128));
  CHECK_THROWS_AS(encode(Scalar::invalid(), DType::Int8), InternalError);
  CHECK_THROWS_AS(encode(1, DType::WeakInt), UserError);
  CHECK_THROWS_AS(decode(1, DType::WeakFloat), UserError);
}

TEST_CASE("bitcast groups fold into each other") {
  struct Member {
    DType dtype;
    Scalar value;
  };
  const auto lowest = [](DType d) { return min_value(d); };
  const std::vector<std::vector<Member>> groups = {
      {{DType::Int8, 0}, {DType::UInt8, 0}, {DType::Bool, false}},
      {{DType::Int8, 1}, {DType::UInt8, 1}, {DType::Bool, true}},
      {{DType::Int8, -1}, {DType::UInt8, 255}},
      {{DType::Int16, -1}, {DType::UInt16, 65535}, {DType::Float16, kNaN}},
      {{DType::Int32, -1}, {DType::UInt32, max_value(DType::UInt32)}, {DType::Float32, kNaN}},
      {{DType::Int64, -1}, {DType::UInt64, max_value(DType::UInt64)}, {DType::Float64, kNaN}},
      {{DType::Int8, lowest(DType::Int8)}, {DType::UInt8, 128}},
      {{DType::Int16, lowest(DType::Int16)}, {DType::UInt16, 32768}, {DType::Float16, -0.0}},
      {{DType::Int32, lowest(DType::Int32)}, {DType::UInt32, int64_t{1} << 31}, {DType::Float32, -0.0}},
      {{DType::Int64, lowest(DType::Int64)}, {DType::UInt64, uint64_t{1} << 63}, {DType::Float64, -0.0}},
      {{DType::Int16, 13496}, {DType::Float16, .294921875}},
      {{DType::Int32, 1050081145}, {DType::Float32, .29485681653022766}},
      {{DType::Int64, int64_t{4598983288165178391}}, {DType::Float64, .29485681936461233}},
      {{DType::Int32, 75}, {DType::UInt32, 75}},
      {{DType::UInt32, 1069547520}, {DType::Float32, 1.5}},
  };
  for (const auto& group : groups)
    for (const Member& a : group)
      for (const Member& b : group) {
        // All NaNs are one value, so the pattern a NaN came from is gone.
        if (a.dtype != b.dtype && a.value == Scalar(kNaN)) continue;
        INFO(dtype_name(a.dtype), " ", a.value.to_string(), " to ", dtype_name(b.dtype));
        CHECK(bitcast_scalar(a.value, a.dtype, b.dtype) == b.value);
      }
  CHECK(bitcast_scalar(Scalar::invalid(), DType::Int8, DType::Bool).is_invalid());
  CHECK_THROWS_AS(bitcast_scalar(1, DType::Int8, DType::Int16), InternalError);
}
