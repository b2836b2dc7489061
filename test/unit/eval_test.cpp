#include "uop/eval.h"

#include "uop/number_formats.h"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>

#include "support/test.h"

using namespace lathe;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::optional<Scalar> run(Op op, DType d, std::initializer_list<Scalar> srcs) {
  return eval(op, d, std::span<const Scalar>(srcs.begin(), srcs.size()));
}
std::string text(Op op, DType d, std::initializer_list<Scalar> srcs) {
  const std::optional<Scalar> v = run(op, d, srcs);
  return v ? v->to_string() : "none";
}
std::string u8(Op op, int a, int b) { return text(op, DType::UInt8, {a, b}); }
std::string i8(Op op, int a, int b) { return text(op, DType::Int8, {a, b}); }
std::string weak(Op op, const Scalar& a, const Scalar& b) { return text(op, DType::WeakInt, {a, b}); }
double f32(Op op, std::initializer_list<Scalar> srcs) {
  return run(op, DType::Float32, srcs).value().as_double();
}

bool same_float(double a, float b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace

TEST_CASE("every ALU op folds, and nothing else") {
  for (int i = 0; i < kNumOps; i++) {
    const Op op = static_cast<Op>(i);
    INFO(op_name(op));
    CHECK(has_eval(op) == is_alu(op));
    CHECK(has_eval(op) == (info(op).fold != "none"));
  }
  CHECK(!run(Op::Const, DType::Int32, {}));
  CHECK_THROWS_AS(run(Op::Add, DType::Int32, {1}), InternalError);
}

TEST_CASE("unary functions at their edges") {
  const DType d = DType::Float32;
  CHECK(text(Op::Log2, d, {0.0}) == "-inf");
  CHECK(text(Op::Log2, d, {-1.0}) == "nan");
  CHECK(text(Op::Log2, d, {8.0}) == "3.0");
  CHECK(text(Op::Sqrt, d, {-1.0}) == "nan");
  CHECK(text(Op::Sqrt, d, {-0.0}) == "-0.0");
  CHECK(text(Op::Reciprocal, d, {0.0}) == "inf");
  CHECK(text(Op::Reciprocal, d, {-0.0}) == "-inf");
  CHECK(text(Op::Sin, d, {kInf}) == "nan");
  CHECK(text(Op::Sin, d, {-kInf}) == "nan");
  CHECK(text(Op::Trunc, d, {kInf}) == "inf");
  CHECK(text(Op::Trunc, d, {-kInf}) == "-inf");
  CHECK(text(Op::Trunc, d, {kNaN}) == "nan");
  CHECK(text(Op::Trunc, d, {-1.9}) == "-1.0");
  CHECK(text(Op::Trunc, DType::Int32, {-7}) == "-7");
  CHECK(text(Op::Exp2, d, {128.0}) == "inf");
  CHECK(text(Op::Exp2, d, {127.0}) == Scalar(0x1p127).to_string());
  CHECK(text(Op::Exp2, d, {-150.0}) == "0.0");
  CHECK(text(Op::Exp2, DType::Float16, {16.0}) == "inf");
  CHECK(text(Op::Exp2, DType::Float64, {1024.0}) == "inf");
  CHECK(text(Op::Exp2, d, {3}) == "8.0");
  CHECK(text(Op::Neg, d, {0.0}) == "-0.0");
  CHECK(text(Op::Neg, DType::Int8, {-128}) == "-128");
  CHECK(text(Op::Neg, DType::UInt8, {1}) == "255");
  for (Op op : {Op::Exp2, Op::Log2, Op::Sin, Op::Sqrt, Op::Reciprocal})
    CHECK(text(op, DType::Int32, {4}) == "none");
}

TEST_CASE("reciprocals are correctly rounded") {
  for (float x : {8.f, 7.f, -3.f, -50.f, 556.f, 1156.f}) CHECK(f32(Op::Reciprocal, {x}) == 1.f / x);
}

TEST_CASE("truncating and flooring division") {
  CHECK(i8(Op::CDiv, 8, 2) == "4");
  CHECK(i8(Op::CDiv, 7, 3) == "2");
  CHECK(i8(Op::CDiv, 7, -3) == "-2");
  CHECK(i8(Op::CDiv, -50, 6) == "-8");
  CHECK(i8(Op::CMod, -50, 6) == "-2");
  CHECK(i8(Op::CMod, 7, -3) == "1");
  CHECK(i8(Op::FloorDiv, 7, -3) == "-3");
  CHECK(i8(Op::FloorDiv, -7, 3) == "-3");
  CHECK(i8(Op::FloorDiv, -50, 6) == "-9");
  CHECK(i8(Op::FloorDiv, -6, 3) == "-2");
  CHECK(i8(Op::FloorMod, 7, 3) == "1");
  CHECK(i8(Op::FloorMod, 7, -3) == "-2");
  CHECK(i8(Op::FloorMod, -7, 3) == "2");
  CHECK(i8(Op::FloorMod, -50, 6) == "4");
  CHECK(weak(Op::FloorMod, 1, -1000) == "-999");
  CHECK(weak(Op::FloorDiv, 1, -1000) == "-1");
  for (Op op : {Op::CDiv, Op::CMod, Op::FloorDiv, Op::FloorMod}) {
    CHECK(i8(op, 5, 0) == "none");
    CHECK(text(op, DType::Float32, {4.0, 2.0}) == "none");
    CHECK(text(op, DType::Int64, {min_value(DType::Int64), -1}) ==
          (op == Op::CDiv || op == Op::FloorDiv ? "-9223372036854775808" : "0"));
  }
  CHECK(weak(Op::CDiv, min_value(DType::WeakInt), -1) == "none");
  CHECK(weak(Op::CMod, min_value(DType::WeakInt), -1) == "0");
  CHECK(text(Op::CDiv, DType::UInt64, {max_value(DType::UInt64), 2}) == "9223372036854775807");
}

TEST_CASE("division identities") {
  for (int x = -20; x <= 20; x++)
    for (int y = -7; y <= 7; y++) {
      if (y == 0) continue;
      const auto value = [&](Op op) { return run(op, DType::WeakInt, {x, y}).value().as_i64(); };
      CHECK(value(Op::CDiv) == x / y);
      CHECK(value(Op::CMod) == x % y);
      CHECK(value(Op::FloorDiv) == static_cast<int64_t>(std::floor(static_cast<double>(x) / y)));
      CHECK(value(Op::FloorDiv) * y + value(Op::FloorMod) == x);
    }
}

TEST_CASE("integers wrap to their type; weakint does not") {
  CHECK(u8(Op::Add, 250, 250) == "244");
  CHECK(u8(Op::Add, 256, 0) == "0");
  CHECK(u8(Op::Add, 0, -1) == "255");
  CHECK(u8(Op::Sub, 0, 1) == "255");
  CHECK(u8(Op::Add, 0, -1000) == "24");
  CHECK(i8(Op::Add, -100, -100) == "56");
  CHECK(i8(Op::Add, -1000, 0) == "24");
  CHECK(i8(Op::Add, -130, 0) == "126");
  CHECK(weak(Op::Add, 250, 250) == "500");
  CHECK(text(Op::Mul, DType::UInt64, {max_value(DType::UInt64), max_value(DType::UInt64)}) == "1");
  CHECK(text(Op::Mul, DType::Int32, {65536, 65536}) == "0");
  CHECK(text(Op::MulAcc, DType::UInt8, {20, 20, 1}) == "145");
  CHECK(weak(Op::Add, int64_t{1} << 40, int64_t{1} << 40) == "2199023255552");
}

TEST_CASE("weakint has no value beyond 2^126") {
  const int128 limit = static_cast<int128>(1) << 126;
  CHECK(weak(Op::Add, limit - 1, 1) == Scalar(limit).to_string());
  CHECK(weak(Op::Add, limit, 1) == "none");
  CHECK(weak(Op::Sub, -limit, 1) == "none");
  CHECK(weak(Op::Mul, static_cast<int128>(1) << 64, static_cast<int128>(1) << 64) == "none");
  CHECK(weak(Op::Mul, static_cast<int128>(1) << 63, static_cast<int128>(1) << 63) ==
        Scalar(limit).to_string());
  CHECK(weak(Op::Add, max_value(DType::WeakInt), max_value(DType::WeakInt)) == "none");
  CHECK(text(Op::Neg, DType::WeakInt, {min_value(DType::WeakInt)}) == "none");
  CHECK(text(Op::MulAcc, DType::WeakInt, {limit, 1, limit}) == "none");
  CHECK(text(Op::MulAcc, DType::WeakInt, {limit, 1, -limit}) == "0");
}

TEST_CASE("shifts") {
  CHECK(text(Op::Shl, DType::Int32, {1, 31}) == "-2147483648");
  CHECK(text(Op::Shl, DType::Int32, {1, 32}) == "0");
  CHECK(text(Op::Shl, DType::UInt64, {3, 63}) == "9223372036854775808");
  CHECK(text(Op::Shl, DType::UInt64, {1, 200}) == "0");
  CHECK(text(Op::Shr, DType::Int8, {-128, 3}) == "-16");
  CHECK(text(Op::Shr, DType::Int8, {-1, 100}) == "-1");
  CHECK(text(Op::Shr, DType::Int64, {-1, 1000}) == "-1");
  CHECK(text(Op::Shr, DType::UInt8, {128, 7}) == "1");
  CHECK(text(Op::Shr, DType::UInt8, {-1, 4}) == "15");
  CHECK(text(Op::Shl, DType::Int32, {1, -1}) == "none");
  CHECK(text(Op::Shr, DType::Int32, {1, -1}) == "none");
  CHECK(weak(Op::Shl, 1, 100) == "1267650600228229401496703205376");
  CHECK(weak(Op::Shl, 1, 127) == "none");
  CHECK(weak(Op::Shl, 0, 1000) == "0");
  CHECK(weak(Op::Shr, -5, 1) == "-3");
  // The count keeps its own type: 200 is no int8.
  CHECK(text(Op::Shl, DType::Int8, {1, 200}) == "0");
  CHECK(text(Op::Shl, DType::Float32, {1.0, 1}) == "none");
}

TEST_CASE("bits and booleans") {
  CHECK(i8(Op::Xor, -1, 1) == "-2");
  CHECK(u8(Op::Or, 0xf0, 0x0f) == "255");
  CHECK(i8(Op::And, -2, 7) == "6");
  CHECK(weak(Op::And, -1, int64_t{1} << 62) == "4611686018427387904");
  for (Op op : {Op::Xor, Op::Or, Op::And}) CHECK(text(op, DType::Float32, {1.0, 1.0}) == "none");
  const DType b = DType::Bool;
  for (bool x : {false, true})
    for (bool y : {false, true}) {
      CHECK(run(Op::Add, b, {x, y}) == Scalar(x || y));
      CHECK(run(Op::Mul, b, {x, y}) == Scalar(x && y));
      CHECK(run(Op::Max, b, {x, y}) == Scalar(x || y));
      CHECK(run(Op::And, b, {x, y}) == Scalar(x && y));
      CHECK(run(Op::Or, b, {x, y}) == Scalar(x || y));
      CHECK(run(Op::Xor, b, {x, y}) == Scalar(x != y));
      CHECK(run(Op::CmpLt, b, {x, y}) == Scalar(!x && y));
      CHECK(run(Op::CmpNe, b, {x, y}) == Scalar(x != y));
      CHECK(run(Op::CmpEq, b, {x, y}) == Scalar(x == y));
    }
}

TEST_CASE("comparisons") {
  const DType b = DType::Bool;
  CHECK(text(Op::CmpLt, b, {1, 2}) == "true");
  CHECK(text(Op::CmpLt, b, {2, 2}) == "false");
  CHECK(text(Op::CmpLt, b, {-0.0, 0.0}) == "false");
  CHECK(text(Op::CmpEq, b, {-0.0, 0.0}) == "true");
  CHECK(text(Op::CmpLt, b, {max_value(DType::Int64), max_value(DType::UInt64)}) == "true");
  for (double x : {0.0, kNaN, kInf}) {
    CHECK(text(Op::CmpLt, b, {kNaN, x}) == "false");
    CHECK(text(Op::CmpLt, b, {x, kNaN}) == "false");
    CHECK(text(Op::CmpNe, b, {kNaN, x}) == "true");
    CHECK(text(Op::CmpNe, b, {x, kNaN}) == "true");
    CHECK(text(Op::CmpEq, b, {kNaN, x}) == "false");
  }
  CHECK(text(Op::Max, DType::Float32, {kNaN, 1.0}) == "nan");
  CHECK(text(Op::Max, DType::Float32, {1.0, kNaN}) == "1.0");
  CHECK(text(Op::Max, DType::Float32, {-0.0, 0.0}) == "-0.0");
  CHECK(text(Op::Max, DType::Float32, {1.0, 2.0}) == "2.0");
  CHECK(i8(Op::Max, -3, 2) == "2");
  CHECK(text(Op::Max, DType::UInt64, {1, max_value(DType::UInt64)}) == "18446744073709551615");
}

TEST_CASE("Invalid poisons") {
  const Scalar inv = Scalar::invalid();
  for (int i = 0; i < kNumOps; i++) {
    const Op op = static_cast<Op>(i);
    if (!has_eval(op) || op == Op::Where) continue;
    for (int poisoned = 0; poisoned < info(op).arity; poisoned++) {
      Scalar srcs[3] = {0, 0, 0};
      srcs[poisoned] = inv;
      INFO(op_name(op), " source ", poisoned);
      CHECK(eval(op, DType::Int32, {srcs, static_cast<size_t>(info(op).arity)}) == inv);
    }
  }
  CHECK(run(Op::Where, DType::Int32, {inv, 1, 2}) == inv);
  CHECK(run(Op::Where, DType::Int32, {true, inv, 2}) == inv);
  CHECK(run(Op::Where, DType::Int32, {false, inv, 2}) == Scalar(2));
}

TEST_CASE("where") {
  CHECK(text(Op::Where, DType::WeakInt, {false, 2, 4}) == "4");
  CHECK(text(Op::Where, DType::WeakInt, {true, 2, 4}) == "2");
  CHECK(text(Op::Where, DType::Float32, {true, 2, 4.5}) == "2.0");
  CHECK(text(Op::Where, DType::Float32, {true, 0.1, 4.5}) == "0.10000000149011612");
}

TEST_CASE("pow") {
  const DType d = DType::Float32;
  CHECK(text(Op::Pow, d, {2.0, 10.0}) == "1024.0");
  CHECK(text(Op::Pow, d, {-8.0, 1.0 / 3}) == "nan");
  CHECK(text(Op::Pow, d, {-2.0, 3.0}) == "-8.0");
  CHECK(text(Op::Pow, d, {0.0, -1.0}) == "inf");
  CHECK(text(Op::Pow, d, {-0.0, -1.0}) == "inf");
  CHECK(text(Op::Pow, d, {0.0, 0.0}) == "1.0");
  CHECK(text(Op::Pow, d, {kInf, 0.0}) == "1.0");
  CHECK(text(Op::Pow, d, {-kInf, 0.3}) == "inf");
  CHECK(text(Op::Pow, d, {-kInf, 3.3}) == "inf");
  CHECK(text(Op::Pow, DType::Int32, {3, 5}) == "243");
  CHECK(text(Op::Pow, DType::Int32, {2, 31}) == "-2147483648");
  CHECK(text(Op::Pow, DType::UInt8, {3, max_value(DType::UInt8)}) == "171");  // 3^-1 modulo 256: 3*171 = 513
  CHECK(text(Op::Pow, DType::Int32, {2, -1}) == "0");
  CHECK(text(Op::Pow, DType::Int32, {-1, -3}) == "-1");
  CHECK(text(Op::Pow, DType::Int32, {-1, -4}) == "1");
  CHECK(text(Op::Pow, DType::Int32, {0, -1}) == "none");
  CHECK(text(Op::Pow, DType::Int32, {0, 0}) == "1");
  CHECK(weak(Op::Pow, 2, 126) == Scalar(static_cast<int128>(1) << 126).to_string());
  CHECK(weak(Op::Pow, 2, 127) == "none");
  CHECK(weak(Op::Pow, 10, 100) == "none");
  CHECK(weak(Op::Pow, -3, 3) == "-27");
}

TEST_CASE("constants take the type of the result before the op") {
  // 0.1 becomes the float32 0.1 first; in double the sum would round to another float32.
  CHECK(f32(Op::Mul, {0.1, 3.0}) == 0.1f * 3.0f);
  CHECK(text(Op::Add, DType::Float32, {16777216, 1}) == "16777216.0");
  CHECK(text(Op::Add, DType::WeakFloat, {16777216, 1}) == "16777217.0");
  CHECK(text(Op::Add, DType::WeakFloat, {0.1, 0.2}) == "0.30000000000000004");
  CHECK(text(Op::Add, DType::Fp8E4M3, {448.0, 448.0}) == "448.0");
  CHECK(text(Op::Mul, DType::Float16, {256.0, 256.0}) == "inf");
  CHECK(text(Op::FDiv, DType::Float32, {1.0, 0.0}) == "inf");
  CHECK(text(Op::FDiv, DType::Float32, {0.0, 0.0}) == "nan");
  CHECK(text(Op::FDiv, DType::Int32, {1, 1}) == "none");
}

TEST_CASE("float32 arithmetic is correctly rounded") {
  std::mt19937 random(7);
  const auto next = [&] { return std::bit_cast<float>(static_cast<uint32_t>(random())); };
  // Operands of close exponents cancel and carry; plain bit patterns hardly ever do.
  const auto near = [&](float x) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ (static_cast<uint32_t>(random()) & 0x81ffffff));
  };
  for (int i = 0; i < 50000; i++) {
    const float a = next(), b = i % 2 ? near(a) : next();
    const bool good = same_float(f32(Op::Add, {a, b}), a + b) && same_float(f32(Op::Sub, {a, b}), a - b) &&
                      same_float(f32(Op::Mul, {a, b}), a * b) && same_float(f32(Op::FDiv, {a, b}), a / b) &&
                      same_float(f32(Op::Sqrt, {a}), std::sqrt(a)) &&
                      same_float(f32(Op::Reciprocal, {a}), 1.f / a);
    if (!good) FAIL_CHECK("at ", a, " and ", b);
  }
}

