#include "uop/scalar.h"

#include "base/error.h"
#include "uop/number_formats.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <compare>
#include <limits>

namespace lathe {
namespace {

constexpr uint64_t kCanonicalNaN = 0x7ff8000000000000;
constexpr double kTwoTo127 = 0x1p127;
constexpr int128 kInt128Min = static_cast<int128>(1) << 127;
constexpr int128 kInt128Max = ~kInt128Min;

// Truncates towards zero, saturating; NaN gives 0.
int128 saturate_to_int(double x) {
  if (std::isnan(x)) return 0;
  if (x >= kTwoTo127) return kInt128Max;
  if (x < -kTwoTo127) return kInt128Min;
  return static_cast<int128>(x);
}

// Truncated, then the low bits; from 2^126 on a double's low 64 bits are zero. Infinities and NaN give 0.
int128 float_to_int(double x, DType d) {
  if (d == DType::WeakInt) return saturate_to_int(x);
  if (!(std::abs(x) < 0x1p126)) return 0;
  return wrap_integer(static_cast<int128>(x), d);
}

double int_to_float(int128 v, DType d) {
  // 128-bit integers round once to float32. Those that would round twice on the way to a narrower type
  // through double are beyond its largest value anyway; bfloat16 goes through float32 by definition.
  if (d == DType::Float32 || d == DType::BFloat16) return round_float(static_cast<float>(v), d);
  return round_float(static_cast<double>(v), d);
}

std::partial_ordering compare(int128 a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= kTwoTo127) return std::partial_ordering::less;
  if (b < -kTwoTo127) return std::partial_ordering::greater;
  const int128 whole = static_cast<int128>(b);
  if (a != whole) return a <=> whole;
  return 0.0 <=> (b - static_cast<double>(whole));
}

std::partial_ordering compare(const Scalar& a, const Scalar& b) {
  if (a.is_float()) {
    if (b.is_float()) return a.as_double() <=> b.as_double();
    return 0 <=> compare(b.as_int(), a.as_double());
  }
  if (b.is_float()) return compare(a.as_int(), b.as_double());
  return a.as_int() <=> b.as_int();
}

std::string float_to_string(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char text[32];
  const auto [end, code] = std::to_chars(text, text + sizeof text, x);
  CHECK(code == std::errc());
  std::string out(text, end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

}  // namespace

Scalar::Scalar(double v)
    : kind_(Kind::Float), lo_(std::isnan(v) ? kCanonicalNaN : std::bit_cast<uint64_t>(v)), hi_(0) {}

Scalar Scalar::invalid() {
  Scalar v;
  v.kind_ = Kind::Invalid;
  return v;
}

bool Scalar::as_bool() const {
  CHECK(!is_invalid(), "Invalid has no truth value");
  if (is_float()) return std::bit_cast<double>(lo_) != 0;
  return lo_ != 0 || hi_ != 0;
}

int128 Scalar::as_int() const {
  CHECK(!is_invalid(), "Invalid is not a number");
  if (is_float()) return saturate_to_int(std::bit_cast<double>(lo_));
  return static_cast<int128>(static_cast<unsigned __int128>(static_cast<uint64_t>(hi_)) << 64 | lo_);
}

double Scalar::as_double() const {
  if (is_float()) return std::bit_cast<double>(lo_);
  return static_cast<double>(as_int());
}

int64_t Scalar::as_i64() const {
  const int128 v = as_int();
  CHECK(v == static_cast<int64_t>(v), "{} does not fit into 64 bits", to_string());
  return static_cast<int64_t>(v);
}

bool Scalar::equals(const Scalar& o) const {
  if (*this == o) return true;
  if (is_invalid() || o.is_invalid()) return false;
  return compare(*this, o) == 0;
}

bool Scalar::less(const Scalar& o) const {
  if (is_invalid() || o.is_invalid()) return false;
  return compare(*this, o) < 0;
}

Hash128 Scalar::hash() const {
  const uint64_t words[3] = {static_cast<uint64_t>(kind_), lo_, static_cast<uint64_t>(hi_)};
  return hash_bytes(words, sizeof words);
}

std::string Scalar::to_string() const {
  switch (kind_) {
    case Kind::Bool: return lo_ ? "true" : "false";
    case Kind::Int: return fmt::format("{}", as_int());
    case Kind::Float: return float_to_string(as_double());
    case Kind::Invalid: break;
  }
  return "Invalid";
}

Scalar min_value(DType d) {
  CHECK(d != DType::Void, "void has no values");
  if (is_bool(d)) return false;
  if (is_float(d)) return -std::numeric_limits<double>::infinity();
  if (d == DType::WeakInt) return kInt128Min;
  return is_unsigned(d) ? Scalar(0) : Scalar(-(static_cast<int128>(1) << (bit_width(d) - 1)));
}

Scalar max_value(DType d) {
  CHECK(d != DType::Void, "void has no values");
  if (is_bool(d)) return true;
  if (is_float(d)) return std::numeric_limits<double>::infinity();
  if (d == DType::WeakInt) return kInt128Max;
  return (static_cast<int128>(1) << (bit_width(d) - (is_unsigned(d) ? 0 : 1))) - 1;
}

DType weak_dtype(const Scalar& v) {
  if (v.is_int()) return DType::WeakInt;
  return v.is_float() ? DType::WeakFloat : DType::Bool;
}

Scalar cast_scalar(const Scalar& v, DType d) {
  if (v.is_invalid()) return v;
  if (is_bool(d)) return v.as_bool();
  if (is_int(d)) return v.is_float() ? float_to_int(v.as_double(), d) : wrap_integer(v.as_int(), d);
  CHECK(is_float(d), "{} cannot be cast to {}", v.to_string(), dtype_name(d));
  return v.is_float() ? round_float(v.as_double(), d) : int_to_float(v.as_int(), d);
}

Scalar bitcast_scalar(const Scalar& v, DType from, DType to) {
  if (v.is_invalid()) return v;
  CHECK(item_size(from) == item_size(to), "bitcast from {} to {} changes the size", dtype_name(from),
        dtype_name(to));
  return decode(encode(v, from), to);
}

uint64_t encode(const Scalar& v, DType d) {
  const int bits = 8 * static_cast<int>(item_size(d));
  const Scalar on_grid = cast_scalar(v, d);
  CHECK(!on_grid.is_invalid(), "Invalid has no bit pattern");
  if (is_float(d)) return encode_float(on_grid.as_double(), d);
  return static_cast<uint64_t>(on_grid.as_int()) & (~uint64_t{0} >> (64 - bits));
}

Scalar decode(uint64_t bits, DType d) {
  CHECK(item_size(d) > 0);
  if (is_bool(d)) return (bits & 0xff) != 0;
  if (is_float(d)) return decode_float(bits, d);
  return wrap_integer(bits, d);
}

}  // namespace lathe
