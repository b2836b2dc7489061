// Evaluates small tensor graphs on the host. Shapes, axes and indices that a model computes are a handful of
// numbers: a kernel for each would cost a thousand times more than the numbers are worth, and the graph
// around them can only be built once they are known.
#include "engine/realize.h"
#include "formats/onnx/read_log.h"
#include "formats/onnx/value.h"
#include "uop/eval.h"

#include <unordered_map>

namespace lathe::onnx {
namespace {

// Work beyond this is better done by a kernel.
constexpr size_t kMaxElements = size_t{1} << 15;

using Elements = std::vector<Scalar>;
using Sizes = std::vector<size_t>;

std::optional<Sizes> sizes(const Shape& shape) {
  Sizes out;
  for (const SInt& d : shape) {
    if (!d.is_const()) return std::nullopt;
    out.push_back(static_cast<size_t>(d.value()));
  }
  return out;
}

size_t count(const Sizes& s) {
  size_t n = 1;
  for (size_t d : s) {
    n *= d;
    if (n > kMaxElements) return kMaxElements + 1;
  }
  return n;
}

// Row-major distances between neighbours along each axis.
std::vector<int64_t> strides(const Sizes& s) {
  std::vector<int64_t> out(s.size(), 1);
  for (size_t i = s.size(); i-- > 1;) out[i - 1] = out[i] * static_cast<int64_t>(s[i]);
  return out;
}

// Calls f(flat position in the result, flat position in the source) for every element of the box `s`, whose
// axes step through the source by `step` from `first`.
template <class F>
void walk(const Sizes& s, int64_t first, const std::vector<int64_t>& step, F f) {
  const size_t n = count(s);
  Sizes at(s.size(), 0);
  int64_t from = first;
  for (size_t i = 0; i < n; i++) {
    f(i, static_cast<size_t>(from));
    for (size_t axis = s.size(); axis-- > 0;) {
      from += step[axis];
      if (++at[axis] < s[axis]) break;
      from -= step[axis] * static_cast<int64_t>(s[axis]);
      at[axis] = 0;
    }
  }
}

Elements picked(const Elements& x, const Sizes& s, int64_t first, const std::vector<int64_t>& step) {
  Elements out(count(s));
  walk(s, first, step, [&](size_t to, size_t from) { out[to] = x[from]; });
  return out;
}

// How many of the sources are values; the rest are shapes.
size_t value_sources(const UOp& u) {
  if (is_alu(u.op()) || u.op() == Op::Stack) return u.n_srcs();
  return u.op() == Op::Const || u.op() == Op::Buffer ? 0 : 1;
}

std::optional<Elements> from_memory(const UOp& buffer, size_t n) {
  const auto& store = buffer.param().store;
  if (!store || !store->storage) return std::nullopt;
  ReadLog::note_elements(buffer);
  std::vector<std::byte> raw(n * static_cast<size_t>(item_size(buffer.dtype())));
  read_buffer(buffer, raw.data(), raw.size());
  return decode_elements(raw, buffer.dtype());
}

using Done = std::unordered_map<const lathe::Node*, std::shared_ptr<const Elements>>;

// Source i, repeated to the shape of the result.
Elements broadcast(const Elements& x, const Sizes& from, const Sizes& to) {
  const std::vector<int64_t> own = strides(from);
  std::vector<int64_t> step(to.size(), 0);
  for (size_t i = 0; i < from.size(); i++)
    if (from[i] != 1) step[to.size() - from.size() + i] = own[i];
  return picked(x, to, 0, step);
}

std::optional<Elements> computed(const UOp& u, const Sizes& shape, const Done& done) {
  std::vector<Elements> srcs;
  DType compared = u.src(0).dtype();
  for (const UOp& s : u.srcs()) {
    srcs.push_back(broadcast(*done.at(s.node()), *sizes(s.shape()), shape));
    compared = join(compared, s.dtype());
  }
  if (info(u.op()).flags & kComparison)
    for (Elements& s : srcs)
      for (Scalar& v : s) v = cast_scalar(v, compared);
  Elements out;
  std::vector<Scalar> operands(srcs.size());
  for (size_t i = 0, n = count(shape); i < n; i++) {
    for (size_t k = 0; k < srcs.size(); k++) operands[k] = srcs[k][i];
    const auto v = eval(u.op(), u.dtype(), operands);
    if (!v || v->is_invalid()) return std::nullopt;
    out.push_back(*v);
  }
  return out;
}

std::optional<Elements> folded(const UOp& u, const Elements& x, size_t n) {
  const auto& arg = u.arg_as<ReduceArg>();
  if (u.n_srcs() != 1) return std::nullopt;
  if (x.empty())
    return Elements(n, arg.op == Op::Max ? min_value(u.dtype())
                                         : cast_scalar(Scalar(arg.op == Op::Mul ? 1 : 0), u.dtype()));
  Elements out(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n));
  for (size_t i = n; i < x.size(); i++) {
    const auto v = eval(arg.op, u.dtype(), std::vector<Scalar>{out[i % n], x[i]});
    if (!v) return std::nullopt;
    out[i % n] = *v;
  }
  return out;
}

// Movement: the result, or for Pad the source, is a box that steps through the other from `first` on.
Elements moved(const UOp& u, const Elements& x, const Sizes& from, const Sizes& to) {
  const std::vector<int64_t> own = strides(u.op() == Op::Pad ? to : from);
  std::vector<int64_t> step = own;
  int64_t first = 0;
  if (u.op() == Op::Expand) step.insert(step.begin(), to.size() - from.size(), 0);
  for (size_t i = 0; i < own.size(); i++) {
    if (u.op() == Op::Pad || u.op() == Op::Shrink) first += shape_from_node(u.src(1))[i].value() * own[i];
    if (u.op() == Op::Permute) step[i] = own[static_cast<size_t>(u.arg_as<AxesArg>().span()[i])];
    if (u.op() == Op::Flip && u.arg_as<AxesArg>().span()[i]) {
      first += own[i] * (static_cast<int64_t>(from[i]) - 1);
      step[i] = -own[i];
    }
  }
  if (u.op() != Op::Pad) return picked(x, to, first, step);
  Elements out(count(to), cast_scalar(Scalar(0), u.dtype()));
  walk(from, first, step, [&](size_t i, size_t at) { out[at] = x[i]; });
  return out;
}

Elements converted(const Elements& x, const UOp& u) {
  Elements out;
  for (const Scalar& v : x)
    out.push_back(u.op() == Op::Cast ? cast_scalar(v, u.dtype())
                                     : bitcast_scalar(v, u.src(0).dtype(), u.dtype()));
  return out;
}

Elements stacked(const UOp& u, const Done& done) {
  Elements out;
  for (const UOp& s : u.srcs()) {
    const Elements& x = *done.at(s.node());
    out.insert(out.end(), x.begin(), x.end());
  }
  return out;
}

std::optional<Elements> value(const UOp& u, const Sizes& shape, const Done& done) {
  if (u.op() == Op::Const) return Elements{u.value()};
  if (u.op() == Op::Buffer) return from_memory(u, count(shape));
  if (is_alu(u.op())) return computed(u, shape, done);
  if (u.op() == Op::Stack) return stacked(u, done);
  const Elements& x = *done.at(u.src(0).node());
  const Sizes from = *sizes(u.src(0).shape());
  switch (u.op()) {
    case Op::Reshape:
    case Op::Contiguous:
    case Op::ContiguousBackward:
    case Op::Detach: return x;
    case Op::Expand:
    case Op::Pad:
    case Op::Shrink:
    case Op::Permute:
    case Op::Flip: return moved(u, x, from, shape);
    case Op::Reduce: return folded(u, x, count(shape));
    case Op::Cast: return converted(x, u);
    case Op::Bitcast:
      if (bit_width(u.dtype()) != bit_width(u.src(0).dtype())) return std::nullopt;
      return converted(x, u);
    default: return std::nullopt;
  }
}

// The nodes that hold values, every source before its user.
std::vector<UOp> value_nodes(const UOp& root) {
  const NodeList all = toposort(root);
  std::unordered_map<const lathe::Node*, bool> wanted{{root.node(), true}};
  std::vector<UOp> out;
  for (size_t i = all.size(); i-- > 0;) {
    if (!wanted.count(all[i].node())) continue;
    out.push_back(all[i]);
    for (size_t k = 0; k < value_sources(all[i]); k++) wanted[all[i].src(k).node()] = true;
  }
  return {out.rbegin(), out.rend()};
}

}  // namespace

std::optional<std::vector<Scalar>> small_elements(const Tensor& t) {
  const UOp root = cast(t.uop(), strong(t.dtype()));
  if (!sizes(root.shape()) || count(*sizes(root.shape())) > kMaxElements) return std::nullopt;
  const std::vector<UOp> nodes = value_nodes(root);
  size_t work = 0;
  for (const UOp& u : nodes) {
    const auto shape = u.has_shape() ? sizes(u.shape()) : std::nullopt;
    work += shape ? count(*shape) : kMaxElements;
    if (work > kMaxElements) return std::nullopt;
  }
  Done done;
  for (const UOp& u : nodes) {
    auto v = value(u, *sizes(u.shape()), done);
    if (!v) return std::nullopt;
    done[u.node()] = std::make_shared<const Elements>(std::move(*v));
  }
  return *done.at(root.node());
}

}  // namespace lathe::onnx
