#include "schedule/shard.h"

#include "base/knobs.h"
#include "schedule/passes.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {
namespace {

// Every shard of a node once those of its sources are known.
class Resolver {
 public:
  const Shards& of(const UOp& u) const { return shards_.at(u.node()); }

  void visit(const UOp& u) {
    if (u.op() == Op::Sink) return;
    Shards shards = resolve(u);
    shards_.emplace(u.node(), std::move(shards));
  }

 private:
  Shards resolve(const UOp& u) {
    if (u.op() == Op::Copy) return copied(u);
    if (u.op() != Op::Multi) check_devices(u);
    if (!names_several(u.device())) return {{over_parts(u, 0)}, {}};
    devices_ = split_devices(u.device());
    switch (u.op()) {
      case Op::Multi: return gathered(u);
      case Op::Reduce: return reduced(u);
      case Op::Reshape: return reshaped(u);
      case Op::Expand: return moved(u, u.ndim() - u.src(0).ndim());
      case Op::Permute: return permuted(u);
      case Op::Flip: return flipped(u);
      case Op::Pad:
      case Op::Shrink: return boxed(u);
      case Op::After: return after(u);
      case Op::Call: return called(u);
      default: return aligned(u);
    }
  }

  static void check_devices(const UOp& u) {
    for (const UOp& s : u.srcs())
      if (!s.device().empty() && s.device() != u.device() &&
          (names_several(s.device()) || names_several(u.device())))
        user_runtime_error("all buffers must be on the same device: [{}, {}]", u.device(), s.device());
  }

  UOp over_parts(const UOp& u, size_t i) const {
    SmallVec<UOp, 8> srcs;
    const bool has_body = u.op() == Op::Call;
    if (has_body) srcs.push_back(u.src(0));
    for (const UOp& s : u.srcs().subspan(has_body)) srcs.push_back(own_part(of(s), i));
    return u.with_srcs(srcs);
  }

  static const UOp& own_part(const Shards& s, size_t i) { return s.parts[s.parts.size() == 1 ? 0 : i]; }

  Shards gathered(const UOp& u) const {
    Shards out{{}, multi_axis(u)};
    for (const UOp& s : u.srcs()) out.parts.push_back(of(s).parts[0]);
    return out;
  }

  // All of the value on a device.
  static UOp whole(const Shards& s, const std::string& device) {
    if (s.axis) {
      std::vector<UOp> pieces;
      for (const UOp& p : s.parts) pieces.push_back(copy_to(p, device));
      return concatenate(pieces, *s.axis);
    }
    const auto here = std::ranges::find(s.parts, device, &UOp::device);
    return here != s.parts.end() ? *here : copy_to(s.parts[0], device);
  }

  // Piece i along `axis`, or all of the value, on device i.
  UOp part(const Shards& s, std::optional<int> axis, size_t i) const {
    const size_t n = devices_.size();
    if (s.axis == axis) return own_part(s, i);
    if (!axis) return whole(s, devices_[i]);
    if (!s.axis) return shard_piece(own_part(s, i), *axis, i, n);
    Shards pieces{{}, s.axis};
    for (const UOp& p : s.parts) pieces.parts.push_back(shard_piece(p, *axis, i, n));
    return whole(pieces, devices_[i]);
  }

  Shards copied(const UOp& u) {
    const Shards& from = of(u.src(0));
    Shards out;
    for (const std::string& d : split_devices(u.device())) out.parts.push_back(whole(from, d));
    return out;
  }

  // Operands broadcast to the left, so that axes are counted from the right.
  Shards aligned(const UOp& u) const {
    Shards out;
    for (const UOp& s : u.srcs())
      if (of(s).axis) out.axis = *of(s).axis + u.ndim() - s.ndim();
    if (u.op() == Op::Store) out.axis = of(u.src(0)).axis;
    for (size_t i = 0; i < devices_.size(); i++) {
      SmallVec<UOp, 3> srcs;
      for (const UOp& s : u.srcs()) {
        std::optional<int> axis = out.axis;
        if (axis) *axis -= u.ndim() - s.ndim();
        if (axis && (*axis < 0 || s.shape()[static_cast<size_t>(*axis)] == SInt(1))) axis.reset();
        srcs.push_back(part(of(s), axis, i));
      }
      UOp one = u.with_srcs(srcs);
      // A view of one shard is memory on its own device and a copy on the others.
      if (u.op() == Op::Store && strip_views(srcs[0]).op() == Op::Copy) one = {};
      out.parts.push_back(std::move(one));
    }
    return out;
  }

