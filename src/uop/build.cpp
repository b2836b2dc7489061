// Builders: the short ways to make nodes.
#include "uop/uop.h"

#include <algorithm>
#include <numeric>

namespace lathe {

UOp constant(const Scalar& v) { return UOp::make(Op::Const, weak_dtype(v), {}, v); }
UOp constant(DType d, const Scalar& v) {
  if (v.is_invalid()) return invalid();
  return UOp::make(Op::Const, d, {}, cast_scalar(v, d));
}
UOp invalid() { return UOp::make(Op::Const, DType::Bool, {}, Scalar::invalid()); }

UOp alu(Op op, std::initializer_list<UOp> srcs) { return UOp::make(op, srcs); }

UOp cast(const UOp& x, DType d) { return x.dtype() == d || x.is_invalid() ? x : UOp::make(Op::Cast, d, {x}); }
UOp bitcast(const UOp& x, DType d) { return x.dtype() == d ? x : UOp::make(Op::Bitcast, d, {x}); }

UOp range(const UOp& end, int id, AxisType type) { return UOp::make(Op::Range, {end}, RangeArg{id, type}); }
UOp stack(std::span<const UOp> lanes) { return UOp::make(Op::Stack, DType::Void, lanes); }

UOp index(const UOp& x, std::span<const UOp> coords) {
  if (coords.empty()) return x;
  SmallVec<UOp, 8> srcs{x};
  for (const UOp& c : coords) srcs.push_back(c);
  return UOp::make(Op::Index, DType::Void, srcs);
}

UOp load(const UOp& address) { return UOp::make(Op::Load, {address}); }
UOp store(const UOp& address, const UOp& value) { return UOp::make(Op::Store, {address, value}); }
UOp sink(std::span<const UOp> srcs, Arg arg) {
  return UOp::make(Op::Sink, DType::Void, srcs, std::move(arg));
}

UOp call(const UOp& body, std::span<const UOp> arguments, CallArg arg) {
  std::vector<UOp> srcs{body};
  srcs.insert(srcs.end(), arguments.begin(), arguments.end());
  return UOp::make(Op::Call, DType::Void, srcs, std::make_shared<const CallArg>(std::move(arg)));
}
UOp call_result(const UOp& call, size_t i) {
  return UOp::make(Op::Result, call.src(0).src(i).dtype(), {call}, Scalar(static_cast<int64_t>(i)));
}

static UOp make_param(Op op, const Shape& shape, ParamArg arg) {
  return UOp::make(op, {shape_node(shape)}, std::make_shared<const ParamArg>(std::move(arg)));
}

UOp new_buffer(const Shape& shape, DType dtype, const std::string& device, AddrSpace space) {
  static std::atomic<int64_t> next_slot{0};
  if (is_weak(dtype)) user_runtime_error("cannot create storage for weak dtype {}", dtype);
  auto store = space == AddrSpace::Global ? std::make_shared<StorageSlot>() : nullptr;
  return make_param(Op::Buffer, shape,
                    {next_slot.fetch_add(1), dtype, space, "", device, {}, 1, std::move(store)});
}

UOp variable(const std::string& name, int64_t lo, int64_t hi, DType dtype, int64_t multiple_of) {
  if (lo > hi) value_error("variable {}: lower bound {} is above upper bound {}", name, lo, hi);
  return make_param(Op::Param, {}, {-1, dtype, AddrSpace::Alu, name, "", {{lo, hi}}, multiple_of, nullptr});
}

UOp param(int slot, const Shape& shape, DType dtype, const std::string& device) {
  if (is_weak(dtype)) user_runtime_error("cannot create param for weak dtype {}", dtype);
  return make_param(Op::Param, shape, {slot, dtype, AddrSpace::Global, "", device, {}, 1, nullptr});
}

UOp multi(std::span<const UOp> parts, std::optional<int> axis) {
  const int along = axis.value_or(0);
  return UOp::make(Op::Multi, DType::Void, parts, AxesArg(std::span(&along, axis ? 1 : 0)));
}
std::optional<int> multi_axis(const UOp& multi) {
  const auto axes = multi.arg_as<AxesArg>().span();
  return axes.empty() ? std::nullopt : std::optional<int>(axes[0]);
}

std::vector<std::string> split_devices(const std::string& device) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= device.size();) {
    const size_t end = std::min(device.find(',', at), device.size());
    out.push_back(device.substr(at, end - at));
    at = end + 1;
  }
  return out;
}
std::string join_devices(std::span<const std::string> names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

// ---- movement

UOp reshape(const UOp& x, const Shape& s) {
  if (x.shape() == s) return x;
  return UOp::make(Op::Reshape, {x, shape_node(s)});
}

UOp permute(const UOp& x, std::span<const int> order) {
  CHECK(static_cast<int>(order.size()) == x.ndim(), "permutation of {} axes for shape {}", order.size(),
        x.shape());
  bool identity = true;
  for (size_t i = 0; i < order.size(); i++) identity = identity && order[i] == static_cast<int>(i);
  return identity ? x : UOp::make(Op::Permute, {x}, AxesArg(order));
}

UOp prepend(const UOp& x, const Shape& axes) {
  return axes.empty() ? x : UOp::make(Op::Expand, {x, shape_node(axes)});
}

UOp broadcast_to(const UOp& x, const Shape& s) {
  const Shape& in = x.shape();
  if (in == s) return x;
  if (in.size() > s.size()) value_error("cannot broadcast {} to new_shape={}", in, s);
  const size_t lead = s.size() - in.size();
  Shape grown, kept;  // new axes in front, and what remains of x without the size-1 axes that grow
  std::vector<int> order(s.size());
  SmallVec<int, 8> grown_axes, kept_axes;
  for (size_t i = 0; i < s.size(); i++) {
    const bool grows = i < lead || (in[i - lead] == SInt(1) && !(s[i] == SInt(1)));
    if (!grows && !(in[i - lead] == s[i])) value_error("cannot broadcast {} to new_shape={}", in, s);
    (grows ? grown : kept).push_back(s[i]);
    (grows ? grown_axes : kept_axes).push_back(static_cast<int>(i));
  }
  int at = 0;
  for (int axis : grown_axes) order[static_cast<size_t>(axis)] = at++;
  for (int axis : kept_axes) order[static_cast<size_t>(axis)] = at++;
  return permute(prepend(reshape(x, kept), grown), order);
}

UOp pad(const UOp& x, const Shape& before, const Shape& total) {
  const Shape& in = x.shape();
  CHECK(before.size() == in.size() && total.size() == in.size(), "pad of rank {} for shape {}", before.size(),
        in);
  if (total == in) return x;
  return UOp::make(Op::Pad, {x, shape_node(before), shape_node(total)});
}

UOp shrink(const UOp& x, const Shape& offset, const Shape& size) {
  const Shape& in = x.shape();
  CHECK(offset.size() == in.size() && size.size() == in.size(), "shrink of rank {} for shape {}",
        offset.size(), in);
  if (size == in) return x;
  return UOp::make(Op::Shrink, {x, shape_node(offset), shape_node(size)});
}

UOp flip(const UOp& x, std::span<const int> flags) {
  CHECK(static_cast<int>(flags.size()) == x.ndim(), "flip of rank {} for shape {}", flags.size(), x.shape());
  SmallVec<int, 8> useful;
  bool any = false;
  for (size_t i = 0; i < flags.size(); i++) {
    useful.push_back(flags[i] && !(x.shape()[i] == SInt(1)));
    any = any || useful.back();
  }
  return any ? UOp::make(Op::Flip, {x}, AxesArg(useful)) : x;
}

UOp reduce(const UOp& x, Op op, std::span<const int> axes) {
  const Shape& in = x.shape();
  std::vector<int> front, rest;
  Shape out;
  for (int i = 0; i < x.ndim(); i++) {
    const SInt& d = in[static_cast<size_t>(i)];
    const bool folded = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!folded) out.push_back(d);
    if (d == SInt(1)) continue;  // nothing to fold, and kept size-1 axes come back by the reshape
    (folded ? front : rest).push_back(i);
  }
  if (front.empty()) return reshape(x, out);
  Shape squeezed;
  std::vector<int> position(in.size(), -1);
  for (size_t i = 0; i < in.size(); i++) {
    if (in[i] == SInt(1)) continue;
    position[i] = static_cast<int>(squeezed.size());
    squeezed.push_back(in[i]);
  }
  std::vector<int> order;
  for (int a : front) order.push_back(position[static_cast<size_t>(a)]);
  for (int a : rest) order.push_back(position[static_cast<size_t>(a)]);
  const UOp moved = permute(reshape(x, squeezed), order);
  return reshape(UOp::make(Op::Reduce, {moved}, ReduceArg{op, static_cast<int32_t>(front.size())}), out);
}

