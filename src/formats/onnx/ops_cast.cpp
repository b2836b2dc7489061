// Conversions between element types.
#include "formats/onnx/call.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace lathe::onnx {
namespace {

double parse_number(const std::string& text) {
  double out = 0;
  const char* first = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, problem] = std::from_chars(first, text.data() + text.size(), out);
  if (problem != std::errc() || end != text.data() + text.size()) value_error("`{}` is not a number", text);
  return out;
}

Tensor from_strings(const Strings& s, DType to) {
  std::vector<Scalar> out;
  for (const std::string& item : s.items) {
    int64_t whole = 0;
    const auto [end, problem] = std::from_chars(item.data(), item.data() + item.size(), whole);
    const bool is_whole = problem == std::errc() && end == item.data() + item.size();
    out.push_back(cast_scalar(is_whole ? Scalar(whole) : Scalar(parse_number(item)), to));
  }
  return from_elements(out, to_shape(s.shape), to);
}

Strings to_strings(const Tensor& t) {
  Strings out{sizes_of(t), {}};
  for (const Scalar& v : elements(t)) {
    if (v.is_float() && t.dtype() != DType::Float64)
      out.items.push_back(fmt::format("{}", static_cast<float>(v.as_double())));
    else if (v.is_float())
      out.items.push_back(fmt::format("{}", v.as_double()));
    else
      out.items.push_back(v.is_bool() ? (v.as_bool() ? "True" : "False") : v.to_string());
  }
  return out;
}

// To the nearest value of one sign bit, two of exponent, one of mantissa; halves go to the even mantissa, and
// what is too large becomes the largest.
Tensor to_e2m1(const Tensor& x) {
  const Tensor a = x.abs();
  const Tensor step = a.lt(2).where(Tensor(0.5), a.lt(4).where(Tensor(1.0), Tensor(2.0)));
  const Tensor rounded = a.div(step).round().mul(step).minimum(6.0);
  // There is no NaN to turn into.
  return x.isnan().where(Tensor(0.0), x.lt(0).where(rounded.neg(), rounded));
}

// Integers of `bits` bits in a wider type: the low bits count.
Tensor wrapped(const Tensor& x, int bits, bool is_signed) {
  const int64_t span = int64_t{1} << bits, half = is_signed ? span / 2 : 0;
  const Tensor wide = x.cast(DType::Int32);
  return wide.add(half).mod(span).sub(half);
}

Tensor to_fp8(const Tensor& x, DType to, bool saturate) {
  const double limit = max_value(to).is_float() && std::isfinite(max_value(to).as_double())
                           ? max_value(to).as_double()
                       : to == DType::Fp8E4M3     ? 448
                       : to == DType::Fp8E4M3Fnuz ? 240
                                                  : 57344;
  const Tensor wide = x.cast(DType::Float32);
  if (saturate) return wide.clamp(Tensor(-limit), Tensor(limit)).cast(to);
  // Halfway to the next value, were there one: ties go to the even neighbour, which is the one without.
  const int mantissa = float_format(to).mantissa_bits;
  const double edge = limit + std::ldexp(1.0, std::ilogb(limit) - mantissa - 1);
  const double beyond = to == DType::Fp8E5M2 ? std::numeric_limits<double>::infinity()
                                             : std::numeric_limits<double>::quiet_NaN();
  const Tensor inside = wide.clamp(Tensor(-limit), Tensor(limit));
  const Tensor outside = wide.lt(0).where(Tensor(-beyond), Tensor(beyond));
  const bool edge_is_out = to == DType::Fp8E4M3 ? false : true;
  const Tensor is_out = edge_is_out ? wide.abs().ge(edge) : wide.abs().gt(edge);
  return is_out.where(outside, inside).cast(to);
}

// To a power of two: the exponent of a float32, and one more where the mantissa rounds up.
Tensor to_e8m0(const Tensor& x, const std::string& mode) {
  const Tensor bits = x.cast(DType::Float32).bitcast(DType::Int32);
  const Tensor exponent = bits.rshift(Tensor(23)).bitwise_and(255),
               mantissa = bits.bitwise_and((1 << 23) - 1);
  const int from = mode == "up" ? 1 : mode == "nearest" ? 1 << 22 : 1 << 23;
  const Tensor rounded = exponent.add(mantissa.ge(from).cast(DType::Int32)).minimum(254);
  // Exponent 0 stands for 2^-127, which is below the normal numbers of float32.
  const Tensor power = rounded.eq(0).where(Tensor(1 << 22), rounded.lshift(Tensor(23)));
  return exponent.eq(255).where(Tensor(std::numeric_limits<double>::quiet_NaN()),
                                power.cast(DType::Int32).bitcast(DType::Float32));
}

ElementType wanted(const Call& c) { return static_cast<ElementType>(c.attr_int("to")); }

}  // namespace

Value cast_value(const Value& v, ElementType to, bool saturate, const std::string& round_mode) {
  const ElementInfo* info = &known_element(to);
  if (to == v.type()) return v;
  if (to == ElementType::String) return to_strings(v.tensor());
  if (v.is_strings()) return {from_strings(v.strings(), info->dtype), to};
  const Tensor& x = v.tensor();
  if (is_fp8(info->dtype)) return {to_fp8(x, info->dtype, saturate), to};
  switch (to) {
    case ElementType::Float8E8M0: return {to_e8m0(x, round_mode), to};
    case ElementType::Float4E2M1: return {to_e2m1(x.cast(DType::Float32)), to};
    case ElementType::Int4:
    case ElementType::Int2: return {wrapped(x, info->bits, true).cast(info->dtype), to};
    case ElementType::UInt4:
    case ElementType::UInt2: return {wrapped(x, info->bits, false).cast(info->dtype), to};
    default: return {x.cast(info->dtype), to};
  }
}

namespace {
Value cast_as_asked(const Call& c, ElementType to) {
  return cast_value(c.value(0), to, c.attr_flag("saturate", true), c.attr_text("round_mode", "up"));
}
constexpr OpRow kRows[] = {
    {"Cast", [](const Call& c) { return cast_as_asked(c, wanted(c)); }},
    {"CastLike", [](const Call& c) { return cast_as_asked(c, c.type(1)); }},
    {"BitCast", [](const Call& c) { return Value(c[0].bitcast(known_element(wanted(c)).dtype), wanted(c)); }},
};

}  // namespace

std::span<const OpRow> cast_ops() { return kRows; }

}  // namespace lathe::onnx
