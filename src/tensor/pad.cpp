// Padding.
#include "tensor/promote.h"
#include "tensor/select.h"
#include "tensor/tensor.h"

#include <algorithm>

namespace lathe {
namespace {

bool is_zero(const SInt& v) { return v == SInt(0); }
bool may_be_negative(const SInt& v) { return v.is_const() && v.value() < 0; }

// One pair an axis, from any form of Padding.
AxisPairs padding_per_axis(const Padding& padding, size_t rank) {
  AxisPairs pads(rank, AxisPair(0, 0));
  if (padding.is_flat) {
    if (padding.flat.size() % 2) value_error("Flat padding must have even number of pads");
    if (padding.flat.size() / 2 > rank)
      value_error("padding of {} axes for a tensor of rank {}", padding.flat.size() / 2, rank);
    for (size_t i = 0; i < padding.flat.size() / 2; i++)
      pads[rank - 1 - i] = {SInt(padding.flat[2 * i]), SInt(padding.flat[2 * i + 1])};
    return pads;
  }
  if (padding.axes.size() != rank)
    value_error("padding length is improper, {} pairs for a tensor of rank {}", padding.axes.size(), rank);
  for (size_t i = 0; i < rank; i++)
    if (padding.axes[i].used) pads[i] = padding.axes[i];
  return pads;
}

UOp pad_with_zeros(const UOp& x, const AxisPairs& pads) {
  Shape before, total;
  for (size_t i = 0; i < pads.size(); i++) {
    before.push_back(pads[i].first);
    total.push_back(pads[i].first + x.shape()[i] + pads[i].second);
  }
  return pad(x, before, total);
}

// Negative padding takes elements away.
AxisPairs cut_by(const AxisPairs& pads, const Shape& shape) {
  AxisPairs bounds;
  for (size_t i = 0; i < pads.size(); i++) {
    const auto& [first, second, used] = pads[i];
    bounds.emplace_back(may_be_negative(first) ? SInt(0) - first : SInt(0),
                        may_be_negative(second) ? shape[i] + second : shape[i]);
  }
  return bounds;
}

}  // namespace

Tensor Tensor::pad_constant(const AxisPairs& pads, const Scalar& value) const {
  const bool cuts = std::ranges::any_of(
      pads, [](const AxisPair& p) { return may_be_negative(p.first) || may_be_negative(p.second); });
  if (cuts) {
    AxisPairs grown;
    for (const AxisPair& p : pads)
      grown.emplace_back(may_be_negative(p.first) ? SInt(0) : p.first,
                         may_be_negative(p.second) ? SInt(0) : p.second);
    return shrink(cut_by(pads, shape())).pad_constant(grown, value);
  }
  if (std::ranges::all_of(pads, [](const AxisPair& p) { return is_zero(p.first) && is_zero(p.second); }))
    return *this;
  const Tensor padded(pad_with_zeros(uop(), pads));
  if (value.equals(Scalar(0))) return padded;
  const Tensor inside(pad_with_zeros(broadcast_to(constant(Scalar(true)), shape()), pads));
  return inside.where(padded, Tensor(value));
}

Tensor Tensor::pad(const Padding& padding, PadMode mode, const Scalar& value) const {
  const AxisPairs pads = padding_per_axis(padding, shape().size());
  if (mode == PadMode::Constant) return pad_constant(pads, value);
  for (size_t i = 0; i < pads.size(); i++)
    if (!shape()[i].is_const() || !pads[i].first.is_const() || !pads[i].second.is_const())
      user_runtime_error("padding of symbolic shape {} is only possible with a constant", shape());
  if (mode != PadMode::Circular) return pad_by_copying(pads, mode);

  Ints times;
  AxisPairs window;
  for (size_t i = 0; i < pads.size(); i++) {
    const int64_t before = pads[i].first.value(), after = pads[i].second.value(), size = shape()[i].value();
    if (before > size || after > size) value_error("Padding value causes wrapping around more than once.");
    if (before < 0 || after < 0) user_runtime_error("Negative pads with circular pads is not supported");
    times.push_back(1 + (before > 0) + (after > 0));
    const int64_t first = before ? size - before : 0;
    window.emplace_back(SInt(first), SInt(first + before + size + after));
  }
  return repeat(times).shrink(window);
}

Tensor Tensor::pad_by_copying(const AxisPairs& pads, PadMode mode) const {
  Tensor x = *this;
  for (size_t axis = 0; axis < pads.size(); axis++) {
    const int64_t before = pads[axis].first.value(), after = pads[axis].second.value(),
                  size = x.shape()[axis].value();
    if (mode == PadMode::Reflect && (before >= size || after >= size))
      value_error("Padding ({}, {}) should be less than the input size={} for dim={}.", before, after, size,
                  axis);
    const auto part = [&](int64_t from, int64_t to) {
      AxisPairs bounds(pads.size(), none);
      bounds[axis] = {SInt(from), SInt(to)};
      return x.shrink(bounds);
    };
    const auto widened = [&](const Tensor& edge, int64_t n) {
      Shape to = x.shape();
      to[axis] = SInt(n);
      return edge.expand(to);
    };
    std::vector<Tensor> pieces;
    const bool reflect = mode == PadMode::Reflect;
    const int64_t dim = static_cast<int64_t>(axis);
    if (before > 0) pieces.push_back(reflect ? part(1, before + 1).flip(dim) : widened(part(0, 1), before));
    pieces.push_back(x);
    if (after > 0)
      pieces.push_back(reflect ? part(size - 1 - after, size - 1).flip(dim)
                               : widened(part(size - 1, size), after));
    if (pieces.size() > 1) x = cat(pieces, dim);
  }
  return x.shrink(cut_by(pads, x.shape()));
}

Tensor Tensor::pad_to(const Shape& to, const Scalar& value) const {
  if (static_cast<int64_t>(to.size()) != ndim())
    value_error("pad_to needs a size for every axis: {} for shape {}", to, shape());
  AxisPairs pads;
  for (size_t i = 0; i < to.size(); i++)
    pads.push_back(to[i] == SInt(-1) ? AxisPair(0, 0) : AxisPair(0, to[i] - shape()[i]));
  return pad_constant(pads, value);
}

namespace {
// row index + diagonal <= column index, for the last two axes.
Tensor upper_mask(const Shape& shape, int64_t diagonal) {
  const Tensor row = iota(shape[shape.size() - 2], default_int(), 0, 2);
  return (row + Tensor(diagonal)).le(iota(shape.back(), default_int(), 1, 2));
}
}  // namespace

Tensor Tensor::triu(int64_t diagonal) const {
  if (ndim() < 2) value_error("triu needs at least 2 axes, got shape {}", shape());
  return upper_mask(shape(), diagonal).where(*this, Tensor(weak_literal(0, dtype())));
}
Tensor Tensor::tril(int64_t diagonal) const {
  if (ndim() < 2) value_error("tril needs at least 2 axes, got shape {}", shape());
  return upper_mask(shape(), diagonal + 1).where(Tensor(weak_literal(0, dtype())), *this);
}

}  // namespace lathe
