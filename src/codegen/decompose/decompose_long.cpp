#include "codegen/decompose/typed.h"
#include "codegen/passes.h"
#include "uop/rebuild.h"
#include "uop/spec_rules.h"

#include <unordered_map>

namespace lathe {
namespace {

using namespace typed;
using typed::add, typed::sub, typed::mul, typed::shl, typed::shr;

constexpr DType kWord = DType::UInt32;
constexpr int64_t kMostElements = int64_t{1} << 31;  // that int32 numbers

bool is_long(DType d) { return d == DType::Int64 || d == DType::UInt64; }

// The two words of a value, uint32 each, or the addresses of both.
struct Words {
  UOp lo, hi;
};

UOp word(int64_t v) { return constant(kWord, v); }
UOp as_signed(const UOp& w) { return cast(w, DType::Int32); }
UOp as_word(const UOp& condition) { return where(condition, word(1), word(0)); }
UOp no(const UOp& condition) { return ne(condition, constant(Scalar(true))); }
UOp shl(const UOp& a, const UOp& n) { return alu(Op::Shl, {a, n}); }
UOp shr(const UOp& a, const UOp& n) { return alu(Op::Shr, {a, n}); }

Words each(const Words& a, const Words& b, Op op) { return {alu(op, {a.lo, b.lo}), alu(op, {a.hi, b.hi})}; }
Words choose(const UOp& c, const Words& a, const Words& b) {
  return {where(c, a.lo, b.lo), where(c, a.hi, b.hi)};
}
UOp sign_of(const Words& a) { return less(as_signed(a.hi), 0); }
UOp is_nonzero(const Words& a) { return differs(a.lo | a.hi, 0); }

Words add(const Words& a, const Words& b) {
  const UOp lo = a.lo + b.lo;
  return {lo, a.hi + b.hi + as_word(lt(lo, a.lo))};
}
Words sub(const Words& a, const Words& b) {
  return {sub(a.lo, b.lo), sub(sub(a.hi, b.hi), as_word(lt(a.lo, b.lo)))};
}
Words negate(const Words& a) { return sub(Words{word(0), word(0)}, a); }
Words magnitude(const Words& a) { return choose(sign_of(a), negate(a), a); }

// The high word of a product of words, from halves of 16 bits.
UOp product_high(const UOp& a, const UOp& b) {
  const UOp a0 = bits_and(a, 0xffff), a1 = shr(a, 16), b0 = bits_and(b, 0xffff), b1 = shr(b, 16);
  const UOp first = a1 * b0 + shr(a0 * b0, 16), second = a0 * b1 + bits_and(first, 0xffff);
  return a1 * b1 + shr(first, 16) + shr(second, 16);
}
Words mul(const Words& a, const Words& b) {
  return {a.lo * b.lo, product_high(a.lo, b.lo) + a.lo * b.hi + a.hi * b.lo};
}

// Counts are below 64. What leaves one word enters the other; shifting it by one first keeps the count below
// 32 when nothing leaves.
Words shift_left(const Words& a, const Words& n) {
  const UOp count = bits_and(n.lo, 31), rest = sub(word(31), count);
  const UOp lo = shl(a.lo, count), hi = shl(a.hi, count) | shr(shr(a.lo, 1), rest);
  return choose(less(n.lo, 32), {lo, hi}, {word(0), lo});
}
Words shift_right(const Words& a, const Words& n, bool is_signed) {
  const UOp count = bits_and(n.lo, 31), rest = sub(word(31), count);
  const auto high_by = [&](const UOp& k) {
    return is_signed ? cast(shr(as_signed(a.hi), cast(k, DType::Int32)), kWord) : shr(a.hi, k);
  };
  const UOp hi = high_by(count);
  const UOp lo = shr(a.lo, count) | shl(shl(a.hi, 1), rest);
  return choose(less(n.lo, 32), {lo, hi}, {hi, is_signed ? high_by(word(31)) : word(0)});
}

UOp less_than(const Words& a, const Words& b, bool is_signed) {
  const UOp high = is_signed ? lt(as_signed(a.hi), as_signed(b.hi)) : lt(a.hi, b.hi);
  return high | (no(ne(a.hi, b.hi)) & lt(a.lo, b.lo));
}

struct Division {
  Words quotient, remainder;
};

// Bits of the numerator leave `rest` at the top while those of the quotient enter it at the bottom.
Division divide_unsigned(const Words& a, const Words& b) {
  Words rest = a, remainder{word(0), word(0)};
  for (int i = 0; i < 64; i++) {
    const UOp out = shr(remainder.hi, 31);  // the remainder has a 65th bit where b has 64
    remainder = {shl(remainder.lo, 1) | shr(rest.hi, 31), shl(remainder.hi, 1) | shr(remainder.lo, 31)};
    const UOp fits = differs(out, 0) | no(less_than(remainder, b, false));
    remainder = choose(fits, sub(remainder, b), remainder);
    rest = {shl(rest.lo, 1) | as_word(fits), shl(rest.hi, 1) | shr(rest.lo, 31)};
  }
  return {rest, remainder};
}
Division divide(const Words& a, const Words& b, bool is_signed) {
  if (!is_signed) return divide_unsigned(a, b);
  const Division d = divide_unsigned(magnitude(a), magnitude(b));
  return {choose(ne(sign_of(a), sign_of(b)), negate(d.quotient), d.quotient),
          choose(sign_of(a), negate(d.remainder), d.remainder)};
}

// ---- conversions

Words extended(const UOp& x) {
  if (is_bool(x.dtype())) return {as_word(x), word(0)};
  const UOp lo = cast(x, kWord);
  return {lo, is_unsigned(x.dtype()) ? word(0) : cast(shr(as_signed(lo), 31), kWord)};
}

// The words of a whole number are exact in its type.
Words from_float(const UOp& x) {
  const UOp y = bit_width(x.dtype()) < 32 ? cast(x, DType::Float32) : x;
  const UOp negative = less(y, 0.0), size = where(negative, sub(num(y, 0.0), y), y);
  const UOp hi = cast(mul(size, 0x1p-32), kWord);
  const Words w{cast(size + mul(cast(hi, y.dtype()), -0x1p32), kWord), hi};
  return choose(negative, negate(w), w);
}

// Rounded once: where the high word is not zero its leading bit is moved to the top, 32 bits are kept and the
// last of them says whether any was lost.
UOp to_single(const Words& a) {
  const UOp top = a.hi & alu(Op::Xor, {shr(a.hi, 1), word(0xffffffff)});  // rounds to no higher power of two
  const UOp n =
      sub(shr(bitcast(cast(top, DType::Float32), kWord), 23), 126);  // bits of the high word, 1 to 32
  const UOp back = bits_and(sub(word(32), n), 31), lost = shl(a.lo, back);
  const UOp kept = shl(a.hi, back) | shr(shr(a.lo, 1), bits_and(sub(n, 1), 31)) | as_word(differs(lost, 0));
  const UOp power = bitcast(shl(add(n, 127), 23), DType::Float32);
  return where(differs(a.hi, 0), cast(kept, DType::Float32) * power, cast(a.lo, DType::Float32));
}
UOp to_float(const Words& a, DType d, bool is_signed) {
  if (d == DType::Float64) return mul(cast(is_signed ? as_signed(a.hi) : a.hi, d), 0x1p32) + cast(a.lo, d);
  if (!is_signed) return cast(to_single(a), d);
  const UOp size = to_single(magnitude(a));
  return cast(where(sign_of(a), sub(num(size, 0.0), size), size), d);
}

// ---- ops

struct PairOp {
  Op op;
  Words (*apply)(const Words& a, const Words& b, bool is_signed);
};
constexpr PairOp kPairOps[] = {
    {Op::Add, [](const Words& a, const Words& b, bool) { return add(a, b); }},
    {Op::Sub, [](const Words& a, const Words& b, bool) { return sub(a, b); }},
    {Op::Mul, [](const Words& a, const Words& b, bool) { return mul(a, b); }},
    {Op::Shl, [](const Words& a, const Words& n, bool) { return shift_left(a, n); }},
    {Op::Shr, shift_right},
    {Op::CDiv, [](const Words& a, const Words& b, bool s) { return divide(a, b, s).quotient; }},
    {Op::CMod, [](const Words& a, const Words& b, bool s) { return divide(a, b, s).remainder; }},
    {Op::Max, [](const Words& a, const Words& b, bool s) { return choose(less_than(a, b, s), b, a); }},
    {Op::And, [](const Words& a, const Words& b, bool) { return each(a, b, Op::And); }},
    {Op::Or, [](const Words& a, const Words& b, bool) { return each(a, b, Op::Or); }},
    {Op::Xor, [](const Words& a, const Words& b, bool) { return each(a, b, Op::Xor); }},
};

class WordPairs {
 public:
  UOp run(const UOp& sink) {
    return done_.walk(toposort(sink), [&](const UOp& u) {
      if (!is_long(u.dtype()) || is_memory(u)) return visit(u);
      words_.emplace(u.node(), value(u));
      return u;
    });
  }

