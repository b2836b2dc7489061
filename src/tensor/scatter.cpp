// Picking elements by position or mask, and placing them.
#include "tensor/promote.h"
#include "tensor/select.h"

#include <algorithm>

namespace lathe {

Tensor zero_of(const Tensor& x) { return Tensor(weak_literal(0, x.dtype())); }

Tensor iota(const SInt& n, DType dtype, int axis, int rank) {
  Shape along(static_cast<size_t>(rank), SInt(1));
  along[static_cast<size_t>(axis)] = n;
  if (n.is_const()) return Tensor::arange(0, n.value(), 1, {dtype}).reshape(along);
  const UOp i = range(n.uop(), 0, AxisType::Loop);
  return Tensor(UOp::make(Op::Stage, {i, i}, StageArg{})).cast(dtype).reshape(along);
}

Tensor last_selected(const Tensor& mask, const Tensor& values, const Axes& axes, const Tensor& x) {
  const Ints& list = axes.list();
  const int rank = static_cast<int>(mask.ndim());
  if (list.empty()) return mask.where(values, x);
  std::optional<Tensor> order;  // 1, 2, … over the folded axes
  SInt stride = 1;
  for (size_t i = list.size(); i-- > 0;) {
    const SInt& n = mask.shape()[static_cast<size_t>(list[i])];
    const Tensor part = iota(n, DType::Int32, static_cast<int>(list[i]), rank).mul(Tensor(stride.uop()));
    order = order ? order->add(part) : part.add(1);
    stride = stride * n;
  }
  const Tensor last = mask.where(*order, 0).max(axes, true);
  const Tensor chosen = mask.bitwise_and(order->eq(last));
  const Tensor value = chosen.where(values, zero_of(x)).sum(axes, false, x.dtype());
  Shape kept;
  for (int i = 0; i < rank; i++)
    if (std::find(list.begin(), list.end(), i) == list.end())
      kept.push_back(last.shape()[static_cast<size_t>(i)]);
  return last.reshape(kept).gt(0).where(value, x);
}

Tensor Tensor::one_hot_along(const SInt& num_classes, int64_t dim) const {
  if (!is_int(dtype())) user_runtime_error("expect integer dtype for one hot, got dtypes.{}", dtype());
  const DType d = num_classes.vmax() > INT32_MAX ? DType::Int64 : DType::Int32;
  return eq(iota(num_classes, d, resolve_dim(dim), static_cast<int>(ndim())));
}

Tensor Tensor::one_hot(int64_t num_classes) const {
  if (!is_int(dtype())) user_runtime_error("expect integer dtype for one hot, got dtypes.{}", dtype());
  if (num_classes < 0) value_error("num_classes must be non-negative, got {}", num_classes);
  return unsqueeze(-1).one_hot_along(num_classes, -1).cast(default_int());
}

Tensor Tensor::gather(int64_t dim, const Tensor& index) const {
  if (index.ndim() != ndim())
    value_error("self.ndim must equal index.ndim, got {} and {}", ndim(), index.ndim());
  if (ndim() == 0) return unsqueeze(0).gather(dim, index.unsqueeze(0)).squeeze(0);
  const int axis = resolve_dim(dim);
  AxisPairs bounds;
  for (size_t i = 0; i < shape().size(); i++) {
    const SInt &own = shape()[i], &wanted = index.shape()[i];
    const bool whole = static_cast<int>(i) == axis;
    if (!whole && own.is_const() && wanted.is_const() && wanted.value() > own.value())
      value_error("index of shape {} does not fit {} off dim={}", index.shape(), shape(), dim);
    bounds.push_back(whole ? AxisPair(none) : AxisPair(0, wanted));
  }
  const Tensor x = shrink(bounds).unsqueeze(-1).transpose(-1, axis);
  return index.unsqueeze(-1)
      .one_hot_along(shape()[static_cast<size_t>(axis)], -1)
      .where(x, zero_of(x))
      .sum(-1, false, strong(dtype()));
}

namespace {

// What goes where: over the shape of the target and, as a new last axis, the positions of the source along
// the axis, whether an element goes there and which.
struct Hits {
  Tensor mask, values;
};

Hits hits_of(const Tensor& target, int dim, const Tensor& index, const Tensor& source) {
  if (index.ndim() != target.ndim() || source.ndim() != target.ndim())
    value_error("self, index and src must have the same rank, got {}, {} and {}", target.ndim(), index.ndim(),
                source.ndim());
  if (target.ndim() == 0) value_error("scatter needs at least one axis");
  if (!is_int(index.dtype()))
    user_runtime_error("expect integer dtype for index, got dtypes.{}", index.dtype());
  if (source.dtype() != target.dtype())
    user_runtime_error("expect self and src to have the same dtype, got dtypes.{} and dtypes.{}",
                       target.dtype(), source.dtype());
  const size_t rank = target.shape().size(), axis = static_cast<size_t>(dim);
  AxisPairs grown;
  for (size_t i = 0; i < rank; i++) {
    const int64_t own = target.shape()[i].value(), wanted = index.shape()[i].value();
    if ((i != axis && wanted > own) || wanted > source.shape()[i].value())
      value_error("index of shape {} does not fit self {} and src {}", index.shape(), target.shape(),
                  source.shape());
    grown.push_back(i == axis ? AxisPair(none) : AxisPair(0, SInt(own - wanted)));
  }
  grown.push_back(none);
  const Tensor place = iota(target.shape()[axis], DType::Int32, dim, static_cast<int>(rank) + 1);
  return {index.unsqueeze(-1).transpose(-1, dim).eq(place).pad(grown),
          source.shrink_to(index.shape()).unsqueeze(-1).transpose(-1, dim).pad(grown)};
}

}  // namespace

Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Tensor& src,
                       std::optional<ScatterReduction> reduction) const {
  const int axis = resolve_dim(dim);
  const bool is_literal = is_weak_literal(src.uop());
  const Tensor source = is_literal ? Tensor(src.uop().value(), dtype()).expand(index.shape()) : src;
  if (reduction) {
    if (!is_literal || (*reduction != ScatterReduction::Sum && *reduction != ScatterReduction::Prod))
      type_error("scatter reduces only a number, by sum or product; scatter_reduce takes tensors");
    return scatter_reduce(dim, index, source, *reduction);
  }
  const Hits hits = hits_of(*this, axis, index, source);
  return last_selected(hits.mask, hits.values, Ints(ndim()), *this);
}

