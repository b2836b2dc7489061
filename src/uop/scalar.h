// One compile-time value: a bool, an exact integer, a double or Invalid.
#pragma once
#include "base/hash.h"
#include "uop/dtype.h"

#include <cstdint>
#include <string>

namespace lathe {

__extension__ using int128 = __int128;

// Integers are exact in 128 bits; operations that could leave that range fail loudly instead of wrapping.
// Floats are keyed by bit pattern with one canonical NaN; -0.0 and 0.0 differ.
class Scalar {
 public:
  enum class Kind : uint8_t { Bool, Int, Float, Invalid };

  Scalar() : Scalar(false) {}
  Scalar(bool v) : kind_(Kind::Bool), lo_(v), hi_(0) {}   // NOLINT(google-explicit-constructor)
  Scalar(int v) : Scalar(static_cast<int128>(v)) {}       // NOLINT(google-explicit-constructor)
  Scalar(int64_t v) : Scalar(static_cast<int128>(v)) {}   // NOLINT(google-explicit-constructor)
  Scalar(uint64_t v) : Scalar(static_cast<int128>(v)) {}  // NOLINT(google-explicit-constructor)
  Scalar(int128 v)                                        // NOLINT(google-explicit-constructor)
      : kind_(Kind::Int), lo_(static_cast<uint64_t>(v)), hi_(static_cast<int64_t>(v >> 64)) {}
  Scalar(double v);  // NOLINT(google-explicit-constructor)
  static Scalar invalid();

  Kind kind() const { return kind_; }
  bool is_bool() const { return kind_ == Kind::Bool; }
  bool is_int() const { return kind_ == Kind::Int; }
  bool is_float() const { return kind_ == Kind::Float; }
  bool is_invalid() const { return kind_ == Kind::Invalid; }

  bool as_bool() const;      // non-zero; NaN is true
  int128 as_int() const;     // bool and int exactly; floats truncate towards zero (saturating); Invalid fails
  double as_double() const;  // nearest double
  int64_t as_i64() const;    // as_int, fails when it does not fit

  // Same kind and same bits. Numeric comparison is `equals`.
  bool operator==(const Scalar& o) const { return kind_ == o.kind_ && lo_ == o.lo_ && hi_ == o.hi_; }
  // Numeric equality across kinds: 0 == 0.0 == false; a NaN equals NaN; Invalid equals Invalid only.
  bool equals(const Scalar& o) const;
  // Numeric order of bool, int and float values (exact between ints and doubles); NaN is unordered.
  bool less(const Scalar& o) const;

  Hash128 hash() const;
  // "3", "-1.5", "inf", "nan", "true", "Invalid": shortest text that parses back to the same value; floats
  // always carry a point, an exponent or a name.
  std::string to_string() const;

 private:
  Kind kind_;
  uint64_t lo_;
  int64_t hi_;
};

// Smallest and largest value of a type (-inf/inf for floats; weakint: the int128 range stands for its 800
// bits).
Scalar min_value(DType d);
Scalar max_value(DType d);
// The kind of a bare literal: bool → Bool, int → WeakInt, float → WeakFloat, Invalid → Bool.
DType weak_dtype(const Scalar& v);
// `v` on the grid of `d`: ints to float types round to nearest even, floats to ints truncate, ints wrap; weak
// types only change the kind. Invalid stays.
Scalar cast_scalar(const Scalar& v, DType d);
// Reinterpret the bits of a value of type `from`; both types have the same width.
Scalar bitcast_scalar(const Scalar& v, DType from, DType to);

// Bit patterns of the storage formats (core.md §17): round to nearest even, saturation and NaN rules per
// format.
uint64_t encode(const Scalar& v, DType d);  // low bits hold the storage pattern
Scalar decode(uint64_t bits, DType d);

}  // namespace lathe
