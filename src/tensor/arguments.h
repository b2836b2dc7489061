// What the methods of Tensor take besides tensors: lists of numbers, axes, bounds, indices and options.
#pragma once
#include "uop/uop.h"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lathe {

struct None {};
inline constexpr None none;  // an open bound of a Slice, an untouched axis
struct NewAxis {};
inline constexpr NewAxis newaxis;  // in an index: a new axis of size 1
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;  // in an index: all axes not named

// A list of numbers; one number is a list of one.
class Ints : public SmallVec<int64_t, 6> {
 public:
  Ints() = default;
  Ints(int64_t v) : SmallVec{v} {}                    // NOLINT(google-explicit-constructor)
  Ints(int v) : SmallVec{static_cast<int64_t>(v)} {}  // NOLINT(google-explicit-constructor)
  Ints(std::initializer_list<int64_t> v) : SmallVec(v) {}
  Ints(const std::vector<int64_t>& v)
      : SmallVec(v.begin(), v.end()) {}  // NOLINT(google-explicit-constructor)
};

// The axes of a reduction: one, a list, or all of them (the default). Negative axes count from the end.
class Axes {
 public:
  Axes() : all_(true) {}
  Axes(int axis) : list_{axis} {}  // NOLINT(google-explicit-constructor)
  Axes(std::initializer_list<int64_t> list) : list_(list) {}
  Axes(Ints list) : list_(std::move(list)) {}  // NOLINT(google-explicit-constructor)
  bool all() const { return all_; }
  const Ints& list() const { return list_; }

 private:
  bool all_ = false;
  Ints list_;
};

// Two numbers of an axis (bounds of a shrink, padding before and after), or none for an axis left alone.
struct AxisPair {
  AxisPair(None) {}  // NOLINT(google-explicit-constructor)
  AxisPair(SInt first, SInt second) : first(std::move(first)), second(std::move(second)), used(true) {}
  SInt first, second;
  bool used = false;
};
using AxisPairs = std::vector<AxisPair>;

// Padding: a pair for every axis, or a flat list that starts with the last axis: (before, after, before,
// after, …).
struct Padding {
  Padding(std::initializer_list<AxisPair> axes) : axes(axes) {}
  Padding(std::initializer_list<int64_t> flat) : flat(flat), is_flat(true) {}
  Padding(AxisPairs axes) : axes(std::move(axes)) {}            // NOLINT(google-explicit-constructor)
  Padding(Ints flat) : flat(std::move(flat)), is_flat(true) {}  // NOLINT(google-explicit-constructor)
  AxisPairs axes;
  Ints flat;
  bool is_flat = false;
};
enum class PadMode : uint8_t { Constant, Circular, Reflect, Replicate };

// A bound of a Slice.
struct Bound {
  Bound(None) {}                               // NOLINT(google-explicit-constructor)
  Bound(int v) : value(SInt(v)) {}             // NOLINT(google-explicit-constructor)
  Bound(int64_t v) : value(SInt(v)) {}         // NOLINT(google-explicit-constructor)
  Bound(SInt v) : value(std::move(v)) {}       // NOLINT(google-explicit-constructor)
  Bound(UOp v) : value(SInt(std::move(v))) {}  // NOLINT(google-explicit-constructor)
  std::optional<SInt> value;
};

// start:stop:step with the meaning it has for lists of the host language of NumPy: negative bounds count from
// the end, bounds are clamped, a negative step runs backwards.
struct Slice {
  Bound start = none;
  Bound stop = none;
  int64_t step = 1;
};

// Where storage and element type of a new tensor come from; what is left out is the default.
struct TensorOptions {
  std::optional<DType> dtype = std::nullopt;
  std::string device = {};
};

// Small data in the source text: `{{1, 2}, {3, 4}}`.
class NestedData {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  NestedData(T v);  // NOLINT(google-explicit-constructor)
  NestedData(std::initializer_list<NestedData> items) : items_(items), is_list_(true) {}
  bool is_list() const { return is_list_; }
  const Scalar& scalar() const { return scalar_; }
  const std::vector<NestedData>& items() const { return items_; }
  std::string to_string() const;

 private:
  Scalar scalar_;
  std::vector<NestedData> items_;
  bool is_list_ = false;
};

// A number of the host as a Scalar of its kind.
template <class T>
  requires std::is_arithmetic_v<T>
Scalar to_scalar(T v) {
  if constexpr (std::is_same_v<T, bool>)
    return Scalar(v);
  else if constexpr (std::is_floating_point_v<T>)
    return Scalar(static_cast<double>(v));
  else if constexpr (std::is_signed_v<T>)
    return Scalar(static_cast<int64_t>(v));
  else
    return Scalar(static_cast<uint64_t>(v));
}
template <class T>
  requires std::is_arithmetic_v<T>
NestedData::NestedData(T v) : scalar_(to_scalar(v)) {}

// Stride, padding and dilation: one number for all spatial axes or one for each; padding may also give before
// and after for each axis, last axis first.
struct ConvOptions {
  Ints stride = 1;
  Ints padding = 0;
  Ints dilation = 1;
  int64_t groups = 1;
  std::optional<DType> dtype = std::nullopt;  // of the accumulation and the result
};

struct ConvTransposeOptions {
  Ints stride = 1;
  Ints padding = 0;
  Ints dilation = 1;
  int64_t groups = 1;
  Ints output_padding = 0;
};

struct PoolOptions {
  std::optional<Ints> stride = std::nullopt;  // the kernel's size unless given
  Ints padding = 0;
  Ints dilation = 1;
  bool ceil_mode = false;
  bool count_include_pad = true;  // average pooling: padding counts as elements
};

enum class Reduction : uint8_t { None, Sum, Mean };
enum class ScatterReduction : uint8_t { Sum, Prod, Mean, Max, Min };
// Linear between the two nearest elements; Nearest takes the element at floor(i * scale), NearestExact the
// one whose centre is nearest.
enum class Interpolation : uint8_t { Linear, Nearest, NearestExact };
// Sizes of axes by name.
using AxisSizes = std::map<std::string, int64_t>;

struct CrossEntropyOptions {
  Reduction reduction = Reduction::Mean;
  double label_smoothing = 0;
  std::optional<int64_t> ignore_index = std::nullopt;  // targets of this class have no loss and do not count
};

struct AttentionOptions {
  double dropout_p = 0;
  bool is_causal = false;
  bool enable_gqa = false;  // repeat key and value heads (axis -3) to the number of query heads
};

// C++ types that data may have, and the element type each stands for.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::Bool;
  else if constexpr (std::is_same_v<T, float>)
    return DType::Float32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::Float64;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? DType::Int8 : DType::UInt8;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
    return std::is_signed_v<T> ? DType::Int16 : DType::UInt16;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 4)
    return std::is_signed_v<T> ? DType::Int32 : DType::UInt32;
  else {
    static_assert(std::is_integral_v<T> && sizeof(T) == 8, "no element type for this C++ type");
    return std::is_signed_v<T> ? DType::Int64 : DType::UInt64;
  }
}

}  // namespace lathe
