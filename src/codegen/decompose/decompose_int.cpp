#include "base/knobs.h"
#include "codegen/decompose/typed.h"
#include "codegen/passes.h"
#include "uop/rewrite.h"

#include <algorithm>

namespace lathe {

std::optional<MagicDivision> magic_division(int128 largest, int128 divisor) {
  CHECK(largest >= 0 && divisor > 0, "magic division needs a non-negative numerator and a positive divisor");
  if (largest < divisor) return MagicDivision{0, 0};
  const int128 nc = (largest + 1) / divisor * divisor - 1;
  int bits = 0;
  while (bits < 126 && largest >> bits) bits++;
  for (int s = 0; s <= std::min(2 * bits, 125); s++) {
    const int128 power = static_cast<int128>(1) << s;
    const int128 rest = divisor - 1 - (power - 1) % divisor;
    int128 bound;
    if (!__builtin_mul_overflow(nc, rest, &bound) && power > bound)
      return MagicDivision{(power + rest) / divisor, s};
  }
  return std::nullopt;
}

namespace {

using namespace typed;

struct IntContext {
  const Target& target;
};

bool is_native(const Match& m) {
  const Target& t = m.ctx<IntContext>().target;
  return t.native_ops.contains(m.root().op()) && t.supports_dtype(m.root().dtype());
}

int128 low(const UOp& u) { return u.bounds().lo.as_int(); }
int128 high(const UOp& u) { return u.bounds().hi.as_int(); }
int width(const UOp& u) { return bit_width(u.dtype()); }

// Signed and unsigned types alternate, by size.
std::optional<DType> wider(DType d) {
  if (d < DType::Int8 || d > DType::UInt32) return std::nullopt;
  return static_cast<DType>(static_cast<int>(d) + 2);
}
static_assert(static_cast<int>(DType::Int64) - static_cast<int>(DType::Int8) == 6);

// x / d for x in [0, largest] by multiplication, or nothing.
UOp multiply_instead(UOp x, int128 largest, int128 d, const Target& target) {
  const DType type = x.dtype();
  for (;;) {
    const auto magic = magic_division(largest, d);
    int128 product;
    if (!magic || __builtin_mul_overflow(largest, magic->multiplier, &product)) return {};
    const auto apply = [&](const UOp& v) {
      return cast(shr(mul(v, Scalar(magic->multiplier)), magic->shift), type);
    };
    if (product <= max_value(type).as_int()) return apply(x);
    if (d % 2 == 0) {
      int k = 0;
      for (; d % 2 == 0; k++) d /= 2;
      x = shr(x, k);
      largest >>= k;
      continue;
    }
    const auto wide = wider(type);
    if (!wide || !target.supports_dtype(*wide) || product > max_value(*wide).as_int()) return {};
    return apply(cast(x, *wide));
  }
}

// x / y for x in [0, largest] and y > 0.
UOp divide_positive(const UOp& x, int128 largest, const UOp& y, const Target& target) {
  if (largest < low(y)) return num(x, 0);
  if (y.is_const() && !knob(Knob::DISABLE_FAST_IDIV))
    if (UOp q = multiply_instead(x, largest, y.value().as_int(), target)) return q;
  return alu(Op::CDiv, {x, y});
}

bool may_be(const UOp& u, int v) { return low(u) <= v && v <= high(u); }

// y, or 1 where it is 0 or -1: no quotient by it overflows or traps.
UOp safe_divisor(const UOp& y) {
  UOp r = y;
  if (may_be(y, 0)) r = y.is_const() ? num(y, 1) : where(differs(y, 0), r, num(y, 1));
  if (!is_unsigned(y.dtype()) && may_be(y, -1))
    r = y.is_const() ? num(y, 1) : where(differs(y, -1), r, num(y, 1));
  return r;
}

struct Division {
  UOp quotient, remainder;
};

// Rounded down, for divisors that may be negative.
Division divide_floor(const UOp& x, const UOp& y) {
  const UOp d = safe_divisor(y);
  UOp q = alu(Op::CDiv, {x, d});
  UOp r = sub(x, q * d);
  if (high(x) > 0 || high(y) >= 0) {
    const UOp mixed = differs(r, 0) & ne(less(r, 0), less(d, 0));
    q = where(mixed, sub(q, 1), q);
    r = where(mixed, r + d, r);
  }
  if (may_be(y, -1)) q = where(differs(y, -1), q, sub(num(x, 0), x));
  return {q, r};
}

// x // d for d > 0.
UOp divide_floor_positive(const UOp& x, const UOp& d, const Target& target) {
  if (low(x) >= 0) return divide_positive(x, high(x), d, target);
  // floor(x/d) == ~(~x/d) for x < 0, and ~x >= 0.
  const UOp sign = shr(x, width(x) - 1);
  return divide_positive(x ^ sign, std::max(high(x), -low(x) - 1), d, target) ^ sign;
}

UOp lower_floor_div(const Match& m) {
  const UOp &x = m[pat::x], &y = m[pat::y];
  const Target& target = m.ctx<IntContext>().target;
  if (const auto k = log2_of(y)) return m.fit(shr(x, *k));
  if (low(y) < 0) return m.fit(divide_floor(x, y).quotient);
  return m.fit(divide_floor_positive(x, safe_divisor(y), target));
}

UOp lower_floor_mod(const Match& m) {
  const UOp &x = m[pat::x], &y = m[pat::y];
  if (log2_of(y)) return m.fit(bits_and(x, Scalar(y.value().as_int() - 1)));
  if (low(y) < 0) return m.fit(divide_floor(x, y).remainder);
  if (low(x) >= 0 && high(x) < low(y)) return m.fit(x);
  const UOp d = safe_divisor(y);
  if (low(x) >= 0 && (!d.is_const() || knob(Knob::DISABLE_FAST_IDIV))) return m.fit(alu(Op::CMod, {x, d}));
  return m.fit(sub(x, divide_floor_positive(x, d, m.ctx<IntContext>().target) * d));
}

UOp lower_c_div(const Match& m) {
  const UOp &x = m[pat::x], &y = m[pat::c0];
  if (const auto k = log2_of(y)) {
    if (low(x) >= 0) return m.fit(shr(x, *k));
    // Rounds towards zero: what is below it is lifted by the divisor less one.
    const UOp lift = bits_and(shr(x, width(x) - 1), Scalar(y.value().as_int() - 1));
    return m.fit(shr(x + lift, *k));
  }
  if (knob(Knob::DISABLE_FAST_IDIV) || low(x) < 0 || y.value().as_int() <= 0) return {};
  const UOp q = divide_positive(x, high(x), y, m.ctx<IntContext>().target);
  return q == m.root() ? UOp() : m.fit(q);
}

UOp lower_c_mod(const Match& m) {
  const UOp &x = m[pat::x], &y = m[pat::c0];
  if (low(x) < 0) return {};
  if (log2_of(y)) return m.fit(bits_and(x, Scalar(y.value().as_int() - 1)));
  if (knob(Knob::DISABLE_FAST_IDIV) || y.value().as_int() <= 0) return {};
  const UOp q = divide_positive(x, high(x), y, m.ctx<IntContext>().target);
  return q.op() == Op::CDiv ? UOp() : m.fit(sub(x, q * y));
}

// Machines take the count modulo the width, or worse; in graphs every bit leaves.
UOp bound_shift(const Match& m) {
  const UOp &x = m[pat::x], &n = m[pat::y];
  const int w = width(x);
  if (high(n) < w) return {};
  const bool keeps_sign = m.root().op() == Op::Shr && !is_unsigned(x.dtype());
  const UOp all_out = keeps_sign ? shr(x, w - 1) : num(x, 0);
  if (low(n) >= w) return m.fit(all_out);
  const UOp some = alu(m.root().op(), {x, bits_and(n, w - 1)});
  return m.fit(where(less(n, w), some, all_out));
}

// The function of uop/eval.cpp in 32-bit words.
UOp lower_threefry(const Match& m) {
  const UOp &counter = m[pat::x], &key = m[pat::y];
  if (is_native(m)) return {};
  CHECK(m.root().dtype() == DType::UInt64, "Threefry of {}", m.root().dtype());
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  constexpr DType kWord = DType::UInt32;
  const auto low_word = [](const UOp& u) { return cast(u, kWord); };
  const auto high_word = [](const UOp& u) { return cast(shr(u, 32), kWord); };
  const UOp key0 = low_word(key), key1 = high_word(key);
  const UOp keys[3] = {key1, key0 ^ key1 ^ num(key0, 0x1BD11BDA), key0};
  UOp x0 = low_word(counter) + keys[2], x1 = high_word(counter) + keys[0];
  for (int group = 0; group < 5; group++) {
    for (const int rotation : kRotations[group % 2]) {
      x0 = x0 + x1;
      x1 = x0 ^ (shl(x1, rotation) | shr(x1, 32 - rotation));
    }
    x0 = x0 + keys[group % 3];
    x1 = add(x1 + keys[(group + 1) % 3], group + 1);
  }
  return m.fit(shl(cast(x1, DType::UInt64), 32) | cast(x0, DType::UInt64));
}

// Square and multiply over the bits the exponent can have.
UOp lower_int_pow(const Match& m) {
  const UOp &x = m[pat::x], &y = m[pat::y];
  if (is_native(m)) return {};
  UOp result = num(x, 1), square = x, e = y;
  for (int128 left = high(y); left > 0; left >>= 1) {
    result = where(differs(bits_and(e, 1), 0), result * square, result);
    if (left == 1) break;
    square = square * square;
    e = shr(e, 1);
  }
  if (low(y) >= 0) return m.fit(result);
  // 1/x^n is a whole number for x = ±1 only; else it is cut to 0.
  const UOp odd = differs(bits_and(y, 1), 0);
  const UOp minus_one = where(odd, num(x, -1), num(x, 1));
  const UOp inverse = where(differs(x, 1), where(differs(x, -1), num(x, 0), minus_one), num(x, 1));
  return m.fit(where(less(y, 0), inverse, result));
}

// clang-format off
inline constexpr auto kIntRules = [] {
  using namespace pat;
  return late_rules(
      rule(op<Op::FloorDiv>(x, y), fn(lower_floor_div)),
      rule(op<Op::FloorMod>(x, y), fn(lower_floor_mod)),
      rule(op<Op::CDiv>(x, c0), fn(lower_c_div)),
      rule(op<Op::CMod>(x, c0), fn(lower_c_mod)),
      rule(any_op<OpSet{Op::Shl, Op::Shr}>(x, y), fn(bound_shift)),
      rule(op<Op::Threefry>(x, y), fn(lower_threefry)),
      rule(op<Op::Pow>(x, y).dtypes(is_int), fn(lower_int_pow)),
      rule(any_op<OpSet{Op::Add, Op::Max}>(x, y).dtype(DType::Bool), x | y),
      rule(op<Op::Mul>(x, y).dtype(DType::Bool), x & y));
}();
// clang-format on

}  // namespace

RuleView<UOp> int_rule_set() { return kIntRules; }

UOp decompose_int(const UOp& sink, const Target& target) {
  static const Matcher<UOp> rules(kIntRules);
  IntContext context{target};
  return graph_rewrite(sink, rules, {.ctx = context, .name = "decompose_int"});
}

}  // namespace lathe
