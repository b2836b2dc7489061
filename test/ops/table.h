#pragma once

// The table of ops: a row says what a method of Tensor computes, on which inputs, and how close it must come.

#include "ops/array.h"
#include "tensor/tensor.h"

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lathe::ops {

using T = const Tensor&;
using A = const Array&;
using I = const Index&;
using Tensors = std::vector<Tensor>;

// What an op gives: one tensor or several.
struct Outputs {
  Outputs(Tensor t) : list{std::move(t)} {}                   // NOLINT(google-explicit-constructor)
  Outputs(Tensors list) : list(std::move(list)) {}            // NOLINT(google-explicit-constructor)
  Outputs(ValuesAndIndices v) : list{v.values, v.indices} {}  // NOLINT(google-explicit-constructor)
  Tensors list;
};
struct Expected {
  Expected(Array a) : list{std::move(a)} {}         // NOLINT(google-explicit-constructor)
  Expected(Arrays list) : list(std::move(list)) {}  // NOLINT(google-explicit-constructor)
  Arrays list;
};

// How the elements of an input lie in memory. Whatever the layout, the values are the same.
enum class Layout { Plain, Permuted, Strided, Padded, Flipped, Computed };
inline constexpr int kNumLayouts = 6;

// Elements are drawn from [low, high]: integers, or for floats odd multiples of 1/32, which are exact in
// every float type, never 0, an integer or a half (where functions have kinks), and all different as long as
// there are enough of them.
struct Input {
  Index shape;
  double low = -2, high = 2;
  std::optional<DType> dtype;  // of the row's variant unless given
  bool differentiable = true;
  std::vector<double> values;  // instead of a draw
  bool whole = false;          // integers, whatever the dtype

  Input range(double lo, double hi) const;
  Input of(DType d) const;
  Input without_gradient() const;
  Input with(std::vector<double> v) const;
  Input integers() const;
};
Input in(Index shape);                       // of the row's dtype
Input ints(Index shape, int low, int high);  // int32 in [low, high]
Input bools(Index shape);
Input given(Index shape, std::vector<double> v);  // of the row's dtype

// Why a row does not check its gradient.
inline constexpr const char* kNotSmooth = "differences straddle a corner or a jump";
inline constexpr const char* kNotFinite = "infinities and NaN have no differences";
inline constexpr const char* kCheckedElsewhere = "another row of the method checks it on fewer elements";
inline constexpr const char* kRounded = "differences are below the rounding of the result";
inline constexpr const char* kGradientIsTheOutput = "what comes out is a gradient";

// The dtype of a result.
struct Result {
  enum class Kind { Same, Float, Sum, Fixed };
  Result(Kind kind) : kind(kind) {}                 // NOLINT(google-explicit-constructor)
  Result(DType d) : kind(Kind::Fixed), dtype(d) {}  // NOLINT(google-explicit-constructor)
  DType of(DType variant) const;
  Kind kind;
  DType dtype = DType::Void;
};

struct Row {
  // A method of Tensor or several, separated by commas, with ": case" behind where a method has several rows.
  std::string name;
  std::vector<Input> inputs;
  std::function<Outputs(const Tensors&)> op;
  std::function<Expected(const Arrays&)> reference;

  // Options. Tolerances are in units of the result's epsilon, times max(1, |expected|), plus an absolute
  // part for methods that are approximations.
  std::vector<DType> dtypes = {DType::Float32};        // variants
  std::vector<Result> results = {Result::Kind::Same};  // the last one stands for all further outputs
  double ulps = 4;
  double absolute = 0;
  std::string why_no_gradient;  // why the gradient is not checked; empty where it is
  double gradient_tolerance = 1e-5;
  bool every_device = false;  // gradient on all devices, not only on the default one
  bool any_layout = true;
  std::string known_failure;  // why the row fails at present: reported, and a pass is an error

  template <class F, class G>
  Row(std::string name, std::vector<Input> inputs, F op, G reference)
      : name(std::move(name)),
        inputs(std::move(inputs)),
        op(apply<Outputs, Tensor>(std::move(op))),
        reference(apply<Expected, Array>(std::move(reference))) {}

  Row&& on(std::vector<DType> d) &&;
  Row&& gives(Result r) &&;
  Row&& gives(std::vector<Result> r) &&;
  Row&& within(double ulps, double absolute = 0) &&;
  Row&& exact() &&;
  Row&& no_gradient(std::string why) &&;
  Row&& gradient_within(double tolerance) &&;
  Row&& everywhere() &&;
  Row&& plain_only() &&;
  Row&& fails(std::string why) &&;

  std::vector<std::string> methods() const;
  // Whether the gradient is compared with differences of the reference: in float32, where a float comes out.
  bool checks_gradient() const;

 private:
  // f of the first n elements of a list, n its number of parameters.
  template <class R, class E, class F>
  static std::function<R(const std::vector<E>&)> apply(F f) {
    return [f = std::move(f)](const std::vector<E>& v) -> R {
      if constexpr (std::is_invocable_v<F, const std::vector<E>&>)
        return f(v);
      else if constexpr (std::is_invocable_v<F>)
        return f();
      else if constexpr (std::is_invocable_v<F, const E&>)
        return f(v.at(0));
      else if constexpr (std::is_invocable_v<F, const E&, const E&>)
        return f(v.at(0), v.at(1));
      else if constexpr (std::is_invocable_v<F, const E&, const E&, const E&>)
        return f(v.at(0), v.at(1), v.at(2));
      else
        return f(v.at(0), v.at(1), v.at(2), v.at(3));
    };
  }
};

inline const std::vector<DType> kFloats = {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64};
inline const std::vector<DType> kInts = {DType::Int32,  DType::Int8,   DType::UInt8, DType::Int16,
                                         DType::UInt16, DType::UInt32, DType::Int64, DType::UInt64};
inline const std::vector<DType> kNumbers = {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64,
                                            DType::Int32,   DType::Int8,    DType::UInt8,    DType::Int64};

// The devices on which rows run: the oracle INTERP first, then every other one that computes.
const std::vector<std::string>& devices();

// What is wrong with a row, one line each; empty when nothing is.
std::vector<std::string> problems(const Row& row);

using Rows = std::vector<Row>;
// Runs all rows of a table, or those whose name holds $LATHE_OPS_ROW.
void run(const Rows& rows);

// The rows of all tables of the program.
Rows all_rows();
struct RegisteredTable {
  explicit RegisteredTable(Rows (*make)());
};

// A table, made by a function, as one test case.
#define TABLE_TEST_CASE(title, make)                                            \
  static const lathe::ops::RegisteredTable DOCTEST_ANONYMOUS(ops_table_)(make); \
  TEST_CASE(title) { lathe::ops::run(make()); }

}  // namespace lathe::ops
