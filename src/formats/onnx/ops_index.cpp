// Reading and writing at positions.
#include "formats/onnx/call.h"

#include <algorithm>

namespace lathe::onnx {
namespace {

using Numbers = std::vector<int64_t>;

// Positions in [0, size), counted from the end where they are negative.
Tensor wrapped(const Tensor& positions, const SInt& size) {
  return positions.lt(0).where(positions.add(Tensor(size.value())), positions);
}

int64_t product(const Numbers& v, size_t first, size_t last) {
  int64_t n = 1;
  for (size_t i = first; i < last; i++) n *= v[i];
  return n;
}

Tensor iota(int64_t n) { return Tensor::arange(0, n, 1, {DType::Int64}); }

Value gather(const Call& c) {
  const auto take = [&](const Tensor& x) {
    const auto axis = static_cast<size_t>(Call::axis(c.attr_int("axis", 0), x.ndim()));
    std::vector<TensorIndex> index(axis, TensorIndex(Slice{}));
    // A known position is movement; others become reads at computed addresses.
    if (c.value(1).is_known() && c[1].ndim() == 0)
      index.emplace_back(c.integer(1));
    else
      index.emplace_back(c[1]);
    return x.index(index);
  };
  if (c.value(0).is_tensor()) return {take(c[0]), c.type(0)};
  const Strings& s = c.strings(0);
  const Tensor at = take(iota(static_cast<int64_t>(s.items.size())).reshape(to_shape(s.shape)));
  Strings out{sizes_of(at), {}};
  for (int64_t i : integers(at)) out.items.push_back(s.items.at(static_cast<size_t>(i)));
  return out;
}

Value gather_elements(const Call& c) {
  const int64_t axis = c.attr_int("axis", 0);
  return {c[0].gather(axis, wrapped(c[1], c[0].size(axis))), c.type(0)};
}

// Rows of coordinates (…, k) over sizes[first, first + k) as flat positions.
Tensor flat_positions(const Tensor& coordinates, const Numbers& sizes, size_t first) {
  const int64_t k = coordinates.size(-1).value();
  std::optional<Tensor> out;
  for (int64_t i = 0; i < k; i++) {
    const int64_t size = sizes.at(first + static_cast<size_t>(i));
    const Tensor at = wrapped(coordinates.at(ellipsis, i).cast(DType::Int64), size);
    out = out ? out->mul(size).add(at) : at;
  }
  return out ? *out : Tensor::constant_of(coordinates.at(ellipsis, 0).shape(), 0, DType::Int64);
}

Value gather_nd(const Call& c) {
  const Tensor &x = c[0], &at = c[1];
  const Numbers sizes = sizes_of(x), places = sizes_of(at);
  if (places.empty() || c.attr_int("batch_dims", 0) < 0)
    value_error("coordinates of {}", c.value(1).to_string());
  const auto batch = static_cast<size_t>(c.attr_int("batch_dims", 0));
  const auto k = static_cast<size_t>(places.back());
  if (batch > sizes.size() || k > sizes.size() - batch)
    value_error("{} coordinates for a tensor of rank {}", k, sizes.size());
  const int64_t batches = product(sizes, 0, batch), span = product(sizes, batch, batch + k);
  const int64_t rest = product(sizes, batch + k, sizes.size());
  Tensor flat = flat_positions(at, sizes, batch).reshape({SInt(batches), SInt(-1)});
  flat = flat.add(iota(batches).mul(span).unsqueeze(-1)).flatten();
  Numbers to(places.begin(), places.end() - 1);
  to.insert(to.end(), sizes.begin() + static_cast<std::ptrdiff_t>(batch + k), sizes.end());
  return {x.reshape({SInt(batches * span), SInt(rest)}).at(flat).reshape(to_shape(to)), c.type(0)};
}

// Row at[m] of x (n, rest) takes row m of updates (m, rest), or is combined with it.
Tensor scatter_rows(const Tensor& x, const Tensor& at, const Tensor& updates, const std::string& how) {
  const SInt n = x.size(0), m = at.size(0), rest = x.size(1);
  if (how == "none" || how.empty()) return x.scatter(0, at.unsqueeze(-1).expand({m, rest}), updates);
  const Tensor hit = iota(n.value()).unsqueeze(-1).eq(at).unsqueeze(-1);  // (n, m, 1)
  const DType d = x.dtype();
  const auto spread = [&](const Scalar& otherwise) {
    return hit.where(updates.unsqueeze(0), Tensor(cast_scalar(otherwise, d), d));
  };
  if (how == "add") return x.add(spread(0).sum(1, false, d));
  if (how == "mul") return x.mul(spread(1).prod(1));
  if (how == "max") return x.maximum(spread(min_value(d)).max(1));
  if (how == "min") return x.minimum(spread(max_value(d)).min(1));
  value_error("reduction `{}` is not supported", how);
}

Value scatter_elements(const Call& c) {
  const Tensor &x = c[0], &index = c[1];
  const Numbers sizes = sizes_of(x);
  const auto axis = static_cast<size_t>(Call::axis(c.attr_int("axis", 0), x.ndim()));
  const Tensor at = wrapped(index.cast(DType::Int64), sizes[axis]);
  const std::string how = c.attr_text("reduction", "none");
  if (how == "none") return {x.scatter(static_cast<int64_t>(axis), at, c[2]), c.type(0)};
  // The flat position of every update.
  Tensor flat = Tensor::constant_of({}, 0, DType::Int64);
  for (size_t i = 0; i < sizes.size(); i++) {
    Shape along(sizes.size(), SInt(1));
    along[i] = index.shape()[i];
    flat = flat.mul(sizes[i]).add(i == axis ? at : iota(index.shape()[i].value()).reshape(along));
  }
  const Shape column{SInt(-1), SInt(1)};
  return {scatter_rows(x.reshape(column), flat.flatten(), c[2].reshape(column), how).reshape(x.shape()),
          c.type(0)};
}

Value scatter_nd(const Call& c) {
  const Numbers sizes = sizes_of(c[0]), places = sizes_of(c[1]);
  if (places.empty() || places.back() > c[0].ndim())
    value_error("coordinates {} for a tensor of rank {}", c.value(1).to_string(), c[0].ndim());
  const auto k = static_cast<size_t>(places.back());
  const SInt rest = product(sizes, k, sizes.size());
  const Tensor at = flat_positions(c[1], sizes, 0).flatten();
  return {scatter_rows(c[0].reshape({SInt(product(sizes, 0, k)), rest}), at, c[2].reshape({at.size(0), rest}),
                       c.attr_text("reduction", "none"))
              .reshape(c[0].shape()),
          c.type(0)};
}

// Rows of a cache along `axis` from a position of each batch on; circular ones go on at the start.
Tensor tensor_scatter(const Call& c) {
  const Tensor &cache = c[0], &update = c[1];
  const int64_t axis = Call::axis(c.attr_int("axis", -2), cache.ndim());
  const int64_t size = cache.size(axis).value(), written = update.size(axis).value();
  Shape along(static_cast<size_t>(cache.ndim()), SInt(1)), by_batch = along;
  along[static_cast<size_t>(axis)] = SInt(size);
  Tensor from = iota(size).reshape(along);
  if (c.has(2)) {
    by_batch[0] = cache.size(0);
    from = from.sub(c[2].cast(DType::Int64).reshape(by_batch));
  }
  if (c.attr_text("mode", "linear") == "circular") from = from.mod(Tensor(size));
  const Tensor hit = from.ge(0).bitwise_and(from.lt(Tensor(written)));
  return hit.where(update.gather(axis, hit.where(from, 0).expand(cache.shape())), cache);
}

// The k largest or smallest along an axis, equal ones in the order they stand in. An element's rank is the
// number of those that come before it.
Values top_k(const Call& c) {
  const int64_t axis = Call::axis(c.attr_int("axis", -1), c[0].ndim());
  const int64_t k = c.size() > 1 ? c.integer(1) : c.attr_int("k");
  const Tensor x = c[0].transpose(axis, -1);
  const int64_t n = x.size(-1).value();
  if (k < 0 || k > n) value_error("the {} largest of {}", k, n);
  const Tensor own = x.unsqueeze(-1), other = x.unsqueeze(-2), at = iota(n);
  const Tensor better = c.attr_flag("largest", true) ? other.gt(own) : other.lt(own);
  const Tensor earlier = other.eq(own).bitwise_and(at.lt(at.unsqueeze(-1)));
  const Tensor rank = better.bitwise_or(earlier).cast(DType::Int64).sum(-1);
  const Tensor order = iota(k).unsqueeze(-1).eq(rank.unsqueeze(-2)).where(at, 0).sum(-1).cast(DType::Int64);
  return {{x.gather(-1, order).transpose(axis, -1), c.type(0)}, order.transpose(axis, -1)};
}

Value one_hot(const Call& c) {
  const int64_t depth = c.integer(1);
  const int64_t axis = Call::axis(c.attr_int("axis", -1), c[0].ndim() + 1);
  Shape along(static_cast<size_t>(c[0].ndim() + 1), SInt(1));
  along[static_cast<size_t>(axis)] = depth;
  const Tensor at = wrapped(c[0].cast(DType::Int64), depth);
  const Tensor hit = at.unsqueeze(axis).eq(iota(depth).reshape(along));
  return {hit.where(c[2].at(1), c[2].at(0)), c.type(2)};
}

Tensor reverse_sequence(const Call& c) {
  const Tensor& x = c[0];
  const int64_t time = Call::axis(c.attr_int("time_axis", 0), x.ndim());
  const int64_t batch = Call::axis(c.attr_int("batch_axis", 1), x.ndim());
  const auto along = [&](const Tensor& t, int64_t axis) {
    Shape s(static_cast<size_t>(x.ndim()), SInt(1));
    s[static_cast<size_t>(axis)] = x.size(axis);
    return t.reshape(s);
  };
  const Tensor t = along(iota(x.size(time).value()), time), n = along(c[1].cast(DType::Int64), batch);
  return x.gather(time, t.lt(n).where(n.sub(t).sub(1), t).expand(x.shape()));
}

// Values whose shape depends on values are computed on the host.
std::vector<size_t> nonzero_positions(const Tensor& t) {
  std::vector<size_t> out;
  const std::vector<bool> hits = t.ne(Tensor(0).cast(t.dtype())).to_vector<bool>();
  for (size_t i = 0; i < hits.size(); i++)
    if (hits[i]) out.push_back(i);
  return out;
}

Tensor nonzero(const Call& c) {
  const Numbers sizes = sizes_of(c[0]);
  const std::vector<size_t> hits = nonzero_positions(c[0]);
  std::vector<int64_t> out;
  for (size_t axis = 0; axis < sizes.size(); axis++) {
    const auto inner = static_cast<size_t>(product(sizes, axis + 1, sizes.size()));
    for (size_t i : hits) out.push_back(static_cast<int64_t>(i / inner % static_cast<size_t>(sizes[axis])));
  }
  return Tensor::from(out,
                      {SInt(static_cast<int64_t>(sizes.size())), SInt(static_cast<int64_t>(hits.size()))});
}

Tensor compress(const Call& c) {
  std::vector<int64_t> at;
  for (size_t i : nonzero_positions(c[1])) at.push_back(static_cast<int64_t>(i));
  const Tensor x = c.attribute("axis") ? c[0] : c[0].flatten();
  const auto axis = static_cast<size_t>(Call::axis(c.attr_int("axis", 0), x.ndim()));
  std::vector<TensorIndex> index(axis, TensorIndex(Slice{}));
  index.emplace_back(Tensor::from(at));
  return x.index(index);
}

// Rows along an axis, each a list of numbers that compare in order.
Values unique(const Call& c) {
  const Tensor x = c.attribute("axis") ? c[0] : c[0].flatten();
  const int64_t axis = Call::axis(c.attr_int("axis", 0), x.ndim());
  const Tensor rows_first = x.transpose(0, axis);
  const auto n = static_cast<size_t>(x.size(axis).value());
  const std::vector<Scalar> all = elements(rows_first);
  const size_t width = n ? all.size() / n : 0;
  const auto row = [&](size_t i) { return std::span(all).subspan(i * width, width); };
  const auto less = [](const Scalar& a, const Scalar& b) { return a.less(b); };
  const auto before = [&](size_t a, size_t b) {
    return std::lexicographical_compare(row(a).begin(), row(a).end(), row(b).begin(), row(b).end(), less);
  };
  std::vector<size_t> firsts;  // the first row of each kind, sorted or in order of appearance
  std::vector<int64_t> counts, inverse;
  for (size_t i = 0; i < n; i++)
    if (std::none_of(firsts.begin(), firsts.end(), [&](size_t f) { return !before(f, i) && !before(i, f); }))
      firsts.push_back(i);
  if (c.attr_flag("sorted", true)) std::sort(firsts.begin(), firsts.end(), before);
  counts.assign(firsts.size(), 0);
  for (size_t i = 0; i < n; i++) {
    const auto kind =
        std::find_if(firsts.begin(), firsts.end(), [&](size_t f) { return !before(f, i) && !before(i, f); }) -
        firsts.begin();
    inverse.push_back(kind);
    counts[static_cast<size_t>(kind)]++;
  }
  std::vector<int64_t> at(firsts.begin(), firsts.end());
  const Tensor positions = Tensor::from(at);
  return {{rows_first.at(positions).transpose(0, axis), c.type(0)},
          positions,
          Tensor::from(inverse),
          Tensor::from(counts)};
}

}  // namespace

std::span<const OpRow> index_ops() {
  static const OpRow rows[] = {
      {"Compress", of<compress>},
      {"Gather", of<gather>},
      {"GatherElements", of<gather_elements>},
      {"GatherND", of<gather_nd>},
      {"NonZero", of<nonzero>},
      {"OneHot", of<one_hot>},
      {"ReverseSequence", of<reverse_sequence>},
      {"Scatter", of<scatter_elements>},
      {"ScatterElements", of<scatter_elements>},
      {"ScatterND", of<scatter_nd>},
      {"TensorScatter", of<tensor_scatter>},
      {"TopK", of<top_k>},
      {"Unique", of<unique>},
  };
  return rows;
}

}  // namespace lathe::onnx
