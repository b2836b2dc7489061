// The lazy tensor: a handle to a graph node. Operations build graph; `realize` and the readers run it.
#pragma once
#include "tensor/arguments.h"
#include "uop/uop.h"

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lathe {

struct TensorState;
class TensorIndex;
enum class Running : uint8_t;
struct ValuesAndIndices;
struct QR;
struct SVD;

// Copies of a Tensor are the same tensor: what assign, += or realize do to one, all see. Shapes may hold
// symbolic sizes. Scalars convert to weak constants, which take the dtype of what they meet. Unless said
// otherwise a method is lazy and returns a new tensor, negative axes count from the end, and operands of
// different dtype meet at their join. Errors are UserErrors of the kind named in the text.
class Tensor {
 public:
  Tensor();  // the constant 0.0
  template <class E>
    requires std::is_arithmetic_v<E>
  Tensor(E v) : Tensor(to_scalar(v)) {}  // NOLINT(google-explicit-constructor)
  explicit Tensor(const Scalar& v);
  Tensor(const Scalar& v, DType dtype);
  explicit Tensor(UOp uop);

  // ---- the object (realize.cpp) ----
  const UOp& uop() const;
  const Shape& shape() const { return uop().shape(); }
  SInt size(int64_t dim) const;
  int64_t ndim() const { return uop().ndim(); }
  DType dtype() const { return uop().dtype(); }
  const std::string& device() const { return uop().device(); }  // "" for constants
  SInt numel() const { return lathe::prod(shape()); }
  Shape max_shape() const;  // symbolic sizes at their largest
  int64_t max_numel() const { return numel().vmax(); }
  int64_t element_size() const;  // RuntimeError for weak dtypes
  SInt nbytes() const { return numel() * SInt(element_size()); }
  int64_t len() const;  // first axis; TypeError for rank 0
  bool is_floating_point() const { return is_float(dtype()); }
  bool is_same(const Tensor& other) const { return state_ == other.state_; }
  Tensor& set_param(bool flag = true);
  bool is_param() const;
  std::string to_string() const;

  // Runs what is needed so that the value is in memory. Constants and weak values stay as they are.
  const Tensor& realize() const;
  static void realize(std::span<const Tensor> tensors);
  bool is_realized() const;
  // The elements in row-major order, converted to E (weak values are read at the default dtype). Realises.
  template <class E>
  std::vector<E> to_vector() const;
  template <class E>
  E item() const;  // ValueError unless there is exactly one element
  std::vector<std::byte> bytes() const;

  // This tensor's memory takes the value of x, in place and lazily; views of the memory see it, expressions
  // made before keep the old value. x broadcasts to the shape and must have the dtype (RuntimeError "assign
  // dtype mismatch A != B"). On a view it writes the part that the view shows. Where this tensor is an
  // expression without memory it takes x as its value; a temporary of that kind would lose it, so that is a
  // RuntimeError.
  Tensor& assign(const Tensor& x) &;
  Tensor assign(const Tensor& x) &&;
  // Takes x's node. ValueError unless the shapes agree.
  Tensor& replace(const Tensor& x);
  Tensor clone(const std::string& device = "") const;  // separate memory
  Tensor detach() const;
  Tensor contiguous() const;
  Tensor contiguous_backward() const;
  Tensor to(const std::string& device) const;
  Tensor& move_to(const std::string& device);
  // Over several devices (docs/multi_device.md): equal pieces along `axis`, or all of it on each. Constants
  // stay without a device; with one device it is `to`. RuntimeError "multi axis uneven" where the axis does
  // not split evenly, and for a tensor that is on several devices already.
  Tensor shard(const std::vector<std::string>& devices, std::optional<int64_t> axis = std::nullopt) const;
  Tensor& move_to_shards(const std::vector<std::string>& devices, std::optional<int64_t> axis = std::nullopt);
  // Where and along what `other` is; pieces along another axis are exchanged.
  Tensor shard_like(const Tensor& other) const;
  std::optional<int> shard_axis() const;  // nothing where each device has all of it

  // ---- gradient (autograd.cpp) ----
  // Adds the gradient of this scalar (or of sum(this * gradient)) to `grad` of every live float tensor below
  // it.
  const Tensor& backward(const std::optional<Tensor>& gradient = std::nullopt) const;
  std::vector<Tensor> gradient(const std::vector<Tensor>& targets,
                               const std::optional<Tensor>& gradient = std::nullopt) const;
  std::optional<Tensor> grad() const;
  void set_grad(const std::optional<Tensor>& grad);

  // ---- creation (create.cpp, random.cpp) ----
  template <class E>
  static Tensor from(const std::vector<E>& data, const TensorOptions& options = {}) {
    return from(data, {SInt(static_cast<int64_t>(data.size()))}, options);
  }
  template <class E>
  static Tensor from(const std::vector<E>& data, const Shape& shape, const TensorOptions& options = {});
  static Tensor from(const NestedData& data, const TensorOptions& options = {});
  static Tensor from_bytes(std::span<const std::byte> data, const Shape& shape, DType dtype,
                           const std::string& device = "");
  // `memory` itself, in row-major order, not copied: it has to outlive all that reads it, as it does where
  // `owner` holds it. ValueError on devices whose memory the host does not see.
  static Tensor from_blob(void* memory, const Shape& shape, DType dtype, const std::string& device = "",
                          std::shared_ptr<const void> owner = nullptr);
  // What is in a file, on the device "DISK:PATH": reads go to the mapped file, and what is assigned is in it
  // when the call returns. RuntimeError where the file cannot be opened for both, ValueError where its size
  // is no multiple of the dtype's. `empty` and `clone` on such a device make the file and let it grow.
  static Tensor from_file(const std::string& path, DType dtype = DType::UInt8);
  static Tensor empty(const Shape& shape, const TensorOptions& options = {});
  // Scratch: what is in it before something is written is not specified.
  static Tensor invalids(const Shape& shape, const TensorOptions& options = {}) {
    return empty(shape, options);
  }
  // In memory of its own; `constant_of` is the same value without memory.
  static Tensor full(const Shape& shape, const Scalar& value, const TensorOptions& options = {});
  static Tensor constant_of(const Shape& shape, const Scalar& value,
                            std::optional<DType> dtype = std::nullopt);
  static Tensor zeros(const Shape& shape, const TensorOptions& options = {}) {
    return full(shape, 0.0, options);
  }
  static Tensor ones(const Shape& shape, const TensorOptions& options = {}) {
    return full(shape, 1.0, options);
  }
  Tensor empty_like(const TensorOptions& options = {}) const;
  Tensor full_like(const Scalar& value, const TensorOptions& options = {}) const;
  Tensor zeros_like(const TensorOptions& options = {}) const { return full_like(0, options); }
  Tensor ones_like(const TensorOptions& options = {}) const { return full_like(1, options); }
  Tensor const_like(const Scalar& value) const;  // this shape and dtype, no memory
  // [start, stop) by step; the dtype is the default float if any argument is a float, else the default int or
  // int64.
  static Tensor arange(const Scalar& stop, const TensorOptions& options = {}) {
    return arange(0, stop, 1, options);
  }
  static Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1,
                       const TensorOptions& options = {});
  static Tensor linspace(const Scalar& start, const Scalar& stop, int64_t steps,
                         const TensorOptions& options = {});
  static Tensor eye(int64_t n, std::optional<int64_t> m = std::nullopt, const TensorOptions& options = {});

  // Counter-based: the same seed gives the same numbers on every device.
  static void manual_seed(uint32_t seed = 0);
  static Tensor rand(const Shape& shape, const TensorOptions& options = {});
  static Tensor randn(const Shape& shape, const TensorOptions& options = {});
  static Tensor uniform(const Shape& shape, double low = 0, double high = 1,
                        const TensorOptions& options = {});
  static Tensor normal(const Shape& shape, double mean = 0, double std = 1,
                       const TensorOptions& options = {});
  static Tensor randint(const Shape& shape, int64_t low = 0, int64_t high = 10,
                        const TensorOptions& options = {});
  static Tensor scaled_uniform(const Shape& shape, const TensorOptions& options = {});
  static Tensor glorot_uniform(const Shape& shape, const TensorOptions& options = {});
  static Tensor kaiming_uniform(const Shape& shape, double a = 0.01, const TensorOptions& options = {});
  static Tensor kaiming_normal(const Shape& shape, double a = 0.01, const TensorOptions& options = {});
  static Tensor randperm(int64_t n, const TensorOptions& options = {});  // 0 … n-1 in any order; int32
  // Positions (num_samples) or (rows, num_samples), int32, drawn with the probabilities that this vector or
  // the rows of this matrix are weights of. ValueError for other ranks, and for more samples than weights
  // without replacement.
  Tensor multinomial(int64_t num_samples = 1, bool replacement = false) const;
  Tensor rand_like(const TensorOptions& options = {}) const;
  Tensor randn_like(const TensorOptions& options = {}) const;

  // ---- dtype ----
  Tensor cast(DType dtype) const;
  Tensor bitcast(DType dtype) const;  // the last axis scales by the ratio of sizes
  Tensor to_float() const { return cast(DType::Float32); }
  Tensor half() const { return cast(DType::Float16); }
  Tensor bfloat16() const { return cast(DType::BFloat16); }
  Tensor to_double() const { return cast(DType::Float64); }
  Tensor to_int() const { return cast(DType::Int32); }
  Tensor to_long() const { return cast(DType::Int64); }
  Tensor to_short() const { return cast(DType::Int16); }
  Tensor to_bool() const { return cast(DType::Bool); }

  // ---- movement (movement.cpp, pad.cpp, join.cpp, rearrange.cpp) ----
  Tensor reshape(const Shape& shape) const;  // one -1 is inferred
  Tensor view(const Shape& shape) const { return reshape(shape); }
  Tensor expand(const Shape& shape) const;  // -1 keeps an axis; may add leading axes
  Tensor permute(const Ints& order) const;
  Tensor transpose(int64_t dim0 = 1, int64_t dim1 = 0) const;
  Tensor T() const { return transpose(); }
  Tensor flip(const Ints& axes) const;
  Tensor shrink(const AxisPairs& bounds) const;
  Tensor shrink_to(const Shape& shape) const;  // the first elements of each axis; -1 keeps
  Tensor pad(const Padding& padding, PadMode mode = PadMode::Constant, const Scalar& value = 0) const;
  Tensor pad_to(const Shape& shape, const Scalar& value = 0) const;  // after the end; -1 keeps
  Tensor squeeze() const;
  Tensor squeeze(int64_t dim) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  Tensor unflatten(int64_t dim, const Shape& sizes) const;
  // "b (h w) c -> b c h w" with names of axes, groups in parentheses, `...` and 1; `sizes` gives what the
  // shape leaves open. ValueError for a formula that is wrong or does not fit.
  Tensor rearrange(const std::string& formula, const AxisSizes& sizes = {}) const;
  Tensor repeat(const Ints& times) const;
  Tensor repeat_interleave(int64_t times, std::optional<int64_t> dim = std::nullopt) const;
  Tensor roll(const Ints& shifts, const std::optional<Ints>& dims = std::nullopt) const;
  Tensor diag() const;
  Tensor diagonal(int64_t offset = 0, int64_t dim0 = 0, int64_t dim1 = 1) const;
  Tensor triu(int64_t diagonal = 0) const;
  Tensor tril(int64_t diagonal = 0) const;
  Tensor unfold(int64_t dim, int64_t size, int64_t step) const;
  // Sliding windows over the last axes: those axes become window counts, and window positions follow as new
  // last axes.
  Tensor pool(const Ints& kernel, const Ints& stride = 1, const Ints& dilation = 1) const;
  static Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0);
  static Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0);
  std::vector<Tensor> split(const Ints& sizes, int64_t dim = 0) const;  // one number: pieces of that size
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0) const;
  static std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, bool xy = false);

  // ---- indexing (index.cpp) ----
  // `t.at(1, Slice{2, none, -1}, ellipsis, newaxis, tensor)`; IndexError for a number that is no position of
  // its axis. Integer tensors and lists gather: negative elements count from the end of the axis, and where
  // one is outside nothing is read and the result is 0.
  template <class... I>
  Tensor at(const I&... indices) const;
  Tensor index(const std::vector<TensorIndex>& indices) const;
  // Writes `value` (broadcast) into the selection, in place where this tensor has memory. Elements of integer
  // tensors that are outside write nothing.
  Tensor& set(const std::vector<TensorIndex>& indices, const Tensor& value) &;
  Tensor set(const std::vector<TensorIndex>& indices, const Tensor& value) &&;

  // ---- picking and placing (scatter.cpp, sort.cpp, interpolate.cpp) ----
  // out[…, i, …] = this[…, index[…, i, …], …], of the shape of `index`, which is not larger off `dim`; 0
  // where an index is negative or too large.
  Tensor gather(int64_t dim, const Tensor& index) const;
  // The other way: src[…, i, …] goes to position index[…, i, …] along `dim`; of several the last wins. With a
  // reduction (Sum or Prod, TypeError otherwise) a literal `src` is folded into what is there. RuntimeError
  // unless the dtypes agree.
  Tensor scatter(int64_t dim, const Tensor& index, const Tensor& src,
                 std::optional<ScatterReduction> reduction = std::nullopt) const;
  // All elements of `src` that go to a position folded, with what is there if `include_self`. Keeps the
  // dtype: means of integers round down.
  Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src, ScatterReduction reduction,
                        bool include_self = true) const;
  Tensor one_hot(int64_t num_classes) const;  // (…, num_classes), of the default int; integers only
  Tensor masked_fill(const Tensor& mask, const Tensor& value) const;
  // The elements under a bool mask (broadcast; RuntimeError for other dtypes) as a vector. Counts them, which
  // runs the mask, unless `size` gives the length: then `fill_value` stands behind them.
  Tensor masked_select(const Tensor& mask, std::optional<int64_t> size = std::nullopt,
                       const Scalar& fill_value = 0) const;
  // (n, ndim) int32: where the elements are that are not 0, in row-major order; `size` as for masked_select.
  Tensor nonzero(std::optional<int64_t> size = std::nullopt, const Scalar& fill_value = 0) const;
  // Stable, also when descending; NaN is above all numbers. The indices are int32.
  ValuesAndIndices sort(int64_t dim = -1, bool descending = false) const;
  Tensor argsort(int64_t dim = -1, bool descending = false) const;
  // The first k of `sort`, descending if `largest`. ValueError unless k <= size(dim).
  ValuesAndIndices topk(int64_t k, int64_t dim = -1, bool largest = true) const;
  // The last size.size() axes resampled to `size`, keeping the dtype. With align_corners (linear only,
  // ValueError otherwise) the first and last elements stay where they are.
  Tensor interpolate(const Ints& size, Interpolation mode = Interpolation::Linear,
                     bool align_corners = false) const;

  // ---- elementwise, two operands (binary.cpp) ----
  Tensor add(const Tensor& x) const;
  Tensor sub(const Tensor& x) const;
  Tensor mul(const Tensor& x) const;
  Tensor div(const Tensor& x) const;  // integers divide as the default float
  Tensor div_trunc(const Tensor& x) const;
  Tensor div_floor(const Tensor& x) const;
  Tensor mod(const Tensor& x) const;   // sign of the divisor
  Tensor fmod(const Tensor& x) const;  // sign of the dividend
  Tensor pow(const Tensor& exponent) const;
  Tensor maximum(const Tensor& x) const;
  Tensor minimum(const Tensor& x) const;
  Tensor bitwise_and(const Tensor& x) const;
  Tensor bitwise_or(const Tensor& x) const;
  Tensor bitwise_xor(const Tensor& x) const;
  Tensor bitwise_not() const;
  Tensor lshift(const Tensor& x) const;
  Tensor rshift(const Tensor& x) const;
  Tensor eq(const Tensor& x) const;
  Tensor ne(const Tensor& x) const;
  Tensor lt(const Tensor& x) const;
  Tensor gt(const Tensor& x) const;
  Tensor le(const Tensor& x) const;  // false where an operand is NaN, as ge
  Tensor ge(const Tensor& x) const;
  Tensor where(const Tensor& x, const Tensor& y) const;  // this (bool) ? x : y
  // Of any number of tensors, broadcast; or and and for bools.
  static Tensor usum(const std::vector<Tensor>& tensors);
  static Tensor uprod(const std::vector<Tensor>& tensors);
  Tensor copysign(const Tensor& x) const;
  Tensor logaddexp(const Tensor& x) const;
  Tensor lerp(const Tensor& end, const Tensor& weight) const;
  // This (uint64) encrypted under keys (uint64) by Threefry-2x32 with 20 rounds. RuntimeError for other
  // dtypes.
  Tensor threefry(const Tensor& key) const;
  Tensor isclose(const Tensor& x, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;
  Tensor allclose(const Tensor& x, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) const;

  friend Tensor operator+(const Tensor& a, const Tensor& b) { return a.add(b); }
  friend Tensor operator-(const Tensor& a, const Tensor& b) { return a.sub(b); }
  friend Tensor operator*(const Tensor& a, const Tensor& b) { return a.mul(b); }
  friend Tensor operator/(const Tensor& a, const Tensor& b) { return a.div(b); }
  friend Tensor operator%(const Tensor& a, const Tensor& b) { return a.mod(b); }
  friend Tensor operator&(const Tensor& a, const Tensor& b) { return a.bitwise_and(b); }
  friend Tensor operator|(const Tensor& a, const Tensor& b) { return a.bitwise_or(b); }
  friend Tensor operator^(const Tensor& a, const Tensor& b) { return a.bitwise_xor(b); }
  friend Tensor operator<<(const Tensor& a, const Tensor& b) { return a.lshift(b); }
  friend Tensor operator>>(const Tensor& a, const Tensor& b) { return a.rshift(b); }
  friend Tensor operator==(const Tensor& a, const Tensor& b) { return a.eq(b); }
  friend Tensor operator!=(const Tensor& a, const Tensor& b) { return a.ne(b); }
  friend Tensor operator<(const Tensor& a, const Tensor& b) { return a.lt(b); }
  friend Tensor operator>(const Tensor& a, const Tensor& b) { return a.gt(b); }
  friend Tensor operator<=(const Tensor& a, const Tensor& b) { return a.le(b); }
  friend Tensor operator>=(const Tensor& a, const Tensor& b) { return a.ge(b); }
  Tensor operator-() const { return neg(); }
  Tensor operator~() const { return bitwise_not(); }
  Tensor operator!() const { return logical_not(); }
  Tensor& operator+=(const Tensor& x) & { return assign(add(x)); }
  Tensor operator+=(const Tensor& x) && { return std::move(*this).assign(add(x)); }
  Tensor& operator-=(const Tensor& x) & { return assign(sub(x)); }
  Tensor operator-=(const Tensor& x) && { return std::move(*this).assign(sub(x)); }
  Tensor& operator*=(const Tensor& x) & { return assign(mul(x)); }
  Tensor operator*=(const Tensor& x) && { return std::move(*this).assign(mul(x)); }
  Tensor& operator/=(const Tensor& x) & { return assign(div(x)); }
  Tensor operator/=(const Tensor& x) && { return std::move(*this).assign(div(x)); }
  Tensor& operator%=(const Tensor& x) & { return assign(mod(x)); }
  Tensor operator%=(const Tensor& x) && { return std::move(*this).assign(mod(x)); }
  Tensor& operator&=(const Tensor& x) & { return assign(bitwise_and(x)); }
  Tensor operator&=(const Tensor& x) && { return std::move(*this).assign(bitwise_and(x)); }
  Tensor& operator|=(const Tensor& x) & { return assign(bitwise_or(x)); }
  Tensor operator|=(const Tensor& x) && { return std::move(*this).assign(bitwise_or(x)); }
  Tensor& operator^=(const Tensor& x) & { return assign(bitwise_xor(x)); }
  Tensor operator^=(const Tensor& x) && { return std::move(*this).assign(bitwise_xor(x)); }
  Tensor& operator<<=(const Tensor& x) & { return assign(lshift(x)); }
  Tensor operator<<=(const Tensor& x) && { return std::move(*this).assign(lshift(x)); }
  Tensor& operator>>=(const Tensor& x) & { return assign(rshift(x)); }
  Tensor operator>>=(const Tensor& x) && { return std::move(*this).assign(rshift(x)); }

  // ---- elementwise, one operand (unary.cpp, activation.cpp) ----
  Tensor neg() const;
  Tensor logical_not() const;
  Tensor exp2() const;
  Tensor log2() const;
  Tensor sin() const;
  Tensor sqrt() const;
  Tensor reciprocal() const;
  Tensor rsqrt() const;
  Tensor exp() const;
  Tensor log() const;
  Tensor log1p() const;  // log(1 + x), accurate next to 0
  Tensor log10() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor asin() const;
  Tensor acos() const;
  Tensor atan() const;
  Tensor sinh() const;
  Tensor cosh() const;
  Tensor asinh() const;
  Tensor acosh() const;
  Tensor atanh() const;
  Tensor erf() const;
  Tensor trunc() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;  // halves to even
  Tensor abs() const;
  Tensor sign() const;
  Tensor square() const;
  Tensor clamp(const std::optional<Tensor>& min, const std::optional<Tensor>& max) const;
  Tensor clip(const std::optional<Tensor>& min, const std::optional<Tensor>& max) const {
    return clamp(min, max);
  }
  Tensor isnan() const;
  Tensor isinf(bool positive = true, bool negative = true) const;
  Tensor isfinite() const;
  Tensor relu() const;
  Tensor sigmoid() const;
  Tensor tanh() const;
  Tensor relu6() const;
  Tensor hardswish() const;
  Tensor hardsigmoid(double alpha = 1.0 / 6, double beta = 0.5) const;
  Tensor hardtanh(double min = -1, double max = 1) const;
  Tensor leaky_relu(double slope = 0.01) const;
  Tensor elu(double alpha = 1) const;
  Tensor celu(double alpha = 1) const;
  Tensor selu(double alpha = 1.67326, double gamma = 1.0507) const;
  Tensor gelu(const std::string& approximate = "tanh") const;  // or "none"
  Tensor quick_gelu() const;
  Tensor swish() const;
  Tensor silu() const { return swish(); }
  Tensor mish() const;
  Tensor softplus(double beta = 1) const;
  Tensor logsigmoid() const;
  Tensor softsign() const;

  // ---- reductions (reduce.cpp) ----
  Tensor sum(const Axes& axes = {}, bool keepdim = false, std::optional<DType> dtype = std::nullopt) const;
  Tensor prod(const Axes& axes = {}, bool keepdim = false, std::optional<DType> dtype = std::nullopt) const;
  Tensor max(const Axes& axes = {}, bool keepdim = false) const;
  Tensor min(const Axes& axes = {}, bool keepdim = false) const;
  Tensor mean(const Axes& axes = {}, bool keepdim = false) const;
  Tensor var(const Axes& axes = {}, bool keepdim = false, int64_t correction = 1) const;
  Tensor std(const Axes& axes = {}, bool keepdim = false, int64_t correction = 1) const;
  // (var, mean), (std, mean)
  std::pair<Tensor, Tensor> var_mean(const Axes& axes = {}, bool keepdim = false,
                                     int64_t correction = 1) const;
  std::pair<Tensor, Tensor> std_mean(const Axes& axes = {}, bool keepdim = false,
                                     int64_t correction = 1) const;
  Tensor any(const Axes& axes = {}, bool keepdim = false) const;
  Tensor all(const Axes& axes = {}, bool keepdim = false) const;
  Tensor argmax(std::optional<int64_t> axis = std::nullopt,
                bool keepdim = false) const;  // int32, the first maximum
  Tensor argmin(std::optional<int64_t> axis = std::nullopt, bool keepdim = false) const;
  Tensor logsumexp(const Axes& axes = {}, bool keepdim = false) const;
  Tensor softmax(int64_t axis = -1, std::optional<DType> dtype = std::nullopt) const;
  Tensor log_softmax(int64_t axis = -1, std::optional<DType> dtype = std::nullopt) const;
  Tensor softmin(int64_t axis = -1, std::optional<DType> dtype = std::nullopt) const;
  Tensor normalize(double p = 2, int64_t dim = 1, double eps = 1e-12) const;
  Tensor cumsum(int64_t axis = 0) const;
  Tensor cumprod(int64_t axis = 0) const;
  Tensor logcumsumexp(int64_t axis = 0) const;
  ValuesAndIndices cummax(int64_t axis = 0) const;
  ValuesAndIndices cummin(int64_t axis = 0) const;

  // ---- products and neural functions (matmul.cpp, conv.cpp, neural.cpp) ----
  Tensor dot(const Tensor& w, std::optional<DType> dtype = std::nullopt) const;
  Tensor matmul(const Tensor& x, std::optional<DType> dtype = std::nullopt) const { return dot(x, dtype); }
  Tensor linear(const Tensor& weight, const std::optional<Tensor>& bias = std::nullopt,
                std::optional<DType> dtype = std::nullopt) const;
  static Tensor einsum(const std::string& formula, const std::vector<Tensor>& operands,
                       std::optional<DType> dtype = std::nullopt);
  Tensor conv2d(const Tensor& weight, const std::optional<Tensor>& bias = std::nullopt,
                const ConvOptions& options = {}) const;
  Tensor conv_transpose2d(const Tensor& weight, const std::optional<Tensor>& bias = std::nullopt,
                          const ConvTransposeOptions& options = {}) const;
  Tensor avg_pool2d(const Ints& kernel = {2, 2}, const PoolOptions& options = {}) const;
  Tensor max_pool2d(const Ints& kernel = {2, 2}, const PoolOptions& options = {}) const;
  // With the positions of the maxima (the first of several) in the flattened spatial axes, int32.
  ValuesAndIndices max_pool2d_with_indices(const Ints& kernel = {2, 2},
                                           const PoolOptions& options = {}) const;
  // Values back at such positions, zeros elsewhere; those at the same position add up. The spatial axes get
  // `output_size`, or the smallest that pools to this shape.
  Tensor max_unpool2d(const Tensor& indices, const Ints& kernel = {2, 2}, const PoolOptions& options = {},
                      const std::optional<Ints>& output_size = std::nullopt) const;
  Tensor layernorm(const Axes& axes = -1, double eps = 1e-5) const;
  Tensor batchnorm(const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, const Tensor& mean,
                   const Tensor& invstd, const Ints& axes = 1) const;
  Tensor scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                      const std::optional<Tensor>& mask = std::nullopt,
                                      const AttentionOptions& options = {}) const;
  Tensor dropout(double p = 0.5) const;  // only under TRAINING
  Tensor sequential(const std::vector<std::function<Tensor(const Tensor&)>>& functions) const;

  // ---- matrices (…, m, n) (linalg.cpp); ValueError for rank < 2 ----
  QR qr() const;
  SVD svd(bool full_matrices = true) const;
  // Towards the orthogonal matrix of the same singular vectors: `steps` times x = sum of params[i] (x x^T)^i
  // x.
  Tensor newton_schulz(int64_t steps, const std::vector<double>& params, double eps = 1e-7) const;

  // ---- hashes of bytes (hash.cpp) ----
  // The digests of the last axis (uint8, RuntimeError otherwise): "sha3_224", "sha3_256" or "shake_128" (16
  // bytes), ValueError for other names.
  Tensor keccak(const std::string& algorithm = "sha3_256") const;
  // A sponge of `rate` bytes (a multiple of 8 below 200) with a suffix of the message; (200 - rate) / 2
  // bytes.
  Tensor keccak(int64_t rate, uint8_t suffix) const;
  // 16 bytes of all elements, in any concrete dtype: a tree of shake_128 over blocks of 4 KiB.
  Tensor hash() const;

  // ---- losses (loss.cpp) ----
  Tensor binary_crossentropy(const Tensor& target, Reduction reduction = Reduction::Mean) const;
  Tensor binary_crossentropy_logits(const Tensor& target, Reduction reduction = Reduction::Mean,
                                    const std::optional<Tensor>& pos_weight = std::nullopt) const;
  Tensor sparse_categorical_crossentropy(const Tensor& target, const CrossEntropyOptions& options = {}) const;
  Tensor cross_entropy(const Tensor& target, const CrossEntropyOptions& options = {}) const;
  Tensor nll_loss(const Tensor& target, const std::optional<Tensor>& weight = std::nullopt,
                  const CrossEntropyOptions& options = {}) const;

 private:
  friend struct TensorState;
  explicit Tensor(std::shared_ptr<TensorState> state) : state_(std::move(state)) {}
  int resolve_dim(int64_t dim, int extra = 0) const;
  SmallVec<int, 6> resolve_axes(const Axes& axes) const;
  Tensor reduce_axes(Op op, const Axes& axes, bool keepdim) const;
  Tensor inverse() const;
  Tensor one_hot_along(const SInt& num_classes, int64_t dim) const;
  Tensor pad_constant(const AxisPairs& pads, const Scalar& value) const;
  Tensor pad_by_copying(const AxisPairs& pads, PadMode mode) const;
  Tensor cumulative(Running running, int axis) const;
  Tensor cumulative_in_stages(Running running, int64_t axis) const;
  Tensor reduce_loss(Reduction reduction) const;
  Tensor pool_pads(const Ints& pads, const Scalar& value) const;
  void write(const UOp& value, bool is_temporary);
  void set_selection(const std::vector<TensorIndex>& indices, const Tensor& value, bool is_temporary);
  std::vector<std::byte> read(DType dtype) const;

  std::shared_ptr<TensorState> state_;
};