 private:
  const UOp& of(const UOp& u) const { return done_.of(u); }
  const Words& words(const UOp& u) const { return words_.at(u.node()); }
  // A coordinate of `memory`, which is an int32 where it is in bounds.
  UOp coordinate(const UOp& u, const UOp& memory) const {
    if (!is_long(u.dtype())) return of(u);
    if (memory.shape()[0].vmax() > kMostElements) refuse("an index beyond 2^31");
    return as_signed(words(u).lo);
  }

  static UOp memory(const UOp& u, const UOp& shape) {
    auto arg = std::make_shared<ParamArg>(u.param());
    arg->dtype = kWord;
    const SInt n = u.shape()[0] * 2;
    if (n.vmax() > kMostElements)
      user_runtime_error("a buffer of {} elements of {} is too large where 64-bit integers are emulated",
                         n.vmax() / 2, u.dtype());
    const UOp size = constant(shape.src(0).dtype(), n.value());
    return UOp::make(u.op(), kWord, {stack({&size, 1})}, ParamPtr(arg));
  }

  // The words of n contiguous elements lie two apart, as those of n scattered ones.
  Words address(const UOp& u) const {
    UOp at;
    if (u.op() == Op::Shrink) {
      std::vector<UOp> lanes;
      for (int64_t i = 0; i < u.shape()[0].value(); i++) lanes.push_back(constant(DType::Int32, i));
      at = cast(coordinate(u.src(1).src(0), u.src(0)), DType::Int32) + stack(lanes);
    } else {
      at = coordinate(u.src(1), u.src(0));
    }
    const UOp first = mul(at, 2);
    return {index(of(u.src(0)), first), index(of(u.src(0)), add(first, 1))};
  }

