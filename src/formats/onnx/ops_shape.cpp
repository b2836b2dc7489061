// Shapes and movement.
#include "formats/onnx/call.h"
#include "formats/onnx/session.h"

#include <algorithm>
#include <numeric>

namespace lathe::onnx {
namespace {

using Numbers = std::vector<int64_t>;

Tensor from_numbers(const Numbers& v) {
  std::vector<Scalar> elements(v.begin(), v.end());
  return from_elements(elements, {SInt(static_cast<int64_t>(v.size()))}, DType::Int64);
}

// Sorted axes in [0, rank).
Numbers resolved(Numbers axes, int64_t rank) {
  for (int64_t& a : axes) a = Call::axis(a, rank);
  std::ranges::sort(axes);
  return axes;
}

// The axes given, or the first n.
Numbers or_first(Numbers axes, size_t n) {
  if (!axes.empty()) return axes;
  axes.resize(n);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Value shape_of(const Call& c) {
  const Numbers all = c.value(0).shape();
  const auto rank = static_cast<int64_t>(all.size());
  const auto bound = [&](std::string_view name, int64_t otherwise) {
    const int64_t v = c.attr_int(name, otherwise);
    return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank);
  };
  const int64_t first = bound("start", 0), last = std::max(first, bound("end", rank));
  return Value(from_numbers({all.begin() + first, all.begin() + last})).known();
}

Value size_of(const Call& c) {
  return Value(Tensor::constant_of({}, product(c.value(0).shape()), DType::Int64)).known();
}

Value reshape(const Call& c) {
  Numbers to = c.ints_or_attr(1, "shape");
  const Numbers from = c.value(0).shape();
  if (!c.attr_flag("allowzero"))
    for (size_t i = 0; i < to.size(); i++)
      if (to[i] == 0 && i < from.size()) to[i] = from[i];
  return moved(c.value(0), [&](const Tensor& x) { return x.reshape(to_shape(to)); });
}

Value flatten(const Call& c) {
  const Numbers from = c.value(0).shape();
  // It may stand behind the last axis.
  const auto rank = static_cast<int64_t>(from.size());
  const int64_t axis = c.attr_int("axis", 1), at = axis == rank ? rank : Call::axis(axis, rank);
  const auto rows = std::span(from).first(static_cast<size_t>(at)),
             columns = std::span(from).subspan(rows.size());
  return moved(c.value(0), [&](const Tensor& x) { return x.reshape({product(rows), product(columns)}); });
}

Value squeeze(const Call& c) {
  Numbers shape = c.value(0).shape();
  Numbers axes = resolved(c.ints_or_attr(1, "axes"), static_cast<int64_t>(shape.size()));
  if (axes.empty())
    for (size_t i = 0; i < shape.size(); i++)
      if (shape[i] == 1) axes.push_back(static_cast<int64_t>(i));
  for (size_t i = axes.size(); i-- > 0;) shape.erase(shape.begin() + axes[i]);
  return moved(c.value(0), [&](const Tensor& x) { return x.reshape(to_shape(shape)); });
}

Value unsqueeze(const Call& c) {
  Numbers shape = c.value(0).shape();
  const Numbers given = c.ints_or_attr(1, "axes");
  const auto rank = static_cast<int64_t>(shape.size() + given.size());
  for (int64_t a : resolved(given, rank)) {
    if (a > static_cast<int64_t>(shape.size())) index_error("axis {} of a tensor of rank {}", a, rank);
    shape.insert(shape.begin() + a, 1);
  }
  return moved(c.value(0), [&](const Tensor& x) { return x.reshape(to_shape(shape)); });
}

Value transpose(const Call& c) {
  Numbers order = or_first({}, c.value(0).shape().size());
  std::reverse(order.begin(), order.end());
  order = c.attr_ints("perm", order);
  return moved(c.value(0), [&](const Tensor& x) { return x.permute(order); });
}

// Whether elements are sums over others. Such a part of a whole is computed in memory of its own: the padding
// that gives it its place there would have the sums taken in the places of the other parts too.
bool sums(const Tensor& t) {
  const auto in_memory = [](const UOp& u) { return u.op() == Op::Buffer || u.op() == Op::Contiguous; };
  const NodeList nodes = toposort(t.uop(), [&](const UOp& u) { return !in_memory(u); });
  return std::ranges::any_of(nodes, [](const UOp& u) { return u.op() == Op::Reduce && u.device() != ""; });
}

Value concat(const Call& c) {
  const int64_t axis = c.attr_int("axis", 1);
  if (c.value(0).is_tensor()) {
    std::vector<Tensor> parts = c.tensors();
    for (Tensor& t : parts)
      if (sums(t)) t = t.contiguous();
    return {Tensor::cat(parts, axis), c.type(0)};
  }
  if (c.strings(0).shape.size() != 1)
    type_error("strings of rank {} cannot be joined", c.strings(0).shape.size());
  Strings out;
  for (size_t i = 0; i < c.size(); i++)
    out.items.insert(out.items.end(), c.strings(i).items.begin(), c.strings(i).items.end());
  out.shape = {static_cast<int64_t>(out.items.size())};
  return out;
}

Values split(const Call& c) {
  const int64_t axis = c.attr_int("axis", 0);
  const int64_t size = c[0].size(axis).value(),
                n = c.attr_int("num_outputs", static_cast<int64_t>(c.n_outputs()));
  Numbers sizes = c.ints_or_attr(1, "split");
  const int64_t piece = (size + n - 1) / std::max<int64_t>(n, 1);
  for (int64_t left = size; sizes.empty() || left > 0;) {
    if (c.has(1) || c.attribute("split")) break;
    sizes.push_back(std::min(piece, left));
    left -= piece;
  }
  Values out;
  for (const Tensor& t : c[0].split(sizes, axis)) out.emplace_back(t, c.type(0));
  return out;
}

Value slice(const Call& c) {
  const Numbers starts = c.ints_or_attr(1, "starts"), ends = c.ints_or_attr(2, "ends");
  const Numbers axes = or_first(c.ints_or_attr(3, "axes"), starts.size()),
                steps = c.integers(4, Numbers(starts.size(), 1));
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size())
    value_error("{} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(), axes.size(),
                steps.size());
  const auto rank = static_cast<int64_t>(c.value(0).shape().size());
  std::vector<TensorIndex> index(static_cast<size_t>(rank), TensorIndex(Slice{}));
  for (size_t i = 0; i < axes.size(); i++)
    index.at(static_cast<size_t>(Call::axis(axes[i], rank))) = Slice{starts[i], ends[i], steps[i]};
  return moved(c.value(0), [&](const Tensor& x) { return x.index(index); });
}

Value expand(const Call& c) {
  return moved(c.value(0), [&](const Tensor& x) {
    const Shape shapes[] = {x.shape(), to_shape(c.integers(1))};
    return x.expand(broadcast_shapes(shapes));
  });
}

Value tile(const Call& c) {
  Numbers times = c.integers(1);
  // Opset 1 gave one number of tiles and one axis.
  if (c.opset() < 6 && c.size() == 3) {
    const int64_t axis = c.integer(2), n = times.at(0);
    times.assign(static_cast<size_t>(c[0].ndim()), 1);
    times.at(static_cast<size_t>(axis)) = n;
  }
  return moved(c.value(0), [&](const Tensor& x) { return x.repeat(times); });
}

Value pad(const Call& c) {
  const Tensor& x = c[0];
  const auto rank = static_cast<size_t>(x.ndim());
  const Numbers given = c.ints_or_attr(1, c.opset() < 2 ? "paddings" : "pads");
  const Numbers axes = or_first(c.integers(3, {}), rank);
  if (given.size() != 2 * axes.size()) value_error("{} pads for {} axes", given.size(), axes.size());
  AxisPairs pads(rank, AxisPair(0, 0));
  for (size_t i = 0; i < axes.size(); i++)
    pads.at(static_cast<size_t>(Call::axis(axes[i], x.ndim()))) = {SInt(given[i]),
                                                                   SInt(given[axes.size() + i])};
  const std::string mode = c.attr_text("mode", "constant");
  if (mode == "constant") {
    const Scalar fill = c.has(2) ? elements(c[2]).at(0) : Scalar(c.attr_real("value", 0));
    return {x.pad(pads, PadMode::Constant, cast_scalar(fill, x.dtype())), c.type(0)};
  }
  return {x.pad(pads, mode == "reflect" ? PadMode::Reflect
                      : mode == "edge"  ? PadMode::Replicate
                                        : PadMode::Circular),
          c.type(0)};
}

Value constant(const Call& c) {
  if (c.attribute("value")) return c.attr_value("value");
  if (const Attribute* sparse = c.attribute("sparse_value"); sparse && !sparse->sparse.empty()) {
    DataFiles files = c.scope().files();
    return to_value(sparse->sparse[0], files);
  }
  if (c.attribute("value_float")) return Tensor(Scalar(c.attr_real("value_float")), DType::Float32);
  if (c.attribute("value_int")) return Tensor(Scalar(c.attr_int("value_int")), DType::Int64);
  if (c.attribute("value_string")) return Strings{{}, {c.attr_text("value_string")}};
  if (c.attribute("value_ints")) return from_numbers(c.attr_ints("value_ints"));
  if (c.attribute("value_floats")) return Tensor::from(c.attr_reals("value_floats"));
  if (c.attribute("value_strings")) {
    const auto texts = c.attr_texts("value_strings");
    return Strings{{static_cast<int64_t>(texts.size())}, texts};
  }
  value_error("a constant without value");
}

Value constant_of_shape(const Call& c) {
  const Shape shape = to_shape(c.integers(0));
  if (!c.attribute("value")) return Tensor::constant_of(shape, 0.0, DType::Float32);
  const Value v = c.attr_value("value");
  return {v.tensor().reshape({}).expand(shape), v.type()};
}

Tensor range(const Call& c) {
  const DType d = c[0].dtype();
  const Scalar start = elements(c[0]).at(0), limit = elements(c[1]).at(0), delta = elements(c[2]).at(0);
  return Tensor::arange(start, limit, delta, {d});
}

Tensor eye_like(const Call& c) {
  const int64_t rows = c[0].size(0).value(), columns = c[0].size(1).value();
  const DType d = c.attribute("dtype") ? known_element(static_cast<ElementType>(c.attr_int("dtype"))).dtype
                                       : c[0].dtype();
  return Tensor::arange(0, rows)
      .unsqueeze(-1)
      .add(Tensor(c.attr_int("k", 0)))
      .eq(Tensor::arange(0, columns))
      .cast(d);
}

Value trilu(const Call& c) {
  const int64_t k = c.integer(1, 0);
  return {c.attr_flag("upper", true) ? c[0].triu(k) : c[0].tril(k), c.type(0)};
}

int64_t block_size(const Call& c) {
  const int64_t b = c.attr_int("blocksize");
  if (b < 1) value_error("blocks of {}", b);
  return b;
}

Tensor depth_to_space(const Call& c) {
  const int64_t b = block_size(c);
  const bool is_crd = c.attr_text("mode", "DCR") == "CRD";
  return c[0].rearrange(is_crd ? "n (d i j) h w -> n d (h i) (w j)" : "n (i j d) h w -> n d (h i) (w j)",
                        {{"i", b}, {"j", b}});
}

Tensor space_to_depth(const Call& c) {
  const int64_t b = block_size(c);
  return c[0].rearrange("n d (h i) (w j) -> n (i j d) h w", {{"i", b}, {"j", b}});
}

Tensor center_crop_pad(const Call& c) {
  Tensor x = c[0];
  const Numbers sizes = c.integers(1);
  const Numbers axes = or_first(c.attr_ints("axes"), sizes.size());
  for (size_t i = 0; i < axes.size(); i++) {
    const auto at = static_cast<size_t>(Call::axis(axes[i], x.ndim()));
    const int64_t have = x.shape()[at].value(), extra = sizes.at(i) - have;
    AxisPairs pads(x.shape().size(), AxisPair(0, 0));
    // An odd element is cut in front and added behind.
    const int64_t before = extra >= 0 ? extra / 2 : -(-extra / 2);
    pads[at] = {SInt(before), SInt(extra - before)};
    x = x.pad(pads);
  }
  return x;
}

constexpr OpRow kRows[] = {
    {"CenterCropPad", of<center_crop_pad>},
    {"Concat", of<concat>},
    {"Constant", of<constant>},
    {"ConstantOfShape", of<constant_of_shape>},
    {"DepthToSpace", of<depth_to_space>},
    {"Expand", of<expand>},
    {"EyeLike", of<eye_like>},
    {"Flatten", of<flatten>},
    {"Pad", of<pad>},
    {"Range", of<range>},
    {"Reshape", of<reshape>},
    {"Shape", of<shape_of>},
    {"Size", of<size_of>},
    {"Slice", of<slice>},
    {"SpaceToDepth", of<space_to_depth>},
    {"Split", of<split>},
    {"Squeeze", of<squeeze>},
    {"Tile", of<tile>},
    {"Transpose", of<transpose>},
    {"Trilu", of<trilu>},
    {"Trilu", of<trilu>, kMicrosoft},
    {"Unsqueeze", of<unsqueeze>},
};

}  // namespace

std::span<const OpRow> shape_ops() { return kRows; }

}  // namespace lathe::onnx