struct ValuesAndIndices {
  Tensor values, indices;
};
// this = q r, for (…, m, n): q (…, m, m) orthogonal, r (…, m, n) zero below the diagonal.
struct QR {
  Tensor q, r;
};
// this = u diag(s) vt, s (…, min(m, n)) descending; u and vt are square with full_matrices, else they have
// min(m, n) columns and rows.
struct SVD {
  Tensor u, s, vt;
};

// One entry of an index: a position, a Slice, newaxis, ellipsis, an integer tensor or a list of positions.
class TensorIndex {
 public:
  TensorIndex(int v) : value_(SInt(v)) {}                       // NOLINT(google-explicit-constructor)
  TensorIndex(int64_t v) : value_(SInt(v)) {}                   // NOLINT(google-explicit-constructor)
  TensorIndex(SInt v) : value_(std::move(v)) {}                 // NOLINT(google-explicit-constructor)
  TensorIndex(UOp v) : value_(SInt(std::move(v))) {}            // NOLINT(google-explicit-constructor)
  TensorIndex(Slice v) : value_(std::move(v)) {}                // NOLINT(google-explicit-constructor)
  TensorIndex(None) : value_(NewAxis{}) {}                      // NOLINT(google-explicit-constructor)
  TensorIndex(NewAxis v) : value_(v) {}                         // NOLINT(google-explicit-constructor)
  TensorIndex(Ellipsis v) : value_(v) {}                        // NOLINT(google-explicit-constructor)
  TensorIndex(Tensor v) : value_(std::move(v)) {}               // NOLINT(google-explicit-constructor)
  TensorIndex(std::vector<Scalar> v) : value_(std::move(v)) {}  // NOLINT(google-explicit-constructor)
  TensorIndex(std::initializer_list<Scalar> v) : value_(std::vector<Scalar>(v)) {}
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&value_);
  }

 private:
  std::variant<SInt, Slice, NewAxis, Ellipsis, Tensor, std::vector<Scalar>> value_;
};