  Words converted(const UOp& u) const {
    const UOp& x = u.src(0);
    if (is_long(x.dtype())) return words(x);
    if (u.op() == Op::Bitcast) refuse("reading the bits of float64");
    return is_float(x.dtype()) ? from_float(of(x)) : extended(of(x));
  }

  // The op on each word of its 64-bit sources.
  Words per_word(const UOp& u) const {
    const auto with = [&](UOp Words::* part) {
      SmallVec<UOp, 8> srcs;
      for (const UOp& s : u.srcs()) {
        const auto pair = words_.find(s.node());
        srcs.push_back(pair == words_.end() ? of(s) : pair->second.*part);
      }
      return UOp::make(u.op(), DType::Void, srcs, u.arg());
    };
    return {with(&Words::lo), with(&Words::hi)};
  }

  Words value(const UOp& u) const {
    switch (u.op()) {
      case Op::Const: {
        const auto bits = static_cast<int64_t>(encode(u.value(), u.dtype()));
        return {word(bits & 0xffffffff), word(bits >> 32 & 0xffffffff)};
      }
      case Op::Index: return is_memory(u.src(0)) ? address(u) : per_word(u);
      case Op::Shrink: return address(u);
      case Op::Cast:
      case Op::Bitcast: return converted(u);
      case Op::Load:
      case Op::After:
      case Op::Where:
      case Op::Stack: return per_word(u);
      case Op::Neg: return negate(words(u.src(0)));
      case Op::Range: refuse("a loop of more than 2^31 rounds");
      case Op::Param: refuse("a variable that may leave int32");
      default: break;
    }
    CHECK(is_alu(u.op()) && u.n_srcs() == 2, "{} of 64-bit integers", u.op());
    return binary(u);
  }

