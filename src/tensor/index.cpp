// Indexing: slices and positions are movement, integer tensors become one-hot masks that the compiler turns
// into loads.
#include "runtime/device.h"
#include "tensor/place.h"
#include "tensor/promote.h"
#include "tensor/select.h"
#include "tensor/state.h"
#include "tensor/view.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

// One axis of the result of basic indexing, or one that a position removes.
struct AxisIndex {
  SInt low, high;    // elements [low, high) of the axis
  int64_t step = 1;  // negative: backwards
  bool removed = false;
  bool added = false;  // newaxis; consumes no axis
  std::optional<Tensor> positions;
};

std::string bound_text(const Bound& b) {
  if (!b.value) return "None";
  return b.value->is_const() ? std::to_string(b.value->value()) : expression(b.value->uop());
}
std::string slice_text(const Slice& s) {
  return fmt::format("slice({}, {}, {})", bound_text(s.start), bound_text(s.stop), s.step);
}

bool is_symbolic(const Bound& b) { return b.value && !b.value->is_const(); }

AxisIndex from_symbolic_slice(const Slice& s, const SInt& size) {
  if (s.step != 1) user_runtime_error("slice {} of symbolic size needs step 1", slice_text(s));
  const auto resolve = [&](const Bound& b, const SInt& open) {
    if (!b.value) return open;
    return b.value->is_const() && b.value->value() < 0 ? size + *b.value : *b.value;
  };
  AxisIndex out;
  out.low = resolve(s.start, SInt(0));
  out.high = resolve(s.stop, size);
  const SInt length = out.high - out.low;
  if (length.is_const() ? length.value() < 0 : length.uop().bounds().lo.less(Scalar(0)))
    user_runtime_error("slice {} of size {} may have negative length", slice_text(s), Shape{size});
  return out;
}

AxisIndex from_slice(const Slice& s, const SInt& size) {
  if (s.step == 0) value_error("index={} cannot have 0 as step", slice_text(s));
  if (is_symbolic(s.start) || is_symbolic(s.stop) || !size.is_const()) return from_symbolic_slice(s, size);
  const int64_t n = size.value();
  const int64_t lowest = s.step > 0 ? 0 : -1, highest = s.step > 0 ? n : n - 1;
  const auto clamped = [&](const Bound& b, int64_t open) {
    if (!b.value) return open;
    const int64_t v = b.value->value();
    return std::clamp(v < 0 ? v + n : v, lowest, highest);
  };
  const int64_t start = clamped(s.start, s.step > 0 ? lowest : highest);
  const int64_t stop = clamped(s.stop, s.step > 0 ? highest : lowest);
  AxisIndex out;
  out.step = s.step;
  if ((stop - start) * (s.step > 0 ? 1 : -1) <= 0) {
    out.low = out.high = 0;
  } else {
    out.low = s.step > 0 ? start : stop + 1;
    out.high = s.step > 0 ? stop : start + 1;
  }
  return out;
}

// IndexError where position `i` is outside the axis for certain. Negative numbers count from its end.
void check_position(const SInt& i, const Tensor& x, size_t axis) {
  if (!x.shape()[axis].is_const()) return;
  const int64_t size = x.shape()[axis].value();
  const int64_t lowest = i.is_const() ? -size : 0;
  const UOp position = i.uop();
  const Bounds& b = position.bounds();
  if (b.lo.less(Scalar(size)) && !b.hi.less(Scalar(lowest))) return;
  index_error("index={} is out of bounds with size={}: axis {} of a dtypes.{} tensor of shape {}{}",
              expression(position), size, axis, x.dtype(), x.shape(),
              size ? fmt::format(" allows {}..{}", lowest, size - 1) : "");
}

AxisIndex from_position(const SInt& i, const Tensor& x, size_t axis) {
  check_position(i, x, axis);
  AxisIndex out;
  out.removed = true;
  out.low = i.is_const() && i.value() < 0 ? x.shape()[axis] + i : i;
  out.high = out.low + SInt(1);
  return out;
}

