#include "uop/derive.h"

#include <algorithm>

namespace lathe {
namespace {

const std::string* intern_device(const std::string& name) {
  return intern(name, hash_bytes(name.data(), name.size()));
}

Hash128 shape_hash(const Shape& s) {
  Hash128 h{0, s.size()};
  for (const SInt& d : s) {
    const uint64_t words[4] = {h.lo, h.hi,
                               d.is_const() ? static_cast<uint64_t>(d.value()) : d.uop().hash().lo,
                               d.is_const() ? 0 : d.uop().hash().hi};
    h = hash_bytes(words, sizeof words);
  }
  return h;
}

const Shape* scalar_shape() {
  static const Shape* const s = intern_shape(Shape{});
  return s;
}

const Shape* alu_shape(std::span<const UOp> srcs) {
  const Shape* first = srcs[0].node()->shape;
  bool all_same = true, all_known = first != nullptr;
  for (const UOp& s : srcs.subspan(1)) {
    all_same = all_same && s.node()->shape == first;
    all_known = all_known && s.node()->shape;
  }
  CHECK(all_known, "elementwise op over a source without a value");
  if (all_same) return first;
  SmallVec<Shape, 3> shapes;
  for (const UOp& s : srcs) shapes.push_back(s.shape());
  return intern_shape(broadcast_shapes(shapes));
}

const Shape* index_shape(std::span<const UOp> srcs) {
  const Shape& base = srcs[0].shape();
  const size_t n = srcs.size() - 1;
  CHECK(n <= base.size(), "{} coordinates into shape {}", n, base);
  Shape out;
  for (const UOp& i : srcs.subspan(1))
    for (const SInt& d : i.shape()) out.push_back(d);
  out.append(base.begin() + n, base.end());
  return intern_shape(out);
}

const Shape* bitcast_shape(DType to, const UOp& x) {
  // Storage counts: a bool takes a byte.
  const auto bits_of = [](DType d) { return is_bool(d) ? 8 : bit_width(d); };
  const int from_bits = bits_of(x.dtype()), to_bits = bits_of(to);
  if (from_bits == to_bits || x.is_invalid()) return x.node()->shape;  // Invalid has no size of its own
  Shape s = x.shape();
  if (s.empty()) user_runtime_error("unsupported size in bitcast");
  const SInt bits = s.back() * from_bits;
  if (!bits.is_const() || bits.value() % to_bits) user_runtime_error("unsupported size in bitcast");
  s.back() = bits.value() / to_bits;
  return intern_shape(s);
}

const Shape* reshape_shape(std::span<const UOp> srcs) {
  Shape out = shape_from_node(srcs[1]);
  for (const SInt& d : out)
    if (d.is_const() && d.value() < 0) value_error("bad reshape: {} -> {}", srcs[0].shape(), out);
  if (!(prod(out) == prod(srcs[0].shape())))
    value_error("size mismatch, can't reshape ({}) -> ({})", srcs[0].shape(), out);
  return intern_shape(out);
}

const Shape* movement_shape(Op op, std::span<const UOp> srcs, const Arg& arg) {
  const Shape& in = srcs[0].shape();
  switch (op) {
    case Op::Reshape: return reshape_shape(srcs);
    case Op::Expand: {
      Shape out = shape_from_node(srcs[1]);
      out.append(in.begin(), in.end());
      return intern_shape(out);
    }
    case Op::Permute: {
      const auto order = std::get<AxesArg>(arg).span();
      CHECK(order.size() == in.size(), "permutation of {} axes for shape {}", order.size(), in);
      Shape out;
      for (int8_t axis : order) out.push_back(in[static_cast<size_t>(axis)]);
      return intern_shape(out);
    }
    case Op::Flip: return srcs[0].node()->shape;
    default:  // Pad, Shrink: the sizes
      return intern_shape(shape_from_node(srcs[2]));
  }
}

// A lane takes 32 bits of an operand; operands of that many stand for every lane.
const Shape* dot_shape(std::span<const UOp> srcs) {
  if (!srcs[0].shape().empty()) return srcs[0].node()->shape;
  for (const UOp& s : srcs.subspan(1, 2)) {
    const int64_t group = std::max(1, 32 / std::max(1, bit_width(s.dtype())));
    if (!s.shape().empty() && !(s.shape()[0] == SInt(group)))
      return intern_shape(Shape{floordiv(s.shape()[0], SInt(group))});
  }
  return scalar_shape();
}

const Shape* stage_shape(std::span<const UOp> srcs) {
  Shape out;
  for (const UOp& r : srcs.subspan(1)) out.push_back(r.op() == Op::Range ? SInt(r.src(0)) : SInt(1));
  for (const SInt& d : srcs[0].shape()) out.push_back(d);
  return intern_shape(out);
}

// What a Result stands for, over the Params of the function.
const UOp& called_value(const UOp& call, const Arg& number) {
  CHECK(call.op() == Op::Call && call.src(0).op() == Op::Sink, "a Result of a {}", call.op());
  const Scalar* n = std::get_if<Scalar>(&number);
  CHECK(n && n->is_int() && n->as_int() >= 0 && n->as_int() < static_cast<int128>(call.src(0).n_srcs()),
        "a function of {} values has no such Result", call.src(0).n_srcs());
  return call.src(0).src(static_cast<size_t>(n->as_int()));
}

const Shape* multi_shape(std::span<const UOp> srcs, const Arg& arg) {
  Shape out = srcs[0].shape();
  for (const int8_t axis : std::get<AxesArg>(arg).span()) {
    CHECK(axis >= 0 && static_cast<size_t>(axis) < out.size(), "parts of shape {} along axis {}",
          srcs[0].shape(), static_cast<int>(axis));
    SInt& size = out[static_cast<size_t>(axis)];
    size = size * SInt(static_cast<int64_t>(srcs.size()));
  }
  return intern_shape(out);
}

const Shape* reduce_shape(const UOp& x, const ReduceArg& arg) {
  if (!arg.n_axes) return x.node()->shape;
  const Shape& in = x.shape();
  CHECK(static_cast<size_t>(arg.n_axes) <= in.size(), "Reduce of {} axes of shape {}", arg.n_axes, in);
  return intern_shape(Shape(in.begin() + arg.n_axes, in.end()));
}

}  // namespace

const Shape* intern_shape(const Shape& s) { return intern(s, shape_hash(s)); }

DType derive_dtype(Op op, std::span<const UOp> srcs, const Arg& arg) {
  switch (info(op).dtype_rule) {
    case DTypeRule::Void: return DType::Void;
    case DTypeRule::Src0: CHECK(!srcs.empty(), "{} without sources", op); return srcs[0].dtype();
    case DTypeRule::Join: {
      if (srcs.empty()) return DType::WeakInt;  // the empty Stack of rank 0
      DType d = srcs[0].dtype();
      for (const UOp& s : srcs.subspan(1)) {
        if (s.is_invalid()) continue;
        d = (&s == &srcs[1] && srcs[0].is_invalid()) ? s.dtype() : join(d, s.dtype());
      }
      return d;
    }
    case DTypeRule::Bool: return DType::Bool;
    case DTypeRule::UpperFloat:
      return srcs[0].is_invalid() ? DType::Bool : least_upper_float(srcs[0].dtype());
    case DTypeRule::Branches:
      if (srcs[1].is_invalid()) return srcs[2].dtype();
      if (srcs[2].is_invalid()) return srcs[1].dtype();
      return join(srcs[1].dtype(), srcs[2].dtype());
    case DTypeRule::Arg: break;
  }
  if (const auto* p = std::get_if<ParamPtr>(&arg)) return (*p)->dtype;
  if (const auto* v = std::get_if<Scalar>(&arg)) return weak_dtype(*v);
  CHECK(op == Op::Noop, "the dtype of a {} must be stated", op);
  return DType::Void;
}

const Shape* derive_shape(Op op, DType dtype, std::span<const UOp> srcs, const Arg& arg) {
  constexpr OpSet kOfSource = {Op::Load,   Op::Store,      Op::After,
                               Op::Cast,   Op::End,        Op::Copy,
                               Op::Detach, Op::Contiguous, Op::ContiguousBackward};
  if (is_alu(op)) return alu_shape(srcs);
  if (is_movement(op)) return movement_shape(op, srcs, arg);
  switch (op) {
    case Op::Const:
    case Op::Range:
    case Op::Special: return scalar_shape();
    case Op::Buffer:
    case Op::Param: return intern_shape(shape_from_node(srcs[0]));
    case Op::Index: return index_shape(srcs);
    case Op::Bitcast: return bitcast_shape(dtype, srcs[0]);
    case Op::Reduce: return reduce_shape(srcs[0], std::get<ReduceArg>(arg));
    case Op::Dot: return dot_shape(srcs);
    case Op::Stage: return stage_shape(srcs);
    case Op::Result: return called_value(srcs[0], arg).node()->shape;
    case Op::Multi: return multi_shape(srcs, arg);
    case Op::Stack: {
      Shape out{SInt(static_cast<int64_t>(srcs.size()))};
      if (!srcs.empty())
        for (const SInt& d : srcs[0].shape()) out.push_back(d);
      return intern_shape(out);
    }
    default: return kOfSource.contains(op) ? srcs[0].node()->shape : nullptr;
  }
}

const std::string* derive_device(Op op, std::span<const UOp> srcs, const Arg& arg) {
  static const std::string* const none = intern_device("");
  if (op == Op::Copy) return intern_device(*std::get<DeviceArg>(arg).device);
  if (op == Op::Multi) {
    std::vector<std::string> names;
    for (const UOp& s : srcs) names.push_back(s.device());
    return intern_device(join_devices(names));
  }
  if (const auto* p = std::get_if<ParamPtr>(&arg))
    return (*p)->device.empty() ? none : intern_device((*p)->device);
  if (op == Op::Result) return called_value(srcs[0], arg).node()->device;
  for (const UOp& s : srcs)
    if (!s.device().empty()) return s.node()->device;
  return none;
}

}  // namespace lathe
