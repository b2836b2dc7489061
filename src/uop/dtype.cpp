#include "uop/dtype.h"

#include "base/error.h"
#include "base/knobs.h"
#include "uop/number_formats.h"

#include <algorithm>
#include <array>
#include <bit>

namespace lathe {
namespace {

constexpr int kWeakBits = 800;

using enum DType;

constexpr int number(DType d) { return static_cast<int>(d); }
constexpr uint32_t bits(auto... types) { return (0u | ... | (uint32_t{1} << number(types))); }

struct DTypeRow {
  std::string_view name;
  std::string_view alias;
  int bits;
  uint32_t above;  // types directly above in the promotion lattice
};

constexpr DTypeRow kRows[kNumDTypes] = {
#define DTYPE(name, ...) {__VA_ARGS__},
#include "uop/dtypes.def"
};

constexpr const DTypeRow& row(DType d) { return kRows[number(d)]; }

using JoinTable = std::array<std::array<DType, kNumDTypes>, kNumDTypes>;

constexpr JoinTable make_join_table() {
  // above[d]: bit set of the types at or above d. Those above are later types, so one downward sweep closes
  // it.
  std::array<uint32_t, kNumDTypes> above{};
  for (int d = kNumDTypes - 1; d >= 0; d--) {
    above[d] = uint32_t{1} << d;
    if (kRows[d].above & (2 * above[d] - 1)) throw "a type above is not later";  // fails to compile
    for (int up = d + 1; up < kNumDTypes; up++)
      if (kRows[d].above >> up & 1) above[d] |= above[up];
  }
  JoinTable table{};
  for (int a = 0; a < kNumDTypes; a++)
    for (int b = 0; b < kNumDTypes; b++)
      table[a][b] = static_cast<DType>(std::countr_zero(above[a] & above[b]));
  return table;
}

constexpr JoinTable kJoin = make_join_table();

static_assert(kJoin[number(DType::Int64)][number(DType::UInt64)] == DType::WeakFloat);

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_text(std::string_view text, std::string_view lower_case) {
  return std::equal(text.begin(), text.end(), lower_case.begin(), lower_case.end(),
                    [](char a, char b) { return lower(a) == b; });
}

// The dtype a text knob names. `last` remembers the answer for the text it came from: texts of knobs live for
// ever, so their address is their identity.
struct KnobDType {
  const std::string* text = nullptr;
  DType dtype = DType::Void;
};

DType knob_dtype(Knob name, bool (*fits)(DType), std::string_view expected, KnobDType& last) {
  const std::string& text = knob_str(name);
  if (last.text == &text) return last.dtype;
  const std::optional<DType> d = parse_dtype(text);
  if (!d || is_weak(*d) || !fits(*d))
    value_error("{} must be {}, not \"{}\"", knob_name(name), expected, text);
  last = {&text, *d};
  return *d;
}

constexpr std::string_view kFloatExpected = "a float dtype such as \"float32\" or \"half\"";
constexpr std::string_view kIntExpected = "an integer dtype such as \"int32\" or \"int64\"";

}  // namespace

std::string_view dtype_name(DType d) { return row(d).alias.empty() ? row(d).name : row(d).alias; }

std::string_view dtype_full_name(DType d) { return row(d).name; }

std::optional<DType> parse_dtype(std::string_view text) {
  if (text.empty()) return std::nullopt;
  for (int d = 0; d < kNumDTypes; d++)
    if (same_text(text, kRows[d].name) || same_text(text, kRows[d].alias)) return static_cast<DType>(d);
  return std::nullopt;
}

int bit_width(DType d) { return row(d).bits; }

int64_t item_size(DType d) {
  if (is_weak(d))
    type_error("weak dtype {} has no size in memory; cast it to {} first", dtype_name(d),
               dtype_name(strong(d)));
  if (d == DType::Void) type_error("void has no size in memory");
  return (row(d).bits + 7) / 8;
}

FloatFormat float_format(DType d) {
  if (!is_float(d)) value_error("{} is not a floating point type", dtype_name(d));
  if (is_narrow_float(d)) return {float_layout(d).exponent_bits, float_layout(d).mantissa_bits};
  if (d == DType::Float32) return {8, 23};
  return {11, 52};  // weakfloat is held in double
}

DType join(DType a, DType b) { return kJoin[number(a)][number(b)]; }

DType strong(DType d) {
  if (d == DType::WeakInt) return default_int();
  if (d == DType::WeakFloat) return default_float();
  return d;
}

DType least_upper_float(DType d) {
  if (d == DType::WeakInt) return DType::WeakFloat;
  return is_float(d) ? d : join(d, default_float());
}

DType sum_dtype(DType d) {
  d = strong(d);
  if (is_unsigned(d)) return join(d, DType::UInt32);
  if (!is_float(d)) return join(d, DType::Int32);
  static thread_local KnobDType last;
  return join(d, knob_dtype(Knob::SUM_DTYPE, is_float, kFloatExpected, last));
}

bool casts_losslessly(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  if (to == DType::WeakInt) return is_int(from);
  if (from == DType::Void || is_weak(from) || is_weak(to)) return false;
  // By definition nothing but bool is lossless into fp8 and bfloat16, although small types would fit.
  if (is_int(to)) {
    if (!is_int(from) || bit_width(from) >= bit_width(to)) return false;
    return is_unsigned(from) || !is_unsigned(to);
  }
  if (to != DType::Float16 && to != DType::Float32 && to != DType::Float64) return false;
  const FloatFormat target = float_format(to);
  if (is_float(from)) {
    const FloatFormat source = float_format(from);
    return source.exponent_bits <= target.exponent_bits && source.mantissa_bits <= target.mantissa_bits;
  }
  const int value_bits = bit_width(from) - (is_unsigned(from) ? 0 : 1);
  return value_bits <= target.mantissa_bits + 1;
}

DType default_float() {
  static thread_local KnobDType last;
  return knob_dtype(Knob::DEFAULT_FLOAT, is_float, kFloatExpected, last);
}

DType default_int() {
  static thread_local KnobDType last;
  return knob_dtype(Knob::DEFAULT_INT, is_int, kIntExpected, last);
}

}  // namespace lathe