// ---- operators

UOp operator+(const UOp& a, const UOp& b) { return alu(Op::Add, {a, b}); }
UOp operator-(const UOp& a, const UOp& b) { return alu(Op::Add, {a, -b}); }
UOp operator-(const UOp& a) { return alu(Op::Mul, {a, constant(-1)}); }
UOp operator*(const UOp& a, const UOp& b) { return alu(Op::Mul, {a, b}); }
UOp operator/(const UOp& a, const UOp& b) {
  if (is_float(a.dtype()) || is_float(b.dtype())) return a * alu(Op::Reciprocal, {b});
  return alu(Op::FloorDiv, {a, b});
}
UOp operator%(const UOp& a, const UOp& b) { return alu(Op::FloorMod, {a, b}); }
UOp operator&(const UOp& a, const UOp& b) { return alu(Op::And, {a, b}); }
UOp operator|(const UOp& a, const UOp& b) { return alu(Op::Or, {a, b}); }
UOp operator^(const UOp& a, const UOp& b) { return alu(Op::Xor, {a, b}); }
UOp operator<<(const UOp& a, const UOp& b) { return alu(Op::Shl, {a, b}); }
UOp operator>>(const UOp& a, const UOp& b) { return alu(Op::Shr, {a, b}); }
UOp lt(const UOp& a, const UOp& b) { return alu(Op::CmpLt, {a, b}); }
UOp ge(const UOp& a, const UOp& b) { return logical_not(lt(a, b)); }
UOp ne(const UOp& a, const UOp& b) { return alu(Op::CmpNe, {a, b}); }
UOp eq(const UOp& a, const UOp& b) { return logical_not(ne(a, b)); }
UOp logical_not(const UOp& a) { return alu(Op::CmpNe, {a, constant(Scalar(true))}); }
UOp maximum(const UOp& a, const UOp& b) { return alu(Op::Max, {a, b}); }
// Floats through negation; integers through the complement, which is exact at the ends of the range too.
UOp minimum(const UOp& a, const UOp& b) {
  if (is_float(a.dtype()) || is_float(b.dtype())) return -maximum(-a, -b);
  if (is_bool(a.dtype()) && is_bool(b.dtype())) return a & b;
  const UOp ones = constant(-1);
  return maximum(a ^ ones, b ^ ones) ^ ones;
}
UOp where(const UOp& c, const UOp& a, const UOp& b) { return alu(Op::Where, {c, a, b}); }

}  // namespace lathe