AxisIndex from_tensor(const Tensor& positions, const SInt& size, const std::string& device) {
  if (!is_int(positions.dtype())) index_error("index dtype dtypes.{} is not supported", positions.dtype());
  if (!device.empty() && !positions.device().empty() && device != positions.device())
    user_runtime_error("expected index and tensor on the same device, got {} and {}", positions.device(),
                       device);
  AxisIndex out;
  out.low = 0;
  out.high = size;
  out.positions = is_unsigned(positions.dtype())
                      ? positions
                      : positions.lt(0).where(positions.add(Tensor(size.uop())), positions);
  return out;
}

Tensor from_list(const std::vector<Scalar>& list, const std::string& device) {
  std::vector<int32_t> values;
  for (const Scalar& v : list) {
    if (!v.is_int()) {
      std::string text;
      for (const Scalar& item : list) {
        const std::string one = item.is_bool() ? (item.as_bool() ? "True" : "False") : item.to_string();
        text += (text.empty() ? "" : ", ") + one;
      }
      index_error("index=[{}] contains non-int element", text);
    }
    values.push_back(static_cast<int32_t>(v.as_i64()));
  }
  return Tensor::from(values, {DType::Int32, device});
}

// One entry an axis, ellipsis resolved, open axes at the end filled in.
std::vector<AxisIndex> parse(const std::vector<TensorIndex>& given, const Tensor& x) {
  size_t used = 0, ellipses = 0;
  for (const TensorIndex& i : given) {
    if (i.get_if<Ellipsis>())
      ellipses++;
    else if (!i.get_if<NewAxis>())
      used++;
  }
  if (ellipses > 1) index_error("indices can only have a single ellipsis");
  const size_t rank = x.shape().size();
  if (used > rank) index_error("too many indices ({}) for {}D", used, rank);
  std::vector<AxisIndex> out;
  size_t axis = 0;
  const auto fill = [&] {
    for (size_t n = rank - used; n > 0; n--) out.push_back(from_slice({}, x.shape()[axis++]));
  };
  for (const TensorIndex& i : given) {
    if (i.get_if<Ellipsis>()) {
      fill();
    } else if (i.get_if<NewAxis>()) {
      out.emplace_back();
      out.back().added = true;
    } else if (const auto* position = i.get_if<SInt>()) {
      out.push_back(from_position(*position, x, axis++));
    } else if (const auto* slice = i.get_if<Slice>()) {
      out.push_back(from_slice(*slice, x.shape()[axis++]));
    } else if (const auto* list = i.get_if<std::vector<Scalar>>()) {
      out.push_back(from_tensor(from_list(*list, x.device()), x.shape()[axis++], x.device()));
    } else {
      out.push_back(from_tensor(*i.get_if<Tensor>(), x.shape()[axis++], x.device()));
    }
  }
  if (!ellipses) fill();
  return out;
}

// Every `step`th element of an axis: cut into rows of `step`, first column.
Tensor strided(const Tensor& x, const std::vector<AxisIndex>& axes) {
  Shape padded, cut, first, out;
  size_t axis = 0;
  for (const AxisIndex& a : axes) {
    if (a.added) continue;
    const SInt size = x.shape()[axis++];
    const int64_t step = std::abs(a.step);
    if (step == 1) {
      for (Shape* s : {&padded, &cut, &first, &out}) s->push_back(size);
      continue;
    }
    const int64_t n = (size.value() + step - 1) / step;
    padded.push_back(SInt(n * step));
    cut.push_back(SInt(n));
    cut.push_back(SInt(step));
    first.push_back(SInt(n));
    first.push_back(SInt(1));
    out.push_back(SInt(n));
  }
  return x.pad_to(padded).reshape(cut).shrink_to(first).reshape(out);
}

