#include "tensor/view.h"

#include "schedule/schedule.h"
#include "schedule/shard.h"

#include <algorithm>

namespace lathe {
namespace {

bool is_view_op(const UOp& u) { return is_movement(u.op()) || u.op() == Op::Detach || u.op() == Op::Bitcast; }

// The ops between base (not included) and view, from the base outwards.
std::vector<UOp> view_chain(const UOp& view, const UOp& base) {
  std::vector<UOp> chain;
  for (UOp u = view; !(u == base); u = u.src(0)) {
    CHECK(is_view_op(u), "{} is not a view", u.op());
    chain.push_back(u);
  }
  return {chain.rbegin(), chain.rend()};
}

}  // namespace

UOp view_base(const UOp& u) {
  const UOp* at = &u;
  while (is_view_op(*at)) at = &at->src(0);
  return *at;
}

UOp outer_resize(const UOp& view) {
  for (UOp u = view; is_view_op(u); u = u.src(0))
    if (u.op() == Op::Bitcast && item_size(u.dtype()) != item_size(u.src(0).dtype())) return u;
  return {};
}

bool is_in_memory(const UOp& base) {
  if (base.op() == Op::Multi) return std::ranges::all_of(base.srcs(), is_in_memory, view_base);
  return base.op() == Op::Buffer || base.op() == Op::Param;
}

bool is_storage(const UOp& base) {
  switch (base.op()) {
    case Op::Buffer: return true;
    case Op::Multi: return std::ranges::all_of(base.srcs(), is_storage, view_base);
    case Op::Param: return base.param().space == AddrSpace::Global;
    case Op::After: {
      const UOp& inner = base.src(0);  // a bound variable is the After of a Param in ALU space
      if (base.src(1).dtype() != DType::Void) return false;  // it waits for a value and writes nothing
      return inner.op() != Op::Param || inner.param().space == AddrSpace::Global;
    }
    default: return false;
  }
}

UOp storage_root(const UOp& storage) {
  const UOp* at = &storage;
  while (at->op() == Op::After || is_view_op(*at)) at = &at->src(0);
  return *at;
}

std::vector<UOp> storage_parts(const UOp& storage) {
  const UOp root = storage_root(storage);
  if (root.op() != Op::Multi) return {root};
  std::vector<UOp> out;
  for (const UOp& part : root.srcs()) out.push_back(storage_root(part));
  return out;
}

bool has_buffer_identity(const UOp& u) {
  if (!names_several(u.device())) return memory_run(u).has_value();
  const UOp base = view_base(u);
  if (!is_storage(base)) return false;
  // What was written to the memory does not change where it lies.
  const UOp view = apply_view(u, base, storage_root(base));
  return std::ranges::all_of(resolve_shards({&view, 1})[0].parts,
                             [](const UOp& part) { return memory_run(part).has_value(); });
}

bool repeats_elements(const UOp& view, const UOp& base) {
  for (UOp u = view; !(u == base); u = u.src(0))
    if (u.op() == Op::Expand && !(prod(shape_from_node(u.src(1))) == SInt(1))) return true;
  return false;
}

bool covers_base(const UOp& view, const UOp& base) {
  for (UOp u = view; !(u == base); u = u.src(0))
    if (u.op() == Op::Shrink) return false;
  return true;
}

UOp apply_view(const UOp& view, const UOp& base, const UOp& other) {
  UOp out = other;
  for (const UOp& u : view_chain(view, base)) {
    if (!is_movement(u.op())) continue;
    std::vector<UOp> srcs(u.srcs().begin(), u.srcs().end());
    srcs[0] = out;
    out = UOp::make(u.op(), DType::Void, srcs, u.arg());
  }
  return out;
}

UOp invert_movement(const UOp& op_node, const UOp& x) {
  const UOp& in = op_node.src(0);
  switch (op_node.op()) {
    case Op::Reshape: return reshape(x, in.shape());
    case Op::Permute: {
      const auto order = op_node.arg_as<AxesArg>().span();
      std::vector<int> inverse(order.size());
      for (size_t i = 0; i < order.size(); i++) inverse[static_cast<size_t>(order[i])] = static_cast<int>(i);
      return permute(x, inverse);
    }
    case Op::Flip: {
      const auto flags = op_node.arg_as<AxesArg>().span();
      return flip(x, std::vector<int>(flags.begin(), flags.end()));
    }
    case Op::Shrink: return pad(x, shape_from_node(op_node.src(1)), in.shape());
    case Op::Pad: return shrink(x, shape_from_node(op_node.src(1)), in.shape());
    default: CHECK(false, "{} has no inverse", op_node.op());
  }
}

UOp invert_view(const UOp& view, const UOp& base, const UOp& x) {
  UOp out = x;
  for (UOp u = view; !(u == base); u = u.src(0)) {
    if (u.op() == Op::Bitcast)
      out = bitcast(out, u.src(0).dtype());
    else if (u.op() != Op::Detach)
      out = invert_movement(u, out);
  }
  return out;
}

UOp view_mask(const UOp& view, const UOp& base) {
  UOp out = broadcast_to(constant(Scalar(true)), view.shape());
  for (UOp u = view; !(u == base); u = u.src(0))
    if (is_movement(u.op())) out = invert_movement(u, out);
  return out;
}

}  // namespace lathe