template <class... I>
Tensor Tensor::at(const I&... indices) const {
  return index(std::vector<TensorIndex>{TensorIndex(indices)...});
}

template <class E>
Tensor Tensor::from(const std::vector<E>& data, const Shape& shape, const TensorOptions& options) {
  if constexpr (std::is_same_v<E, bool>) {
    std::vector<uint8_t> bytes(data.begin(), data.end());
    return from_bytes(std::as_bytes(std::span(bytes)), shape, DType::Bool, options.device)
        .cast(options.dtype.value_or(DType::Bool));
  } else {
    constexpr DType kDType = dtype_of<E>();
    return from_bytes(std::as_bytes(std::span(data)), shape, kDType, options.device)
        .cast(options.dtype.value_or(kDType));
  }
}

template <class E>
std::vector<E> Tensor::to_vector() const {
  std::vector<std::byte> raw = read(dtype_of<E>());
  std::vector<E> out(raw.size() / sizeof(E));
  if constexpr (std::is_same_v<E, bool>) {
    for (size_t i = 0; i < out.size(); i++) out[i] = raw[i] != std::byte{0};
  } else if (!raw.empty()) {
    std::memcpy(out.data(), raw.data(), raw.size());
  }
  return out;
}

template <class E>
E Tensor::item() const {
  std::vector<E> all = to_vector<E>();
  if (all.size() != 1) value_error("must have one element for item, got shape {}", lathe::to_string(shape()));
  return all[0];
}

}  // namespace lathe