// The result of everything but tensors; axes that tensors index are left whole.
Tensor select_basic(const Tensor& x, const std::vector<AxisIndex>& axes) {
  AxisPairs bounds;
  Ints backwards;
  bool steps = false;
  for (const AxisIndex& a : axes) {
    if (a.added) continue;
    if (a.step < 0) backwards.push_back(static_cast<int64_t>(bounds.size()));
    steps = steps || std::abs(a.step) != 1;
    bounds.emplace_back(a.low, a.high);
  }
  Tensor out = x.shrink(bounds).flip(backwards);
  if (steps) out = strided(out, axes);
  Shape to;
  size_t axis = 0;
  for (const AxisIndex& a : axes) {
    if (a.added) {
      to.push_back(SInt(1));
      continue;
    }
    if (!a.removed) to.push_back(out.shape()[axis]);
    axis++;
  }
  return out.reshape(to);
}

// Tensors in an index, over the result of select_basic.
struct Gathers {
  std::vector<int> dims;  // axes they index
  std::vector<Tensor> positions;
  Shape common;  // their broadcast shape
  // Where the common axes stand: at dims[0], or in front when another index separates the tensors.
  bool in_front = false;

  Gathers(const std::vector<AxisIndex>& axes) {
    int dim = 0;
    std::vector<Shape> shapes;
    for (const AxisIndex& a : axes) {
      if (a.positions) {
        dims.push_back(dim);
        positions.push_back(*a.positions);
        shapes.push_back(a.positions->shape());
      }
      if (!a.removed) dim++;
    }
    if (dims.empty()) return;
    try {
      common = broadcast_shapes(shapes);
    } catch (const UserError& e) {
      index_error("cannot broadcast indices: {}", e.what());
    }
    const bool adjacent = dims.back() - dims.front() + 1 == static_cast<int>(dims.size());
    in_front = dims[0] != 0 && !adjacent;
  }
  int n_common() const { return static_cast<int>(common.size()); }
  Axes common_axes() const {
    Ints axes;
    for (int i = 0; i < n_common(); i++) axes.push_back(dims[0] + i);
    return axes;
  }
  // x with size-1 axes where the common axes go.
  Tensor spread(const Tensor& x) const {
    Shape to = x.shape();
    for (int i = 0; i < n_common(); i++) to.insert(to.begin() + dims[0], SInt(1));
    return x.reshape(to);
  }
  // The permutation that takes common axes at dims[0] to the front, for a result of `rank` axes.
  Ints to_front(int rank) const {
    Ints order;
    for (int i = 0; i < n_common(); i++) order.push_back(dims[0] + i);
    for (int i = 0; i < rank; i++)
      if (i < dims[0] || i >= dims[0] + n_common()) order.push_back(i);
    return order;
  }
};

// True where an element of (axes before, common axes, all axes from dims[0]) is selected.
Tensor gather_mask(const Tensor& x, const Gathers& g) {
  const int rank = static_cast<int>(x.ndim()) + g.n_common();
  std::optional<Tensor> mask;
  for (size_t i = 0; i < g.dims.size(); i++) {
    Shape to(static_cast<size_t>(g.n_common()), SInt(1));
    const Shape& own = g.positions[i].shape();
    std::copy(own.begin(), own.end(), to.end() - static_cast<std::ptrdiff_t>(own.size()));
    to.resize(to.size() + x.shape().size() - static_cast<size_t>(g.dims[0]), SInt(1));
    const SInt& size = x.shape()[static_cast<size_t>(g.dims[i])];
    const DType d = size.vmax() > INT32_MAX ? DType::Int64 : DType::Int32;
    const Tensor hit = g.positions[i].reshape(to).eq(iota(size, d, g.dims[i] + g.n_common(), rank));
    mask = mask ? mask->bitwise_and(hit) : hit;
  }
  return *mask;
}

Tensor gather_selected(const Tensor& x, const Gathers& g) {
  Ints folded;
  for (int d : g.dims) folded.push_back(d + g.n_common());
  const Tensor wide = g.spread(x);
  const Tensor out = gather_mask(x, g).where(wide, zero_of(x)).sum(folded, false, strong(x.dtype()));
  return g.in_front ? out.permute(g.to_front(static_cast<int>(out.ndim()))) : out;
}