  Words binary(const UOp& u) const {
    const Words& a = words(u.src(0));
    // Of a shift count the type may be another one.
    const Words b = is_long(u.src(1).dtype()) ? words(u.src(1)) : extended(of(u.src(1)));
    const bool is_signed = !is_unsigned(u.dtype());
    if ((u.op() == Op::CDiv || u.op() == Op::CMod) && fits_word(u.src(0)) && fits_word(u.src(1)))
      return {alu(u.op(), {a.lo, b.lo}), word(0)};
    for (const PairOp& p : kPairOps)
      if (p.op == u.op()) return p.apply(a, b, is_signed);
    CHECK(false, "{} of 64-bit integers", u.op());
  }
  static bool fits_word(const UOp& u) {
    return !u.bounds().lo.less(Scalar(0)) && !max_value(kWord).less(u.bounds().hi);
  }

  // Nodes that are no 64-bit value themselves.
  UOp visit(const UOp& u) const {
    switch (u.op()) {
      case Op::Param:
      case Op::Buffer: return is_long(u.dtype()) ? memory(u, u.src(0)) : u;
      case Op::Index:
        if (!is_memory(u.src(0))) break;
        return u.with_srcs(std::array{of(u.src(0)), coordinate(u.src(1), u.src(0))});
      case Op::Shrink: {
        const UOp at = coordinate(u.src(1).src(0), u.src(0));
        return u.with_srcs(std::array{of(u.src(0)), stack({&at, 1}), u.src(2)});
      }
      default: break;
    }
    if (u.n_srcs() == 0 || !words_.contains(u.src(0).node())) return done_.over_sources(u);
    const Words& a = words(u.src(0));
    switch (u.op()) {
      case Op::Store: {
        const Words stores = per_word(u);
        return UOp::make(Op::Group, DType::Void, {stores.lo, stores.hi});
      }
      case Op::Cast: return narrowed(a, u);
      case Op::Bitcast: refuse("reading the bits of float64");
      case Op::CmpLt: return less_than(a, words(u.src(1)), !is_unsigned(u.src(0).dtype()));
      case Op::CmpNe: return is_nonzero(each(a, words(u.src(1)), Op::Xor));
      case Op::CmpEq: return no(is_nonzero(each(a, words(u.src(1)), Op::Xor)));
      default: return done_.over_sources(u);
    }
  }

  static UOp narrowed(const Words& w, const UOp& u) {
    if (is_bool(u.dtype())) return is_nonzero(w);
    if (is_int(u.dtype())) return cast(w.lo, u.dtype());
    return to_float(w, u.dtype(), !is_unsigned(u.src(0).dtype()));
  }

  [[noreturn]] static void refuse(std::string_view what) {
    user_runtime_error("{} needs 64-bit integers, which this target lacks", what);
  }

  Rebuilt done_;
  std::unordered_map<const Node*, Words> words_;
};

}  // namespace

UOp decompose_long(const UOp& sink, const Target& target) {
  return target.supports_dtype(DType::Int64) ? sink : WordPairs().run(sink);
}

}  // namespace lathe