Tensor Tensor::scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src, ScatterReduction reduction,
                              bool include_self) const {
  const Hits hits = hits_of(*this, resolve_dim(dim), index, src);
  const Tensor reached = hits.mask.any(-1);
  // What takes part: this tensor, or only where nothing arrives.
  const auto own = [&](const Scalar& identity) {
    return include_self ? *this : reached.where(Tensor(identity, dtype()), *this);
  };
  const auto arrived = [&](const Scalar& identity) {
    return hits.mask.where(hits.values, Tensor(identity, dtype()));
  };
  const Tensor sum = arrived(0).sum(-1).cast(dtype());
  switch (reduction) {
    case ScatterReduction::Sum: return sum.add(own(0));
    case ScatterReduction::Prod: return arrived(1).prod(-1).mul(own(1));
    case ScatterReduction::Max: return arrived(min_value(dtype())).max(-1).maximum(own(min_value(dtype())));
    case ScatterReduction::Min: return arrived(max_value(dtype())).min(-1).minimum(own(max_value(dtype())));
    case ScatterReduction::Mean: break;
  }
  const Tensor count = hits.mask.sum(-1).add(include_self ? Tensor(1) : reached.logical_not());
  const Tensor total = sum.add(own(0));
  return is_float(dtype()) ? total.div(count.cast(dtype())) : total.div_floor(count).cast(dtype());
}

Tensor Tensor::masked_fill(const Tensor& mask, const Tensor& value) const { return mask.where(value, *this); }

Tensor count_at_most(const Tensor& sorted, const Tensor& x) {
  const int64_t n = sorted.len();
  return partition_point(Tensor::constant_of(x.shape(), 0), Tensor::constant_of(x.shape(), n), n,
                         [&](const Tensor& p) { return sorted.gather(0, p.sub(1)).le(x); });
}

namespace {

// Where the true elements of a mask are.
struct TruePositions {
  Tensor flat;   // position of number k in row-major order, int32; behind the last one the size of the mask
  Tensor known;  // whether there is a number k
};

TruePositions true_positions(const Tensor& mask, std::optional<int64_t> size) {
  if (size && *size < 0) value_error("size must be non-negative, got {}", *size);
  if (mask.numel() == SInt(0)) {
    const Shape none_known{SInt(size.value_or(0))};
    return {Tensor::constant_of(none_known, 0, DType::Int32), Tensor::constant_of(none_known, false)};
  }
  // The count of true elements rises to k + 1 at number k.
  const Tensor in_memory = mask.device().empty() ? mask.clone() : mask;
  const Tensor counts = in_memory.flatten().to_int().cumsum().contiguous();
  const Tensor total = counts.at(-1);
  const Tensor k = Tensor::arange(size ? *size : total.item<int64_t>());
  return {count_at_most(counts, k), k.lt(total)};
}

}  // namespace

Tensor Tensor::masked_select(const Tensor& mask, std::optional<int64_t> size,
                             const Scalar& fill_value) const {
  if (!is_bool(mask.dtype()))
    user_runtime_error("masked_select expects bool mask tensor, got dtypes.{}", mask.dtype());
  const Shape common = broadcast_shapes(std::vector<Shape>{shape(), mask.shape()});
  const auto [flat, known] = true_positions(mask.expand(common), size);
  return known.where(expand(common).flatten().gather(0, flat), Tensor(fill_value, dtype()));
}

Tensor Tensor::nonzero(std::optional<int64_t> size, const Scalar& fill_value) const {
  const auto [flat, known] = true_positions(ne(0), size);
  if (ndim() == 0) return constant_of({known.shape()[0], SInt(0)}, 0, DType::Int32);
  std::vector<Tensor> coordinates;
  int64_t stride = 1;
  for (size_t i = shape().size(); i-- > 0;) {
    const int64_t n = shape()[i].value();
    coordinates.insert(coordinates.begin(), flat.div_floor(stride).mod(std::max<int64_t>(n, 1)));
    stride *= std::max<int64_t>(n, 1);
  }
  return known.unsqueeze(-1).where(stack(coordinates, -1), Tensor(fill_value, DType::Int32));
}

}  // namespace lathe