  Shards after(const UOp& u) const {
    Shards out = of(u.src(0));
    for (size_t i = 0; i < out.parts.size(); i++) {
      SmallVec<UOp, 3> srcs{out.parts[i]};
      for (const UOp& s : u.srcs().subspan(1))
        if (const UOp& store = of(s).parts[i]) srcs.push_back(store);
      if (srcs.size() > 1) out.parts[i] = u.with_srcs(srcs);
    }
    return out;
  }

  // A kernel runs on each device, over what that has of the arguments.
  Shards called(const UOp& u) const {
    Shards out;
    for (const UOp& p : toposort(u.src(0))) {
      if (p.op() != Op::Param || p.param().space != AddrSpace::Global) continue;
      for (const UOp& part : of(u.src(1 + static_cast<size_t>(p.param().slot))).parts)
        if (!(prod(part.shape()) == prod(p.shape())))
          user_runtime_error("a kernel for {} elements of argument {} got a piece of {}",
                             to_string({prod(p.shape())}), p.param().slot, to_string({prod(part.shape())}));
    }
    for (size_t i = 0; i < devices_.size(); i++) out.parts.push_back(over_parts(u, i));
    return out;
  }

  // The same op on each part; the axis moves by so much.
  Shards moved(const UOp& u, int by) const {
    Shards out{{}, of(u.src(0)).axis};
    if (out.axis) *out.axis += by;
    for (size_t i = 0; i < devices_.size(); i++) out.parts.push_back(over_parts(u, i));
    return out;
  }

  Shards permuted(const UOp& u) const {
    Shards out = moved(u, 0);
    if (!out.axis) return out;
    const auto order = u.arg_as<AxesArg>().span();
    out.axis = static_cast<int>(std::ranges::find(order, *out.axis) - order.begin());
    return out;
  }

  Shards flipped(const UOp& u) const {
    const std::optional<int> axis = of(u.src(0)).axis;
    if (axis && u.arg_as<AxesArg>().span()[static_cast<size_t>(*axis)])
      user_runtime_error("flipping not supported on sharded axis {} of shape {}", *axis, u.shape());
    return moved(u, 0);
  }

  Shards reduced(const UOp& u) const {
    const auto [op, n_axes] = u.arg_as<ReduceArg>();
    Shards out = moved(u, -n_axes);
    if (!out.axis || *out.axis >= 0) return out;
    // The sum of narrow floats in a wider type travels as what it was.
    const UOp value = strip_views(u.src(0));
    const bool narrow = knob(Knob::ALLREDUCE_CAST) && value.op() == Op::Cast && is_float(u.dtype()) &&
                        is_float(value.src(0).dtype()) && item_size(value.src(0).dtype()) == 2;
    if (narrow)
      for (UOp& p : out.parts) p = cast(p, value.src(0).dtype());
    Shards all{all_reduce(out.parts, op, devices_), {}};
    for (UOp& p : all.parts) p = cast(p, u.dtype());
    return all;
  }

  // The axis of which the pieces are pieces, too: with as many elements before it, and a multiple of the
  // devices.
  Shards reshaped(const UOp& u) const {
    const Shards& from = of(u.src(0));
    if (!from.axis) return moved(u, 0);
    const Shape &in = u.src(0).shape(), &to = u.shape();
    const SInt before = prod(Shape(in.begin(), in.begin() + *from.axis));
    const auto n = static_cast<int64_t>(devices_.size());
    Shards out;
    SInt passed = 1;
    for (size_t i = 0; i < to.size(); i++) {
      if (passed == before && to[i].is_const() && to[i].value() % n == 0) out.axis = static_cast<int>(i);
      passed = passed * to[i];
    }
    if (!out.axis)
      user_runtime_error("reshape {} -> {} moved items between shards: axis {} is sharded over {} devices",
                         in, to, *from.axis, n);
    Shape local = to;
    local[static_cast<size_t>(*out.axis)] = to[static_cast<size_t>(*out.axis)].value() / n;
    for (const UOp& p : from.parts) out.parts.push_back(reshape(p, local));
    return out;
  }

