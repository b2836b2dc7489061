#include "codegen/decompose/typed.h"
#include "codegen/passes.h"
#include "uop/number_formats.h"
#include "uop/rebuild.h"

#include <array>
#include <cmath>
#include <unordered_map>

namespace lathe {
namespace {

using namespace typed;

constexpr int64_t kInfinityBits = 0x7f800000;
constexpr int64_t kNanBits = 0x7fc00000;

UOp bits32(const UOp& x) { return bitcast(x, DType::UInt32); }

}  // namespace

UOp encode_expression(const UOp& x, DType d) {
  const FloatLayout& f = float_layout(d);
  const UOp bits = bits32(x), magnitude = bits_and(bits, 0x7fffffff);
  const UOp sign = bits_and(shr(bits, 32 - f.width()), int64_t{f.sign_bit()});
  const int dropped = 23 - f.mantissa_bits;
  // Ties go to the even neighbour: half a step less one, and one more where the last kept bit is set.
  const UOp odd = bits_and(shr(magnitude, dropped), 1);
  const UOp rounded = shr(add(magnitude, (int64_t{1} << (dropped - 1)) - 1) + odd, dropped);
  UOp code = rounded;
  if (f.bias != 127) {
    code = sub(rounded, int64_t{127 - f.bias} << f.mantissa_bits);
    // Below the normal range the last place is fixed: adding a number with that last place rounds to it.
    const double step = std::ldexp(1.0, 23 + 1 - f.bias - f.mantissa_bits);
    const UOp shifted = bits32(add(bitcast(magnitude, DType::Float32), step));
    const UOp subnormal = sub(shifted, bits32(constant(DType::Float32, step)));
    code = where(less(magnitude, int64_t{128 - f.bias} << 23), subnormal, code);
    code = at_most(code, int64_t{f.overflow});
  }
  if (f.infinity != f.overflow)
    code = where(less(magnitude, kInfinityBits), code, num(code, int64_t{f.infinity}));
  if (f.nan != f.infinity) code = where(more(magnitude, kInfinityBits), num(code, int64_t{f.nan}), code);
  if (f.finite_only) return where(differs(code, 0), code | sign, code);
  return code | sign;
}

UOp decode_expression(const UOp& code, DType d) {
  const FloatLayout& f = float_layout(d);
  const int dropped = 23 - f.mantissa_bits;
  if (f.bias == 127) return bitcast(shl(code, dropped), DType::Float32);
  const UOp magnitude = bits_and(code, int64_t{f.sign_bit()} - 1);
  const UOp sign = shl(bits_and(code, int64_t{f.sign_bit()}), 32 - f.width());
  // The bits of a float32 whose exponent is 127 - bias too small; subnormal codes are subnormal there too.
  const UOp moved = shl(magnitude, dropped);
  const UOp scaled = bits32(mul(bitcast(moved, DType::Float32), std::ldexp(1.0, 127 - f.bias)));
  UOp bits;
  if (f.finite_only)
    bits = where(differs(code, int64_t{f.nan}), scaled, num(code, kNanBits));
  else if (f.infinity == f.nan)
    bits = where(differs(magnitude, int64_t{f.nan}), scaled, num(code, kNanBits));
  else
    bits = where(less(magnitude, int64_t{f.infinity}), scaled, bits_or(moved, kInfinityBits));
  return bitcast(bits | sign, DType::Float32);
}

namespace {

// float64 to float32 so that rounding the result again to fewer bits is the same as rounding once: where
// digits are lost the last bit is set ("rounding to odd").
UOp single_rounded_to_odd(const UOp& x) {
  const UOp single = cast(x, DType::Float32);
  const UOp back = cast(single, DType::Float64);
  const auto absolute = [](const UOp& v) { return where(less(v, 0.0), sub(num(v, 0.0), v), v); };
  const UOp too_far = lt(absolute(x), absolute(back));
  const UOp bits = bits32(single);
  const UOp cut = where(too_far, sub(bits, 1), bits);
  return bitcast(where(ne(back, x), bits_or(cut, 1), bits), DType::Float32);
}

// Machines convert to int64: values from 2^63 on are right, negative ones wrap.
UOp uint64_from_float(const UOp& given) {
  const UOp x = bit_width(given.dtype()) < 32 ? cast(given, DType::Float32) : given;
  const UOp fits = less(x, 0x1p63);
  const UOp low = cast(cast(where(fits, x, add(x, -0x1p63)), DType::Int64), DType::UInt64);
  return where(fits, low, low ^ num(low, Scalar(int128{1} << 63)));
}

class Emulation {
 public:
  explicit Emulation(const Target& target) : target_(target) {}

