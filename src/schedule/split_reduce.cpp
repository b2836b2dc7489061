#include "base/knobs.h"
#include "schedule/passes.h"

#include <algorithm>
#include <unordered_set>

namespace lathe {
namespace {

constexpr int64_t kMostParts = 256;  // their reduction is negligible
constexpr int64_t kFewestParts = 8;
constexpr int64_t kFewestSteps = 2048;  // of a part, unless all has fewer than kFewestParts of them: what is
                                        // done once for an output is little beside them

// Axes of `u` that reach the elements of what it is a view of; the others only repeat them.
std::vector<bool> addressing_axes(const UOp& u) {
  Coords coords;
  std::vector<UOp> own;
  for (const SInt& d : u.shape()) {
    own.push_back(range(d.uop(), static_cast<int>(own.size()), AxisType::Loop));
    coords.push_back(own.back());
  }
  UOp base = u;
  for (; is_movement(base.op()); base = base.src(0)) coords = movement_coords(base, coords);
  std::unordered_set<const Node*> used;
  for (const UOp& c : coords) used.insert(c.ranges().begin(), c.ranges().end());
  std::vector<bool> out;
  for (const UOp& r : own) out.push_back(used.contains(r.node()));
  return out;
}

// A sum of Where(position == index, value, 0), where one side of the comparison has no memory (an arange).
bool picks_by_position(const UOp& reduce) {
  UOp value = reduce.src(0);
  while (is_movement(value.op()) || value.op() == Op::Cast) value = value.src(0);
  if (value.op() != Op::Where || !value.src(2).is_const(0)) return false;
  std::vector<UOp> clauses{value.src(0)};
  while (!clauses.empty()) {
    const UOp c = clauses.back();
    clauses.pop_back();
    if (c.op() == Op::And || is_movement(c.op())) {
      clauses.push_back(c.src(0));
      if (c.op() == Op::And) clauses.push_back(c.src(1));
      continue;
    }
    if (c.op() != Op::CmpNe || c.src(0).op() != Op::CmpNe || !c.src(1).is_const(1)) continue;
    const UOp& different = c.src(0);
    for (const UOp& side : different.srcs())
      if (side.device().empty() && !side.is_const() && is_int(side.dtype())) return true;
  }
  return false;
}

// The reduction over (…, parts, size/parts, …), where the axis of parts stands behind the folded ones and so
// survives the first step.
UOp split_axis(const UOp& reduce, size_t axis, int64_t parts) {
  const UOp& in = reduce.src(0);
  const auto& arg = reduce.arg_as<ReduceArg>();
  Shape split(in.shape());
  split[axis] = split[axis].value() / parts;
  split.insert(split.begin() + static_cast<ptrdiff_t>(axis), SInt(parts));
  std::vector<int> order;
  for (size_t i = 0; i < split.size(); i++)
    if (i != axis) order.push_back(static_cast<int>(i));
  order.insert(order.begin() + arg.n_axes, static_cast<int>(axis));
  const UOp partial = UOp::make(Op::Reduce, {permute(reshape(in, split), order)}, arg);
  return UOp::make(Op::Reduce, {UOp::make(Op::Contiguous, {partial})}, ReduceArg{arg.op, 1});
}

}  // namespace

UOp split_reduce(const UOp& reduce) {
  const UOp& in = reduce.src(0);
  if (!knob(Knob::SPLIT_REDUCEOP) || in.device().empty()) return {};
  const SInt all = prod(in.shape()), outputs = prod(reduce.shape());
  if (!all.is_const() || !outputs.is_const() || outputs.value() == 0) return {};
  const int64_t steps = all.value() / outputs.value();
  if (steps < knob(Knob::REDUCEOP_SPLIT_THRESHOLD) || picks_by_position(reduce)) return {};
  const std::vector<bool> addresses = addressing_axes(in);
  const int64_t most = std::min({kMostParts, std::max(kFewestParts, steps / kFewestSteps),
                                 (int64_t{1} << knob(Knob::REDUCEOP_SPLIT_SIZE)) / outputs.value()});
  for (size_t axis = 0; axis < static_cast<size_t>(reduce.arg_as<ReduceArg>().n_axes); axis++) {
    if (!addresses[axis]) continue;
    const int64_t size = in.shape()[axis].value();
    for (int64_t parts = std::min(most, size / 2); parts >= kFewestParts; parts--)
      if (size % parts == 0) return split_axis(reduce, axis, parts);
  }
  return {};
}

}  // namespace lathe
