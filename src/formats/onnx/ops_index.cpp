// Reading and writing at positions.
#include "formats/onnx/call.h"

#include <algorithm>
#include <map>

namespace lathe::onnx {
namespace {

using Numbers = std::vector<int64_t>;

// Positions in [0, size), counted from the end where they are negative.
Tensor wrapped(const Tensor& positions, const SInt& size) {
  return positions.lt(0).where(positions.add(Tensor(size.value())), positions);
}

Value gather(const Call& c) {
  return moved(c.value(0), [&](const Tensor& x) {
    const int64_t axis = Call::axis(c.attr_int("axis", 0), x.ndim());
    // A known position is movement; others become reads at computed addresses.
    if (c.value(1).is_known() && c[1].ndim() == 0) return picked(x, axis, c.integer(1));
    return picked(x, axis, c[1]);
  });
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
  const std::span<const int64_t> all(sizes);
  const int64_t batches = product(all.first(batch)), span = product(all.subspan(batch, k)),
                rest = product(all.subspan(batch + k));
  Tensor flat = flat_positions(at, sizes, batch).reshape({SInt(batches), SInt(-1)});
  flat = flat.add(positions(batches).mul(span).unsqueeze(-1)).flatten();
  Numbers to(places.begin(), places.end() - 1);
  to.insert(to.end(), sizes.begin() + static_cast<std::ptrdiff_t>(batch + k), sizes.end());
  return {x.reshape({SInt(batches * span), SInt(rest)}).at(flat).reshape(to_shape(to)), c.type(0)};
}

// How updates meet what is there; nothing where they replace it.
std::optional<ScatterReduction> reduction_of(const Call& c) {
  static const std::map<std::string, ScatterReduction> kReductions{{"add", ScatterReduction::Sum},
                                                                   {"mul", ScatterReduction::Prod},
                                                                   {"max", ScatterReduction::Max},
                                                                   {"min", ScatterReduction::Min}};
  const std::string how = c.attr_text("reduction", "none");
  if (how == "none") return std::nullopt;
  const auto it = kReductions.find(how);
  if (it == kReductions.end()) value_error("reduction `{}` is not supported", how);
  return it->second;
}

Tensor scattered(const Call& c, const Tensor& x, int64_t axis, const Tensor& at, const Tensor& updates) {
  const auto reduction = reduction_of(c);
  return reduction ? x.scatter_reduce(axis, at, updates, *reduction) : x.scatter(axis, at, updates);
}

Value scatter_elements(const Call& c) {
  const int64_t axis = Call::axis(c.attr_int("axis", 0), c[0].ndim());
  return {scattered(c, c[0], axis, wrapped(c[1], c[0].size(axis)), c[2]), c.type(0)};
}

Value scatter_nd(const Call& c) {
  const Numbers sizes = sizes_of(c[0]), places = sizes_of(c[1]);
  if (places.empty() || places.back() > c[0].ndim())
    value_error("coordinates {} for a tensor of rank {}", c.value(1).to_string(), c[0].ndim());
  const auto k = static_cast<size_t>(places.back());
  // Rows of what the coordinates leave open.
  const Shape rows{SInt(product(std::span(sizes).first(k))), SInt(product(std::span(sizes).subspan(k)))};
  const Tensor at = flat_positions(c[1], sizes, 0).flatten().unsqueeze(-1);
  const Shape written{at.size(0), rows[1]};
  const Tensor y = scattered(c, c[0].reshape(rows), 0, at.expand(written), c[2].reshape(written));
  return {y.reshape(c[0].shape()), c.type(0)};
}

// Rows of a cache along `axis` from a position of each batch on; circular ones go on at the start.
Tensor tensor_scatter(const Call& c) {
  const Tensor &cache = c[0], &update = c[1];
  const int64_t axis = Call::axis(c.attr_int("axis", -2), cache.ndim());
  const int64_t size = cache.size(axis).value(), written = update.size(axis).value();
  Tensor from = along(positions(size), axis, cache.ndim());
  if (c.has(2)) from = from.sub(along(c[2].cast(DType::Int64), 0, cache.ndim()));
  if (c.attr_text("mode", "linear") == "circular") from = from.mod(Tensor(size));
  const Tensor hit = from.ge(0).bitwise_and(from.lt(Tensor(written)));
  return hit.where(update.gather(axis, hit.where(from, 0).expand(cache.shape())), cache);
}

Values top_k(const Call& c) {
  const int64_t k = c.size() > 1 ? c.integer(1) : c.attr_int("k");
  const auto [values, indices] = c[0].topk(k, c.attr_int("axis", -1), c.attr_flag("largest", true));
  return {{values, c.type(0)}, indices.cast(DType::Int64)};
}

Value one_hot(const Call& c) {
  const int64_t depth = c.integer(1), rank = c[0].ndim() + 1, axis = Call::axis(c.attr_int("axis", -1), rank);
  const Tensor at = wrapped(c[0].cast(DType::Int64), depth).unsqueeze(axis);
  return {at.eq(along(positions(depth), axis, rank)).where(c[2].at(1), c[2].at(0)), c.type(2)};
}

Tensor reverse_sequence(const Call& c) {
  const Tensor& x = c[0];
  const int64_t rank = x.ndim(), time = Call::axis(c.attr_int("time_axis", 0), rank),
                batch = Call::axis(c.attr_int("batch_axis", 1), rank);
  const Tensor t = along(positions(x.size(time).value()), time, rank),
               n = along(c[1].cast(DType::Int64), batch, rank);
  return x.gather(time, t.lt(n).where(n.sub(t).sub(1), t).expand(x.shape()));
}

// Values whose shape depends on values are computed on the host.
Numbers nonzero_positions(const Tensor& t) {
  Numbers out;
  const std::vector<Scalar> all = elements(t.ne(0));
  for (size_t i = 0; i < all.size(); i++)
    if (all[i].as_bool()) out.push_back(static_cast<int64_t>(i));
  return out;
}

Tensor nonzero(const Call& c) {
  const Numbers sizes = sizes_of(c[0]), hits = nonzero_positions(c[0]);
  Numbers out;
  for (size_t axis = 0; axis < sizes.size(); axis++) {
    const int64_t inner = product(std::span(sizes).subspan(axis + 1));
    for (int64_t i : hits) out.push_back(i / inner % sizes[axis]);
  }
  return Tensor::from(out, to_shape({c[0].ndim(), static_cast<int64_t>(hits.size())}));
}

Value compress(const Call& c) {
  const Tensor x = c.attribute("axis") ? c[0] : c[0].flatten();
  const int64_t axis = Call::axis(c.attr_int("axis", 0), x.ndim());
  return {picked(x, axis, Tensor::from(nonzero_positions(c[1]))), c.type(0)};
}

// Rows along an axis, each a list of numbers that compare in order.
Values unique(const Call& c) {
  const Tensor x = c.attribute("axis") ? c[0] : c[0].flatten();
  const int64_t axis = Call::axis(c.attr_int("axis", 0), x.ndim()), n = x.size(axis).value();
  const Tensor rows_first = x.transpose(0, axis);
  const std::vector<Scalar> all = elements(rows_first);
  const size_t width = n ? all.size() / static_cast<size_t>(n) : 0;
  const auto row = [&](int64_t i) { return std::span(all).subspan(static_cast<size_t>(i) * width, width); };
  const auto before = [&](int64_t a, int64_t b) {
    return std::lexicographical_compare(row(a).begin(), row(a).end(), row(b).begin(), row(b).end(),
                                        [](const Scalar& v, const Scalar& w) { return v.less(w); });
  };
  std::map<int64_t, size_t, decltype(before)> kinds(before);  // by the first row of each
  Numbers firsts, counts, inverse;
  for (int64_t i = 0; i < n; i++)
    if (kinds.emplace(i, 0).second) firsts.push_back(i);
  if (c.attr_flag("sorted", true)) std::ranges::sort(firsts, before);
  for (size_t k = 0; k < firsts.size(); k++) kinds[firsts[k]] = k;
  counts.assign(firsts.size(), 0);
  for (int64_t i = 0; i < n; i++) {
    const size_t kind = kinds[i];
    inverse.push_back(static_cast<int64_t>(kind));
    counts[kind]++;
  }
  const Tensor at = Tensor::from(firsts);
  return {{rows_first.at(at).transpose(0, axis), c.type(0)}, at, Tensor::from(inverse), Tensor::from(counts)};
}

constexpr OpRow kRows[] = {
    OpRow{"Compress", of<compress>}.by_values(), {"Gather", of<gather>},
    {"GatherElements", of<gather_elements>},     {"GatherND", of<gather_nd>},
    OpRow{"NonZero", of<nonzero>}.by_values(),   {"OneHot", of<one_hot>},
    {"ReverseSequence", of<reverse_sequence>},   {"Scatter", of<scatter_elements>},
    {"ScatterElements", of<scatter_elements>},   {"ScatterND", of<scatter_nd>},
    {"TensorScatter", of<tensor_scatter>},       {"TopK", of<top_k>},
    OpRow{"Unique", of<unique>}.by_values(),
};

}  // namespace

std::span<const OpRow> index_ops() { return kRows; }

}  // namespace lathe::onnx
