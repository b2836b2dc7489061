// Reshaping and reordering: every method is a chain of movement ops.
#include "tensor/promote.h"
#include "tensor/tensor.h"
#include "uop/variable.h"

#include <algorithm>
#include <numeric>

namespace lathe {
namespace {

bool is_keep(const SInt& d) { return d == SInt(-1); }

}  // namespace

int Tensor::resolve_dim(int64_t dim, int extra) const {
  const int64_t rank = std::max<int64_t>(1, ndim() + extra);
  if (dim < -rank || dim >= rank) index_error("dim={} out of range [{}, {}]", dim, -rank, rank - 1);
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

Tensor Tensor::reshape(const Shape& given) const {
  Shape to = given;
  const auto unknown = std::ranges::count_if(to, is_keep);
  if (unknown > 1) user_runtime_error("only one dimension can be inferred using -1, getting {}", given);
  if (unknown == 1) {
    SInt known = 1;
    for (const SInt& d : to)
      if (!is_keep(d)) known = known * d;
    SInt inferred = 0;
    if (!(known == SInt(0))) inferred = floordiv(numel(), known);
    std::replace_if(to.begin(), to.end(), is_keep, inferred);
  }
  for (const SInt& d : to)
    if (d.is_const() && d.value() < 0) value_error("shape {} has a negative size", given);
  if (!(lathe::prod(to) == numel())) value_error("size mismatch, can't reshape ({}) -> ({})", shape(), given);
  return Tensor(lathe::reshape(uop(), to));
}

Tensor Tensor::expand(const Shape& given) const {
  Shape to = given;
  const size_t lead = to.size() - shape().size();
  if (to.size() < shape().size()) value_error("cannot broadcast {} to new_shape={}", shape(), given);
  for (size_t i = 0; i < to.size(); i++) {
    if (is_keep(to[i])) to[i] = i < lead ? SInt(1) : shape()[i - lead];
    if (i < lead || shape()[i - lead] == SInt(1) || shape()[i - lead] == to[i]) continue;
    value_error("cannot broadcast {} to new_shape={}", shape(), given);
  }
  return Tensor(broadcast_to(uop(), to));
}

Tensor Tensor::permute(const Ints& order) const {
  std::vector<int> resolved;
  for (int64_t axis : order) resolved.push_back(resolve_dim(axis));
  std::vector<int> sorted = resolved;
  std::ranges::sort(sorted);
  bool valid = static_cast<int64_t>(order.size()) == ndim();
  for (size_t i = 0; i < sorted.size(); i++) valid = valid && sorted[i] == static_cast<int>(i);
  if (!valid) user_runtime_error("order is not a valid permutation, getting {}", to_text(order));
  return Tensor(lathe::permute(uop(), resolved));
}

Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  std::vector<int> order(static_cast<size_t>(ndim()));
  std::iota(order.begin(), order.end(), 0);
  const int a = resolve_dim(dim0), b = resolve_dim(dim1);
  if (order.empty()) return *this;
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return Tensor(lathe::permute(uop(), order));
}

Tensor Tensor::flip(const Ints& axes) const {
  std::vector<int> flags(static_cast<size_t>(ndim()), 0);
  for (int64_t axis : axes) {
    const size_t i = static_cast<size_t>(resolve_dim(axis));
    if (i >= flags.size()) continue;  // rank 0 accepts axes 0 and -1
    if (flags[i]) user_runtime_error("dim can appear at most once, getting {}", to_text(axes));
    flags[i] = 1;
  }
  return Tensor(lathe::flip(uop(), flags));
}

Tensor Tensor::shrink(const AxisPairs& bounds) const {
  if (static_cast<int64_t>(bounds.size()) != ndim())
    value_error("shrink needs bounds for every axis: {} for shape {}", bounds.size(), shape());
  Shape offset, size;
  for (size_t i = 0; i < bounds.size(); i++) {
    const SInt& whole = shape()[i];
    offset.push_back(bounds[i].used ? bounds[i].first : SInt(0));
    size.push_back(bounds[i].used ? bounds[i].second - bounds[i].first : whole);
    const SInt &from = offset.back(), &n = size.back();
    for (const SInt& room : {from, n, whole - from - n})
      if (room.uop().bounds().hi.less(Scalar(0)) || value_of(room).value_or(0) < 0)
        value_error("invalid shrink [{}, {}) of axis {} of a dtypes.{} tensor of shape {}, allowed 0..{}",
                    expression(from.uop()), expression((from + n).uop()), i, dtype(), shape(),
                    expression(whole.uop()));
  }
  return Tensor(lathe::shrink(uop(), offset, size));
}

Tensor Tensor::shrink_to(const Shape& to) const {
  AxisPairs bounds;
  for (const SInt& d : to) bounds.push_back(is_keep(d) ? AxisPair(none) : AxisPair(0, d));
  return shrink(bounds);
}

Tensor Tensor::squeeze() const {
  Shape to;
  for (const SInt& d : shape())
    if (!(d == SInt(1))) to.push_back(d);
  return reshape(to);
}

Tensor Tensor::squeeze(int64_t dim) const {
  const size_t axis = static_cast<size_t>(resolve_dim(dim));
  if (ndim() == 0 || !(shape()[axis] == SInt(1))) return *this;
  Shape to = shape();
  to.erase(to.begin() + axis);
  return reshape(to);
}

Tensor Tensor::unsqueeze(int64_t dim) const {
  const int axis = resolve_dim(dim, 1);
  Shape to = shape();
  to.insert(to.begin() + axis, SInt(1));
  return reshape(to);
}

Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const {
  const int start = resolve_dim(start_dim), end = resolve_dim(end_dim);
  if (ndim() == 0) return reshape({1});
  Shape to(shape().begin(), shape().begin() + start);
  SInt merged = 1;
  for (int i = start; i <= end; i++) merged = merged * shape()[static_cast<size_t>(i)];
  to.push_back(merged);
  for (size_t i = static_cast<size_t>(end) + 1; i < shape().size(); i++) to.push_back(shape()[i]);
  return reshape(to);
}

Tensor Tensor::unflatten(int64_t dim, const Shape& sizes) const {
  const int axis = resolve_dim(dim);
  Shape to(shape().begin(), shape().begin() + axis);
  to.append(sizes.begin(), sizes.end());
  to.append(shape().begin() + axis + 1, shape().end());
  return reshape(to);
}

Tensor Tensor::repeat(const Ints& times) const {
  if (static_cast<int64_t>(times.size()) < ndim())
    value_error("repeat needs a number for each of {} axes, got {}", ndim(), to_text(times));
  const size_t lead = times.size() - shape().size();
  Shape split, wide, merged;
  for (size_t i = 0; i < times.size(); i++) {
    const SInt size = i < lead ? SInt(1) : shape()[i - lead];
    if (times[i] < 0) value_error("cannot repeat {} times", times[i]);
    if (times[i] != 1) {  // an axis that stays needs no split
      split.push_back(SInt(1));
      wide.push_back(SInt(times[i]));
    }
    split.push_back(size);
    wide.push_back(size);
    merged.push_back(size * SInt(times[i]));
  }
  return reshape(split).expand(wide).reshape(merged);
}

Tensor Tensor::repeat_interleave(int64_t times, std::optional<int64_t> dim) const {
  const Tensor x = dim ? *this : flatten();
  const int axis = x.resolve_dim(dim.value_or(0));
  Shape wide = x.shape(), merged = x.shape();
  wide.insert(wide.begin() + axis + 1, SInt(times));
  merged[static_cast<size_t>(axis)] = merged[static_cast<size_t>(axis)] * SInt(times);
  return x.unsqueeze(axis + 1).expand(wide).reshape(merged);
}

Tensor Tensor::roll(const Ints& shifts, const std::optional<Ints>& dims) const {
  if (!dims) return flatten().roll(shifts, Ints(0)).reshape(shape());
  if (dims->size() != shifts.size())
    user_runtime_error("shifts and dims must have the same length, got {} and {}", to_text(shifts),
                       to_text(*dims));
  Tensor out = *this;
  for (size_t i = 0; i < shifts.size(); i++) {
    const int axis = resolve_dim((*dims)[i]);
    const int64_t size = shape()[static_cast<size_t>(axis)].value();
    if (size == 0) return *this;
    const int64_t by = ((shifts[i] % size) + size) % size;
    if (by == 0) continue;
    // Two periods side by side, seen through a window of one.
    Ints times(std::vector<int64_t>(static_cast<size_t>(ndim()), 1));
    times[static_cast<size_t>(axis)] = 2;
    AxisPairs window(static_cast<size_t>(ndim()), none);
    window[static_cast<size_t>(axis)] = {SInt(size - by), SInt(2 * size - by)};
    out = out.repeat(times).shrink(window);
  }
  return out;
}

Tensor Tensor::diag() const {
  if (ndim() != 1) value_error("expect input to be 1-D, getting {}-D", ndim());
  const SInt n = shape()[0];
  // Rows of length n + 1 put each element one further to the right when they are cut into rows of n.
  return unsqueeze(-1).pad({none, {SInt(0), n}}).flatten().shrink_to({n * n}).reshape({n, n});
}

Tensor Tensor::diagonal(int64_t offset, int64_t dim0, int64_t dim1) const {
  const int a = resolve_dim(dim0), b = resolve_dim(dim1);
  if (a == b) user_runtime_error("diagonal dimensions cannot be identical, got {} and {}", dim0, dim1);
  Ints order;
  for (int i = 0; i < ndim(); i++)
    if (i != a && i != b) order.push_back(i);
  order.push_back(a);
  order.push_back(b);
  const Tensor x = permute(order);
  const size_t rank = x.shape().size();
  const int64_t rows = x.shape()[rank - 2].value(), columns = x.shape()[rank - 1].value();
  const int64_t n =
      std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  AxisPairs square(rank, none);
  square[rank - 2] = {SInt(std::max<int64_t>(0, std::min(-offset, rows))), SInt(0)};
  square[rank - 1] = {SInt(std::max<int64_t>(0, std::min(offset, columns))), SInt(0)};
  for (size_t i : {rank - 2, rank - 1}) square[i].second = square[i].first + SInt(n);
  // Cut into rows of n + 1, a row-major square has its diagonal in the first column.
  Shape flat(x.shape().begin(), x.shape().begin() + (rank - 2));
  Shape cut = flat, first = flat, out = flat;
  flat.push_back(SInt(n * n));
  cut.push_back(SInt(n));
  cut.push_back(SInt(n + 1));
  first.push_back(SInt(n));
  first.push_back(SInt(1));
  out.push_back(SInt(n));
  return x.shrink(square).reshape(flat).pad({0, n}).reshape(cut).shrink_to(first).reshape(out);
}

Tensor Tensor::unfold(int64_t dim, int64_t size, int64_t step) const {
  const int axis = resolve_dim(dim);
  if (size < 0) user_runtime_error("size must be >= 0 but got size={}", size);
  if (step <= 0) user_runtime_error("step must be > 0 but got step={}", step);
  const int64_t length = shape()[static_cast<size_t>(axis)].value();
  if (size > length)
    user_runtime_error("maximum size for tensor at dimension {} is {} but size is {}", axis, length, size);
  return transpose(axis, -1).pool(Ints(size), Ints(step)).transpose(axis, -2);
}

}  // namespace lathe