TEST_CASE("MulAcc rounds once") {
  std::mt19937 random(8);
  const auto mantissa = [&] { return std::ldexp(static_cast<float>((random() & 0xffffff) | 0x800000), -23); };
  for (int i = 0; i < 50000; i++) {
    const float a = mantissa(), b = mantissa();
    // c down to where it only breaks a tie of the product, and up to where the product does.
    const float c =
        std::ldexp(mantissa(), static_cast<int>(random() % 120) - 60) * (random() & 1 ? 1.f : -1.f);
    const double got = f32(Op::MulAcc, {a, b, c});
    if (!same_float(got, std::fma(a, b, c))) FAIL_CHECK("at ", a, " ", b, " ", c, ": ", got);
  }
  // The tie of the product is broken only by c, which is lost when the sum is rounded to double.
  const float a = 1 + 0x1p-12f;
  CHECK(f32(Op::MulAcc, {a, a, 0x1p-100}) == std::fma(a, a, 0x1p-100f));
  CHECK(f32(Op::MulAcc, {a, a, 0x1p-100}) != static_cast<float>(static_cast<double>(a) * a + 0x1p-100));
  CHECK(text(Op::MulAcc, DType::Float64, {1 + 0x1p-52, 1 - 0x1p-52, -1.0}) == Scalar(-0x1p-104).to_string());
  CHECK(text(Op::MulAcc, DType::Float32, {kInf, 0.0, 1.0}) == "nan");
  CHECK(text(Op::MulAcc, DType::Float32, {kInf, 1.0, 1.0}) == "inf");
}

