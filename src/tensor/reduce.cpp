// Reductions and running reductions.
#include "tensor/promote.h"
#include "tensor/select.h"
#include "tensor/tensor.h"

#include <algorithm>

namespace lathe {

SmallVec<int, 6> Tensor::resolve_axes(const Axes& axes) const {
  SmallVec<int, 6> out;
  if (axes.all())
    for (int i = 0; i < ndim(); i++) out.push_back(i);
  else
    for (int64_t a : axes.list()) {
      const int axis = resolve_dim(a);
      if (std::find(out.begin(), out.end(), axis) != out.end())
        user_runtime_error("axis {} is named twice", a);
      if (ndim() > 0) out.push_back(axis);
    }
  return out;
}

Tensor Tensor::reduce_axes(Op op, const Axes& axes, bool keepdim) const {
  const SmallVec<int, 6> folded = resolve_axes(axes);
  const Tensor out(reduce(cast(strong(dtype())).uop(), op, folded));
  if (!keepdim) return out;
  Shape kept = shape();
  for (int axis : folded) kept[static_cast<size_t>(axis)] = 1;
  return out.reshape(kept);
}

namespace {

bool is_narrow_float(DType d) { return d == DType::Float16 || d == DType::BFloat16 || is_fp8(d); }

// Number of elements folded into one.
SInt count_folded(const Shape& shape, std::span<const int> axes) {
  SInt n = 1;
  for (int a : axes) n = n * shape[static_cast<size_t>(a)];
  return n;
}

Tensor as_tensor(const SInt& n) { return Tensor(n.uop()); }

DType mean_dtype(DType d) { return is_float(d) ? strong(d) : DType::Float32; }

}  // namespace

Tensor Tensor::sum(const Axes& axes, bool keepdim, std::optional<DType> dtype) const {
  const DType own = strong(this->dtype());
  const Tensor total = cast(dtype.value_or(sum_dtype(own))).reduce_axes(Op::Add, axes, keepdim);
  return !dtype && is_narrow_float(own) ? total.cast(own) : total;
}

Tensor Tensor::prod(const Axes& axes, bool keepdim, std::optional<DType> dtype) const {
  return cast(dtype.value_or(strong(this->dtype()))).reduce_axes(Op::Mul, axes, keepdim);
}

Tensor Tensor::max(const Axes& axes, bool keepdim) const { return reduce_axes(Op::Max, axes, keepdim); }
Tensor Tensor::min(const Axes& axes, bool keepdim) const {
  return cast(strong(dtype())).inverse().max(axes, keepdim).inverse();
}
Tensor Tensor::any(const Axes& axes, bool keepdim) const { return cast(DType::Bool).max(axes, keepdim); }
Tensor Tensor::all(const Axes& axes, bool keepdim) const { return cast(DType::Bool).prod(axes, keepdim); }

Tensor Tensor::mean(const Axes& axes, bool keepdim) const {
  const SInt n = count_folded(shape(), resolve_axes(axes));
  return cast(sum_dtype(strong(dtype()))).sum(axes, keepdim).div(as_tensor(n)).cast(mean_dtype(dtype()));
}

Tensor Tensor::var(const Axes& axes, bool keepdim, int64_t correction) const {
  const SInt n = count_folded(shape(), resolve_axes(axes));
  const DType out = mean_dtype(dtype());
  const Tensor x = cast(sum_dtype(out));
  const Tensor squares = x.sub(x.mean(axes, true)).square();
  const SInt divisor(lathe::maximum((n - SInt(correction)).uop(), constant(0)));
  return squares.sum(axes, keepdim).div(as_tensor(divisor)).cast(out);
}

Tensor Tensor::std(const Axes& axes, bool keepdim, int64_t correction) const {
  return var(axes, keepdim, correction).sqrt();
}

std::pair<Tensor, Tensor> Tensor::var_mean(const Axes& axes, bool keepdim, int64_t correction) const {
  return {var(axes, keepdim, correction), mean(axes, keepdim)};
}
std::pair<Tensor, Tensor> Tensor::std_mean(const Axes& axes, bool keepdim, int64_t correction) const {
  return {std(axes, keepdim, correction), mean(axes, keepdim)};
}

Tensor Tensor::argmax(std::optional<int64_t> axis, bool keepdim) const {
  if (!axis) return flatten().argmax(0);
  const int dim = resolve_dim(*axis);
  if (ndim() == 0) return constant_of({}, 0, DType::Int32);
  const SInt size = shape()[static_cast<size_t>(dim)];
  const Tensor is_max = eq(max(dim, true));
  // Positions count down, so that the largest one among the maxima is the first.
  const Tensor from_end = as_tensor(size).sub(iota(size, DType::Int32, dim, static_cast<int>(ndim())));
  const Tensor best = is_max.where(from_end, 0).max(dim, keepdim);
  return as_tensor(size).sub(best).cast(DType::Int32);
}

Tensor Tensor::argmin(std::optional<int64_t> axis, bool keepdim) const {
  return inverse().argmax(axis, keepdim);
}

Tensor Tensor::logsumexp(const Axes& axes, bool keepdim) const {
  // Infinities are not subtracted: inf - inf is not a number.
  const Tensor most = max(axes, true).detach(), m = most.isfinite().where(most, 0);
  const Tensor shifted = sub(m).exp().sum(axes, keepdim).log();
  return shifted.add(keepdim ? m : m.reshape(shifted.shape()));
}

namespace {
Tensor shifted_by_max(const Tensor& x, int64_t axis, std::optional<DType> dtype) {
  const Tensor m = x.sub(x.max(static_cast<int>(axis), true).detach());
  return dtype ? m.cast(*dtype) : m;
}
}  // namespace

Tensor Tensor::softmax(int64_t axis, std::optional<DType> dtype) const {
  const Tensor e = shifted_by_max(*this, axis, dtype).exp();
  return e.div(e.sum(static_cast<int>(axis), true));
}
Tensor Tensor::log_softmax(int64_t axis, std::optional<DType> dtype) const {
  const Tensor m = shifted_by_max(*this, axis, dtype);
  return m.sub(m.exp().sum(static_cast<int>(axis), true).log());
}
Tensor Tensor::softmin(int64_t axis, std::optional<DType> dtype) const { return neg().softmax(axis, dtype); }

Tensor Tensor::normalize(double p, int64_t dim, double eps) const {
  const int axis = static_cast<int>(dim);
  const Tensor norm = p == 0 ? ne(0).sum(axis, true) : abs().pow(p).sum(axis, true).pow(1 / p);
  return div(norm.maximum(eps));
}

namespace {

// Axes up to this length are folded directly, longer ones in blocks.
constexpr int64_t kCumulativeBlock = 256;

// The value that folds into any other without changing it.
Scalar identity_of(Running running, DType d) {
  if (running == Running::Max || running == Running::LogSumExp) return min_value(d);
  return cast_scalar(Scalar(running == Running::Prod ? 1 : 0), d);
}

Tensor fold_last(Running running, const Tensor& x) {
  switch (running) {
    case Running::Sum: return x.sum(-1);
    case Running::Prod: return x.prod(-1);
    case Running::Max: return x.max(-1);
    case Running::LogSumExp: return x.logsumexp(-1);
  }
  CHECK(false, "no such reduction");
}

Tensor combine(Running running, const Tensor& a, const Tensor& b) {
  switch (running) {
    case Running::Sum: return a.add(b);
    case Running::Prod: return a.mul(b);
    case Running::Max: return a.maximum(b);
    case Running::LogSumExp: return Tensor::stack({a, b.expand(a.shape())}).logsumexp(0);
  }
  CHECK(false, "no such reduction");
}

}  // namespace

// Element i of the result folds the elements up to i: windows of full length over the axis padded in front.
Tensor Tensor::cumulative(Running running, int axis) const {
  const SInt size = shape()[static_cast<size_t>(axis)];
  if (!size.is_const()) {  // windows are of constant size: all elements, of which those up to i count
    const Tensor x = transpose(axis, -1).unsqueeze(-2);
    const int rank = static_cast<int>(x.ndim());
    const Tensor counts =
        iota(size, DType::Int32, rank - 1, rank).le(iota(size, DType::Int32, rank - 2, rank));
    return fold_last(running, counts.where(x, Tensor(identity_of(running, dtype())))).transpose(axis, -1);
  }
  const Tensor padded =
      transpose(axis, -1).pad({size.value() - 1, 0}, PadMode::Constant, identity_of(running, dtype()));
  return fold_last(running, padded.pool(Ints(size.value()))).transpose(axis, -1);
}

Tensor Tensor::cumulative_in_stages(Running running, int64_t dim) const {
  const int axis = resolve_dim(dim);
  if (is_weak(dtype())) return cast(strong(dtype())).cumulative_in_stages(running, dim);
  if (ndim() == 0 || numel() == SInt(0)) return *this;
  const SInt& length = shape()[static_cast<size_t>(axis)];
  if (!length.is_const() || length.value() <= 2 * kCumulativeBlock) return cumulative(running, axis);
  const int64_t size = length.value();
  // Within blocks, then over the totals of the blocks before.
  const int64_t blocks = (size + kCumulativeBlock - 1) / kCumulativeBlock;
  const Scalar identity = identity_of(running, dtype());
  const int64_t filled = blocks * kCumulativeBlock - size;
  const Tensor in_blocks = transpose(axis, -1)
                               .pad({filled, 0}, PadMode::Constant, identity)
                               .unflatten(-1, {SInt(-1), SInt(kCumulativeBlock)});
  const int rank = static_cast<int>(in_blocks.ndim());
  const Tensor within = in_blocks.cumulative(running, rank - 1);
  const Tensor totals = within.at(ellipsis, -1).pad({1, -1}, PadMode::Constant, identity);
  const Tensor before = totals.cumulative_in_stages(running, -1).unsqueeze(-1);
  const Tensor all = combine(running, within, before).flatten(-2);
  return all.at(ellipsis, Slice{filled, none}).transpose(axis, -1);
}

Tensor Tensor::cumsum(int64_t axis) const { return cumulative_in_stages(Running::Sum, axis); }
Tensor Tensor::cumprod(int64_t axis) const { return cumulative_in_stages(Running::Prod, axis); }

Tensor Tensor::logcumsumexp(int64_t axis) const {
  return cast(mean_dtype(dtype())).cumulative_in_stages(Running::LogSumExp, axis);
}

ValuesAndIndices Tensor::cummax(int64_t dim) const {
  const int axis = resolve_dim(dim);
  if (ndim() == 0) return {*this, constant_of({}, 0, DType::Int32)};
  const Tensor x = transpose(axis, -1);
  const Tensor values = x.cumulative_in_stages(Running::Max, -1);
  // The first position whose element is the running maximum: the last one where the maximum has risen.
  const SInt n = x.shape().back();
  const Tensor position = iota(n, DType::Int32, 0, 1);
  const Tensor risen = values.ne(values.pad({1, -1})).bitwise_or(position.eq(0));
  const Tensor at = risen.where(position, 0).cumulative_in_stages(Running::Max, -1);
  return {values.transpose(axis, -1), at.transpose(axis, -1)};
}

ValuesAndIndices Tensor::cummin(int64_t dim) const {
  ValuesAndIndices flipped = inverse().cummax(dim);
  return {flipped.values.inverse(), flipped.indices};
}

}  // namespace lathe