  UOp run(const UOp& sink) {
    return done_.walk(toposort(sink), [&](const UOp& u) { return visit(u); });
  }

 private:
  bool is_emulated(DType d) const { return is_narrow_float(d) && !target_.supports_dtype(d); }
  static DType storage(DType d) { return bit_width(d) == 8 ? DType::UInt8 : DType::UInt16; }

  const UOp& of(const UOp& u) const { return done_.of(u); }

  // The stored form of a value: as it came from memory, or encoded.
  UOp stored(const UOp& u) const {
    const DType d = u.dtype();
    if (u.is_const()) return constant(storage(d), Scalar(encode(u.value(), d)));
    const auto it = stored_.find(u.node());
    return it != stored_.end() ? it->second : cast(encode_expression(of(u), d), storage(d));
  }
  UOp value_of(const UOp& u, const UOp& code) {
    stored_.emplace(u.node(), code);
    return decode_expression(cast(code, DType::UInt32), u.dtype());
  }
  static UOp rounded(const UOp& x, DType d) { return decode_expression(encode_expression(x, d), d); }

  UOp visit(const UOp& u) {
    if (!is_emulated(u.dtype())) return visit_user(u);
    const DType d = u.dtype();
    switch (u.op()) {
      case Op::Const: return constant(DType::Float32, cast_scalar(u.value(), d));
      case Op::Param:
      case Op::Buffer: {
        auto arg = std::make_shared<ParamArg>(u.param());
        arg->dtype = storage(d);
        return UOp::make(u.op(), arg->dtype, {of(u.src(0))}, ParamPtr(arg));
      }
      case Op::Load: {
        if (u.n_srcs() == 1) return value_of(u, UOp::make(Op::Load, {of(u.src(0))}));
        return value_of(u, UOp::make(Op::Load, {of(u.src(0)), stored(u.src(1)), of(u.src(2))}));
      }
      case Op::Bitcast: {
        const UOp& x = u.src(0);
        return value_of(u, bitcast(is_emulated(x.dtype()) ? stored(x) : of(x), storage(d)));
      }
      case Op::Cast: return visit_cast(u);
      default: break;
    }
    if (!is_alu(u.op())) return done_.over_sources(u);
    const bool is_exact =
        u.op() == Op::Where || u.op() == Op::Max || u.op() == Op::Neg || u.op() == Op::Trunc;
    return is_exact ? done_.over_sources(u) : rounded(done_.over_sources(u), d);
  }

  UOp visit_cast(const UOp& u) const {
    UOp x = of(u.src(0));
    const DType d = u.dtype();
    if (x.dtype() == DType::Float64 && is_narrow_float(d) && d != DType::BFloat16)
      x = single_rounded_to_odd(x);
    if (is_emulated(d)) return rounded(cast(x, DType::Float32), d);
    const bool splits = d == DType::UInt64 && is_float(x.dtype()) && target_.supports_dtype(d);
    return splits ? uint64_from_float(x) : cast(x, d);
  }

  // Nodes that have another type themselves.
  UOp visit_user(const UOp& u) const {
    if (u.op() == Op::Store && is_emulated(u.src(0).dtype())) {
      SmallVec<UOp, 3> srcs{of(u.src(0)), stored(u.src(1))};
      if (u.n_srcs() > 2) srcs.push_back(of(u.src(2)));
      return u.with_srcs({srcs.data(), srcs.size()});
    }
    if (u.op() == Op::Dot && is_emulated(u.src(1).dtype()))
      return u.with_srcs(std::array{of(u.src(0)), stored(u.src(1)), stored(u.src(2))});
    if (u.op() == Op::Bitcast && is_emulated(u.src(0).dtype())) return bitcast(stored(u.src(0)), u.dtype());
    if (u.op() == Op::Cast) return visit_cast(u);
    return done_.over_sources(u);
  }

  const Target& target_;
  Rebuilt done_;
  std::unordered_map<const Node*, UOp> stored_;  // by the node as it was
};

}  // namespace

UOp decompose_dtype(const UOp& sink, const Target& target) { return Emulation(target).run(sink); }

}  // namespace lathe