  // Pad and Shrink: off the shard axis, or a Shrink to one shard, which all devices get.
  Shards boxed(const UOp& u) const {
    const Shards& from = of(u.src(0));
    if (!from.axis) return moved(u, 0);
    const auto axis = static_cast<size_t>(*from.axis);
    const Shape& in = u.src(0).shape();
    Shape first = shape_from_node(u.src(1)), size = shape_from_node(u.src(2));
    const int64_t local = shard_size(in[axis], devices_.size());
    const bool is_pad = u.op() == Op::Pad;
    Shards out;
    if (first[axis] == SInt(0) && size[axis] == in[axis]) {
      out.axis = from.axis;
      size[axis] = local;
      for (const UOp& p : from.parts)
        out.parts.push_back(is_pad ? pad(p, first, size) : shrink(p, first, size));
    } else if (!is_pad && size[axis] == SInt(local) && first[axis].is_const() &&
               first[axis].value() % local == 0) {
      const UOp& shard = from.parts[static_cast<size_t>(first[axis].value() / local)];
      first[axis] = 0;
      for (const std::string& d : devices_) out.parts.push_back(copy_to(shrink(shard, first, size), d));
    } else {
      user_runtime_error("{} not supported for sharded axis {} from {} to {}: {} shards of {} elements",
                         is_pad ? "padding" : "shrinking", axis, in, u.shape(), devices_.size(), local);
    }
    return out;
  }

  std::unordered_map<const Node*, Shards> shards_;
  std::vector<std::string> devices_;  // of the node that is resolved
};

}  // namespace

int64_t shard_size(const SInt& size, size_t n) {
  const auto devices = static_cast<int64_t>(n);
  if (!size.is_const() || size.value() % devices)
    user_runtime_error("multi axis uneven: an axis of {} does not split over {} devices", to_string({size}),
                       devices);
  return size.value() / devices;
}

UOp shard_piece(const UOp& x, int axis, size_t i, size_t n) {
  const auto at = static_cast<size_t>(axis);
  Shape first(x.shape().size(), SInt(0)), size = x.shape();
  size[at] = shard_size(size[at], n);
  first[at] = static_cast<int64_t>(i) * size[at].value();
  return shrink(x, first, size);
}

UOp copy_to(const UOp& x, const std::string& device) {
  return x.device().empty() || x.device() == device ? x : UOp::make(Op::Copy, {x}, DeviceArg(device));
}

UOp concatenate(std::span<const UOp> parts, int axis) {
  const auto at = static_cast<size_t>(axis);
  Shape total = parts[0].shape();
  const bool equal = std::ranges::all_of(parts, [&](const UOp& p) { return p.shape() == parts[0].shape(); });
  total[at] = 0;
  for (const UOp& p : parts) total[at] = total[at] + p.shape()[at];
  UOp all;
  if (equal) {
    std::vector<int> order;  // axis 0 of the Stack goes to before `axis`
    for (int i = 1; i <= parts[0].ndim(); i++) order.push_back(i);
    order.insert(order.begin() + axis, 0);
    all = reshape(permute(stack(parts), order), total);
  } else {
    Shape before(total.size(), SInt(0));
    for (const UOp& p : parts) {
      Shape size = p.shape();
      size[at] = total[at];
      const UOp padded = pad(p, before, size);
      before[at] = before[at] + p.shape()[at];
      all = all ? all + padded : padded;
    }
  }
  return UOp::make(Op::Contiguous, {all});
}

std::vector<Shards> resolve_shards(std::span<const UOp> roots) {
  std::vector<Shards> out;
  const NodeList order = toposort(sink(roots));
  if (std::ranges::none_of(order, [](const UOp& u) { return names_several(u.device()); })) {
    for (const UOp& r : roots) out.push_back({{r}, {}});
    return out;
  }
  Resolver resolver;
  for (const UOp& u : order) resolver.visit(u);
  for (const UOp& r : roots) {
    Shards& s = out.emplace_back(resolver.of(r));
    // What is copied gets memory of its own, also where it is on the device already.
    if (r.op() != Op::Copy && r.op() != Op::Contiguous) continue;
    for (UOp& p : s.parts) {
      const UOp value = p.op() == Op::Contiguous ? p.src(0) : p;
      if (!memory_run(value)) continue;
      const UOp buffer = new_buffer(value.shape(), value.dtype(), value.device());
      p = UOp::make(Op::After, {buffer, store(buffer, value)});
    }
  }
  return out;
}

std::optional<int> shard_axis(const UOp& u) {
  if (!names_several(u.device())) return std::nullopt;
  const UOp graph = lower_calls(sink({&u, 1}));
  return resolve_shards(graph.srcs())[0].axis;
}

}  // namespace lathe
