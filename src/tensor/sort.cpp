// Sorting. What is sorted are items: 64-bit integers with a key of 32 bits in the high half and the position
// in the low half, all different. Short runs are sorted by counting how many items are smaller than each,
// then merged in pairs; every place of a merged run finds its item by binary search (Odeh, Green, Mwassi,
// Shmueli and Birk, Merge path), so that a merge is one kernel.
#include "tensor/promote.h"
#include "tensor/select.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lathe {
namespace {

// Longest run that is sorted by counting.
constexpr int64_t kLongestCounted = 128;

// int64 in the order of x, or in the opposite order. NaN is above all numbers, whatever its sign and payload;
// both zeros are equal. Values of 64 bits keep all of them, narrower ones are in the range of int32.
Tensor sort_keys(const Tensor& x, bool descending) {
  Tensor key = x;
  if (is_float(x.dtype())) {
    const bool wide = x.dtype() == DType::Float64;
    const Tensor v = wide ? x : x.to_float();
    const Tensor one_form = v.isnan().where(NAN, v.eq(0).where(0, v));
    const Tensor bits = one_form.bitcast(wide ? DType::Int64 : DType::Int32);
    // Sign and magnitude to two's complement.
    key = bits.lt(0).where(bits.bitwise_xor(Tensor(max_value(bits.dtype()))), bits);
  }
  if (key.dtype() == DType::UInt64) key = key.bitwise_xor(Tensor(int128{1} << 63)).bitcast(DType::Int64);
  if (key.dtype() == DType::UInt32) key = key.to_long().sub(int64_t{1} << 31);
  key = key.to_long();
  return descending ? key.bitwise_not() : key;
}

Tensor positions(const Tensor& items) { return items.bitwise_and(Tensor(int64_t{0xffffffff})).to_int(); }

// The first `kept` items in order of each run of `length` (rows, runs * length): (rows, runs * kept).
Tensor sort_runs(const Tensor& items, int64_t length, int64_t kept) {
  const SInt rows = items.shape()[0];
  const Tensor runs = items.reshape({rows, SInt(-1), SInt(length)});
  const Tensor rank =
      runs.unsqueeze(-2).lt(runs.unsqueeze(-1)).cast(DType::Int32).sum(-1).contiguous().unsqueeze(-2);
  const Tensor place = Tensor::arange(kept).unsqueeze(-1);
  return rank.eq(place).where(runs.unsqueeze(-2), 0).sum(-1).reshape({rows, SInt(-1)});
}

// Neighbouring runs of `length` items merged; the first `kept` of each pair.
Tensor merge_pairs(const Tensor& items, int64_t length, int64_t kept) {
  const SInt outputs(items.shape()[1].value() / (2 * length) * kept);
  const Tensor at = Tensor::arange(outputs.value()).expand({items.shape()[0], outputs});
  const Tensor first = at.div_floor(kept).mul(2 * length), second = first.add(length), k = at.mod(kept);
  const auto item = [&](const Tensor& i) { return items.gather(1, i); };
  // Of the first k merged items, n come from the first run.
  const Tensor n = partition_point(
      k.sub(length).maximum(0), k.minimum(length), std::min(length, kept - 1),
      [&](const Tensor& n) { return item(first.add(n).sub(1)).lt(item(second.add(k).sub(n))); });
  const Tensor i = first.add(n), j = second.add(k).sub(n);
  const Tensor second_is_used_up = k.sub(n).ge(length);
  const Tensor from_first = n.lt(length).bitwise_and(second_is_used_up.bitwise_or(item(i).lt(item(j))));
  return item(from_first.where(i, j));
}

// Positions of the first `kept` of each row of keys (rows, n) in the range of int32; equal keys stay in
// order.
Tensor order_of_words(const Tensor& keys, int64_t kept) {
  const int64_t n = keys.shape()[1].value();
  auto runs =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((n + kLongestCounted - 1) / kLongestCounted)));
  int64_t length = (n + runs - 1) / runs;
  // What fills the last runs stands behind every element, equal ones included.
  const Tensor filled = keys.pad_to({SInt(-1), SInt(length * runs)}, max_value(DType::Int32));
  Tensor items = filled.lshift(Tensor(32)).bitwise_or(Tensor::arange(length * runs)).contiguous();
  items = sort_runs(items, length, std::min(length, kept));
  for (length = std::min(length, kept); runs > 1; runs /= 2) {
    const int64_t merged = std::min(2 * length, kept);
    items = merge_pairs(items.contiguous(), length, merged);
    length = merged;
  }
  return positions(items.shrink_to({SInt(-1), SInt(kept)})).contiguous();
}

Tensor order_of_rows(const Tensor& x, int64_t kept, bool descending) {
  const Tensor keys = sort_keys(x, descending);
  if (item_size(x.dtype()) < 8) return order_of_words(keys, kept);
  // By the low words, then by the high ones.
  const Tensor low = keys.bitwise_and(Tensor(int64_t{0xffffffff})).sub(int64_t{1} << 31);
  const Tensor by_low = order_of_words(low, keys.shape()[1].value());
  return by_low.gather(1, order_of_words(keys.rshift(Tensor(32)).gather(1, by_low), kept));
}

}  // namespace

Tensor partition_point(const Tensor& low, const Tensor& high, int64_t span,
                       const std::function<Tensor(const Tensor&)>& before) {
  Tensor p = low;
  for (auto step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(span))); step > 0; step /= 2) {
    const Tensor next = p.add(step);
    p = next.le(high).bitwise_and(before(next)).where(next, p);
  }
  return p;
}

Tensor Tensor::argsort(int64_t dim, bool descending) const { return sort(dim, descending).indices; }

ValuesAndIndices Tensor::sort(int64_t dim, bool descending) const {
  resolve_dim(dim);
  if (ndim() == 0) return {*this, constant_of({}, 0, DType::Int32)};
  return topk(size(dim).value(), dim, descending);
}

ValuesAndIndices Tensor::topk(int64_t k, int64_t dim, bool largest) const {
  const int axis = resolve_dim(dim);
  if (k < 0 || k > (ndim() == 0 ? 1 : size(dim).value()))
    value_error("selected index k={} is out of range", k);
  if (ndim() == 0) return {*this, constant_of({}, 0, DType::Int32)};
  Shape kept = shape();
  kept[static_cast<size_t>(axis)] = k;
  if (lathe::prod(kept) == SInt(0))
    return {constant_of(kept, 0, dtype()), constant_of(kept, 0, DType::Int32)};
  if (device().empty()) return clone().topk(k, dim, largest);
  const Tensor last = transpose(axis, -1);
  std::swap(kept[static_cast<size_t>(axis)], kept.back());
  const Tensor order = order_of_rows(last.reshape({SInt(-1), last.shape().back()}), k, largest);
  const Tensor indices = order.reshape(kept).transpose(axis, -1);
  return {gather(axis, indices), indices};
}

}  // namespace lathe