Tensor merge_selected(const Tensor& x, const Gathers& g, const Tensor& value) {
  Shape selected;  // of x at the index
  for (int i = 0; i < x.ndim(); i++) {
    if (i == g.dims[0]) selected.append(g.common.begin(), g.common.end());
    if (std::find(g.dims.begin(), g.dims.end(), i) == g.dims.end())
      selected.push_back(x.shape()[static_cast<size_t>(i)]);
  }
  Tensor v = value;
  if (g.in_front) {
    const Ints order = g.to_front(static_cast<int>(selected.size()));
    Shape front;
    Ints back(std::vector<int64_t>(order.size(), 0));
    for (size_t i = 0; i < order.size(); i++) {
      front.push_back(selected[static_cast<size_t>(order[i])]);
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    }
    v = v.expand(front).permute(back);
  } else {
    v = v.expand(selected);
  }
  for (int d : g.dims) v = v.unsqueeze(d + g.n_common());
  return last_selected(gather_mask(x, g), v, g.common_axes(), x);
}

bool pads(const UOp& view, const UOp& base) {
  for (UOp u = view; !(u == base); u = u.src(0))
    if (u.op() == Op::Pad) return true;
  return false;
}

}  // namespace

Tensor Tensor::index(const std::vector<TensorIndex>& indices) const {
  const std::vector<AxisIndex> axes = parse(indices, *this);
  const Tensor x = select_basic(*this, axes);
  const Gathers g(axes);
  return g.dims.empty() ? x : gather_selected(x, g);
}

void Tensor::set_selection(const std::vector<TensorIndex>& indices, const Tensor& value, bool is_temporary) {
  if (is_weak(dtype())) user_runtime_error("cannot setitem into a weak tensor; it has no storage");
  const std::vector<AxisIndex> axes = parse(indices, *this);
  const Tensor view = select_basic(*this, axes);
  const Tensor same_type = is_weak_literal(value.uop()) ? Tensor(value.uop().value(), dtype()) : value;
  if (same_type.dtype() != dtype())
    user_runtime_error("setitem dtype mismatch: dtypes.{} != dtypes.{}", dtype(), value.dtype());
  const Gathers g(axes);
  if (!g.dims.empty() && is_disk(device()))
    user_runtime_error(
        "advanced setitem is not supported for DISK tensors; set them on the CPU and assign the whole");
  const Tensor written = g.dims.empty() ? same_type.expand(view.shape()) : merge_selected(view, g, same_type);
  if (view.numel() == SInt(0)) return;
  const UOp base = view_base(uop());
  const UOp resize = outer_resize(uop()), whole = resize ? resize : base;
  if (is_storage(base) && pads(view.uop(), whole)) {
    // A step that does not divide its axis shows elements that are not in memory: all of the memory is
    // written.
    const Tensor inside(invert_view(view.uop(), whole, written.uop()));
    Tensor(whole).write(Tensor(view_mask(view.uop(), whole)).where(inside, Tensor(whole)).uop(), false);
    return;
  }
  if (is_storage(base)) {
    Tensor(view).write(written.uop(), false);
    return;
  }
  if (is_temporary)
    user_runtime_error("cannot set elements of a temporary value without memory, the result would be lost");
  // No memory yet: the elements around stay an expression.
  const UOp& self = uop();
  const UOp inside = invert_view(view.uop(), self, written.uop());
  LiveTensors::instance().set(*state_,
                              Tensor(view_mask(view.uop(), self)).where(Tensor(inside), Tensor(self)).uop());
}

Tensor& Tensor::set(const std::vector<TensorIndex>& indices, const Tensor& value) & {
  set_selection(indices, value, false);
  return *this;
}
Tensor Tensor::set(const std::vector<TensorIndex>& indices, const Tensor& value) && {
  set_selection(indices, value, true);
  return std::move(*this);
}

}  // namespace lathe