TEST_CASE("MulAcc of halves is the half nearest to the exact value") {
  // Halves are multiples of 2^-24, so a*b + c is a multiple of 2^-48 that fits into 81 bits.
  const auto scaled = [](double x, int power) { return static_cast<int128>(std::ldexp(x, power)); };
  std::mt19937 random(9);
  const auto next = [&] { return decode_float(random() & 0xffff, DType::Float16); };
  int checked = 0;
  for (int i = 0; i < 50000; i++) {
    const double a = next(), b = next(), c = next();
    if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) continue;
    const int128 exact = scaled(a, 24) * scaled(b, 24) + scaled(c, 48);
    const double got = run(Op::MulAcc, DType::Float16, {a, b, c}).value().as_double();
    if (!std::isfinite(got)) {
      CHECK((got > 0 ? exact : -exact) >= scaled(65520, 48));
      continue;
    }
    const auto distance = [&](double x) {
      const int128 d = scaled(x, 48) - exact;
      return d < 0 ? -d : d;
    };
    const uint64_t code = encode_float(got, DType::Float16);
    for (const uint64_t other : {code - 1, code + 1}) {
      if ((code & 0x7fff) == 0 && other == code - 1) continue;
      const double neighbour = decode_float(other, DType::Float16);
      if (!std::isfinite(neighbour)) continue;
      const bool nearest =
          distance(got) < distance(neighbour) || (distance(got) == distance(neighbour) && !(code & 1));
      if (!nearest) FAIL_CHECK("at ", a, " ", b, " ", c, ": ", got, " but ", neighbour, " is nearer");
    }
    checked++;
  }
  CHECK(checked > 10000);
}

TEST_CASE("threefry vectors") {
  const uint32_t first[] = {2221762175, 1752107825, 653745012, 1967534793, 1395205442,
                            3840423848, 2159346757, 603508235, 3319473678, 3363866483};
  const uint32_t second[] = {3544324138, 1436466838, 2169858556, 2570072943, 2387150698,
                             3678370550, 2911697663, 403244401,  2560861638, 1692360114};
  const uint64_t key = uint64_t{1337} << 32;  // words 0, 1337
  for (uint64_t i = 0; i < 10; i++) {
    const uint64_t counter = (i + 10) << 32 | i;
    const Scalar bits = run(Op::Threefry, DType::UInt64, {counter, key}).value();
    CHECK(bits == Scalar(uint64_t{second[i]} << 32 | first[i]));
  }
}
