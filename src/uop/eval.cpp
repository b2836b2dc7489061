#include "uop/eval.h"

#include "base/error.h"
#include "uop/linear_terms.h"
#include "uop/number_formats.h"
#include "uop/uop.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace lathe {
namespace {

using Folded = std::optional<Scalar>;
using FoldFunction = Folded (*)(DType, const Scalar*);

constexpr int128 kWeakLimit = static_cast<int128>(1) << 126;

// A source as a value of the result type.
double real(const Scalar& v, DType d) {
  return v.is_float() ? round_float(v.as_double(), d) : cast_scalar(v, d).as_double();
}
int128 integer(const Scalar& v, DType d) { return is_bool(d) ? v.as_bool() : wrap_integer(v.as_int(), d); }

// A result onto the grid of its type.
Folded rounded(double v, DType d) { return Scalar(round_float(v, d)); }
Folded wrapped(int128 v, DType d) {
  if (is_bool(d)) return Scalar(v != 0);
  return Scalar(wrap_integer(v, d));
}
// `overflow`: v lost bits above the 128th, which matters for weakint only.
Folded exact(bool overflow, int128 v, DType d) {
  if (d == DType::WeakInt && (overflow || v > kWeakLimit || v < -kWeakLimit)) return std::nullopt;
  return wrapped(v, d);
}

// a*b + c with one rounding to a type of at most 24 mantissa bits: a*b is exact in double, and the sum is
// rounded to odd, so that rounding it again cannot go wrong (Boldo, Melquiond: "Emulation of FMA and
// correctly rounded sums", 2008).
double multiply_add_odd(double a, double b, double c) {
  const double product = a * b;
  const double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double added = sum - product;
  const double error = (product - (sum - added)) + (c - added);
  const int64_t bits = std::bit_cast<int64_t>(sum);
  if (error == 0 || (bits & 1)) return sum;
  return std::bit_cast<double>(bits + ((error > 0) == (sum > 0) ? 1 : -1));
}

// Square and multiply; y >= 0.
Folded integer_power(int128 x, int128 y, DType d) {
  int128 result = 1;
  bool overflow = false;
  while (true) {
    if (y & 1) overflow |= __builtin_mul_overflow(result, x, &result);
    y >>= 1;
    if (y == 0) return exact(overflow, result, d);
    overflow |= __builtin_mul_overflow(x, x, &x);
  }
}

bool is_nan(const Scalar& v) { return v.is_float() && std::isnan(v.as_double()); }
bool differ(const Scalar& a, const Scalar& b) { return is_nan(a) || is_nan(b) || !a.equals(b); }

// A function of reals; no value for integers.
template <auto F>
Folded of_real(DType d, const Scalar* s) {
  if (!is_float(d)) return std::nullopt;
  if constexpr (requires { F(0.0); })
    return rounded(F(real(s[0], d)), d);
  else
    return rounded(F(real(s[0], d), real(s[1], d)), d);
}
// A function of two numbers; `Checked` is the one of integers and says whether it overflowed.
template <auto F, auto Checked>
Folded of_number(DType d, const Scalar* s) {
  if (is_float(d)) return of_real<F>(d, s);
  int128 v;
  const bool overflow = Checked(integer(s[0], d), integer(s[1], d), &v);
  return exact(overflow, v, d);
}
// A quotient or a remainder, which divide by -1 by hand: there the least integer overflows.
template <auto Divide, bool IsQuotient>
Folded of_division(DType d, const Scalar* s) {
  const int128 x = is_float(d) ? 0 : integer(s[0], d), y = is_float(d) ? 0 : integer(s[1], d);
  if (y == 0) return std::nullopt;
  if (y != -1) return exact(false, Divide(x, y), d);
  int128 negated = 0;
  const bool overflow = IsQuotient && __builtin_sub_overflow(static_cast<int128>(0), x, &negated);
  return exact(overflow, negated, d);
}
template <auto F>
Folded of_bits(DType d, const Scalar* s) {
  if (is_float(d)) return std::nullopt;
  return wrapped(F(integer(s[0], d), integer(s[1], d)), d);
}

// The functions that the `fold` column of ops.def names.
namespace fold {

constexpr FoldFunction none = nullptr;

constexpr FoldFunction exp2 = of_real<[](double x) { return std::exp2(x); }>;
constexpr FoldFunction log2 = of_real<[](double x) { return std::log2(x); }>;
constexpr FoldFunction sin = of_real<[](double x) { return std::sin(x); }>;
constexpr FoldFunction sqrt = of_real<[](double x) { return std::sqrt(x); }>;
constexpr FoldFunction reciprocal = of_real<[](double x) { return 1.0 / x; }>;
constexpr FoldFunction fdiv = of_real<std::divides<double>{}>;

// Double holds sums, products, quotients and roots of float32 values with enough bits (53 >= 2*24+2) that
// rounding the double result once more gives the correctly rounded float32; the narrower types follow.
constexpr FoldFunction add = of_number<std::plus<double>{}, [](int128 x, int128 y, int128* out) {
  return __builtin_add_overflow(x, y, out);
}>;
constexpr FoldFunction sub = of_number<std::minus<double>{}, [](int128 x, int128 y, int128* out) {
  return __builtin_sub_overflow(x, y, out);
}>;
constexpr FoldFunction mul = of_number<std::multiplies<double>{}, [](int128 x, int128 y, int128* out) {
  return __builtin_mul_overflow(x, y, out);
}>;

constexpr FoldFunction cdiv = of_division<std::divides<int128>{}, true>;
constexpr FoldFunction cmod = of_division<std::modulus<int128>{}, false>;
constexpr FoldFunction floordiv = of_division<floor_div, true>;
constexpr FoldFunction floormod = of_division<floor_mod, false>;

constexpr FoldFunction bit_xor = of_bits<std::bit_xor<int128>{}>;
constexpr FoldFunction bit_or = of_bits<std::bit_or<int128>{}>;
constexpr FoldFunction bit_and = of_bits<std::bit_and<int128>{}>;

Folded neg(DType d, const Scalar* s) {
  if (is_float(d)) return rounded(-real(s[0], d), d);
  int128 v;
  const bool overflow = __builtin_sub_overflow(static_cast<int128>(0), integer(s[0], d), &v);
  return exact(overflow, v, d);
}

Folded trunc(DType d, const Scalar* s) {
  if (is_float(d)) return rounded(std::trunc(real(s[0], d)), d);
  return wrapped(integer(s[0], d), d);
}

Folded mulacc(DType d, const Scalar* s) {
  if (is_float(d)) {
    const double a = real(s[0], d), b = real(s[1], d), c = real(s[2], d);
    const bool is_double = d == DType::Float64 || d == DType::WeakFloat;
    return rounded(is_double ? std::fma(a, b, c) : multiply_add_odd(a, b, c), d);
  }
  int128 v;
  bool overflow = __builtin_mul_overflow(integer(s[0], d), integer(s[1], d), &v);
  overflow |= __builtin_add_overflow(v, integer(s[2], d), &v);
  return exact(overflow, v, d);
}

Folded pow(DType d, const Scalar* s) {
  if (is_float(d)) {
    const double x = real(s[0], d), y = real(s[1], d);
    if (x == 0 && y < 0) return rounded(std::numeric_limits<double>::infinity(), d);
    return rounded(std::pow(x, y), d);
  }
  const int128 x = integer(s[0], d), y = integer(s[1], d);
  if (y >= 0) return integer_power(x, y, d);
  if (x == 0) return std::nullopt;
  if (x == 1 || x == -1) return wrapped(y & 1 ? x : 1, d);
  return wrapped(0, d);
}

Folded max(DType d, const Scalar* s) {
  if (is_float(d)) {
    const double a = real(s[0], d), b = real(s[1], d);
    return Scalar(a < b ? b : a);
  }
  return wrapped(std::max(integer(s[0], d), integer(s[1], d)), d);
}

Folded shl(DType d, const Scalar* s) {
  if (is_float(d)) return std::nullopt;
  const int128 x = integer(s[0], d), n = s[1].as_int();
  if (n < 0) return std::nullopt;
  if (x == 0 || n > 126) return exact(x != 0, 0, d);
  int128 v;
  const bool overflow = __builtin_mul_overflow(x, static_cast<int128>(1) << static_cast<int>(n), &v);
  return exact(overflow, v, d);
}

Folded shr(DType d, const Scalar* s) {
  if (is_float(d)) return std::nullopt;
  const int128 x = integer(s[0], d), n = s[1].as_int();
  if (n < 0) return std::nullopt;
  return wrapped(x >> static_cast<int>(std::min<int128>(n, 127)), d);
}

Folded cmplt(DType, const Scalar* s) { return Scalar(s[0].less(s[1])); }
Folded cmpne(DType, const Scalar* s) { return Scalar(differ(s[0], s[1])); }
Folded cmpeq(DType, const Scalar* s) { return Scalar(!differ(s[0], s[1])); }

// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). Counter, key and result are pairs of
// 32-bit words, low word first; the key's words enter in the order high, parity, low.
Folded threefry(DType d, const Scalar* s) {
  if (is_float(d)) return std::nullopt;
  static constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint64_t counter = static_cast<uint64_t>(s[0].as_int()), key = static_cast<uint64_t>(s[1].as_int());
  const uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {key1, key0 ^ key1 ^ 0x1BD11BDA, key0};
  uint32_t x0 = static_cast<uint32_t>(counter) + keys[2], x1 = static_cast<uint32_t>(counter >> 32) + keys[0];
  for (uint32_t group = 0; group < 5; group++) {
    for (const int rotation : kRotations[group % 2]) {
      x0 += x1;
      x1 = x0 ^ std::rotl(x1, rotation);
    }
    x0 += keys[group % 3];
    x1 += keys[(group + 1) % 3] + group + 1;
  }
  return wrapped(static_cast<uint64_t>(x1) << 32 | x0, d);
}

Folded where(DType d, const Scalar* s) {
  if (s[0].is_invalid()) return s[0];
  return cast_scalar(s[0].as_bool() ? s[1] : s[2], d);
}

}  // namespace fold

constexpr FoldFunction kFold[kNumOps] = {
#define OP(name, arity, arg, flags, rule, fold_name, ...) fold::fold_name,
#include "uop/ops.def"
};

}  // namespace

std::optional<Scalar> eval(Op op, DType dtype, std::span<const Scalar> srcs) {
  const FoldFunction function = kFold[static_cast<int>(op)];
  if (!function) return std::nullopt;
  CHECK(static_cast<int>(srcs.size()) == info(op).arity, "{} of {} values", op_name(op), srcs.size());
  if (op != Op::Where)
    for (const Scalar& s : srcs)
      if (s.is_invalid()) return s;
  return function(dtype, srcs.data());
}

std::optional<Scalar> eval(const UOp& u, std::span<const Scalar> srcs) {
  if (u.op() == Op::Cast) return cast_scalar(srcs[0], u.dtype());
  SmallVec<Scalar, 3> values(srcs);
  if (has_flag(u.op(), kComparison))
    for (Scalar& v : values) v = cast_scalar(v, join(u.src(0).dtype(), u.src(1).dtype()));
  return eval(u.op(), u.dtype(), values);
}

bool has_eval(Op op) { return kFold[static_cast<int>(op)] != nullptr; }

}  // namespace lathe
