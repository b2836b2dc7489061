#include "schedule/prepare.h"

#include <algorithm>

#include "base/knobs.h"
#include "schedule/schedule.h"
#include "uop/pattern.h"
#include "uop/rewrite.h"

namespace lathe {
namespace {
using namespace pat;

UOp drop(const Match& m) { return m[x]; }

bool is_empty(const Shape& s) {
  for (const SInt& d : s)
    if (d == SInt(0)) return true;
  return false;
}

UOp reduce_identity(const UOp& u) {
  switch (u.arg_as<ReduceArg>().op) {
    case Op::Mul: return constant(u.dtype(), Scalar(1));
    case Op::Max: return constant(u.dtype(), min_value(u.dtype()));
    default: return constant(u.dtype(), Scalar(0));
  }
}

// A reduction over no elements is the identity of its op.
UOp empty_reduce(const Match& m) {
  const UOp u = m.root();
  if (!is_empty(u.src(0).shape()) || is_empty(u.shape())) return {};
  return broadcast_to(reduce_identity(u), u.shape());
}

// One long reduction becomes two shorter ones, so that many outputs can run at once: the divisor is the largest number up to 256
// (fewer for many outputs) down to 8 that divides a folded axis.
UOp split_reduce(const Match& m) {
  const UOp u = m.root();
  const UOp& in = u.src(0);
  if (!knob(Knob::SPLIT_REDUCEOP)) return {};
  const SInt all = prod(in.shape()), outputs = prod(u.shape());
  if (!all.is_const() || !outputs.is_const() || outputs.value() == 0) return {};
  if (all.value() / outputs.value() < knob(Knob::REDUCEOP_SPLIT_THRESHOLD)) return {};
  const auto& arg = u.arg_as<ReduceArg>();
  const int64_t most = std::min<int64_t>(256, (int64_t{1} << knob(Knob::REDUCEOP_SPLIT_SIZE)) / outputs.value());
  for (int axis = 0; axis < arg.n_axes; axis++) {
    const int64_t size = in.shape()[static_cast<size_t>(axis)].value();
    for (int64_t d = std::min(most, size / 2); d >= 8; d--) {
      if (size % d) continue;
      // (…, d, size/d, …) with the part of d moved behind all folded axes, where it survives the first reduction.
      Shape split;
      std::vector<int> order;
      for (int i = 0; i < in.ndim(); i++) {
        if (i == axis) split.push_back(d);
        split.push_back(i == axis ? SInt(size / d) : in.shape()[static_cast<size_t>(i)]);
      }
      for (int i = 0; i <= in.ndim(); i++)
        if (i != axis) order.push_back(i);
      order.insert(order.begin() + arg.n_axes, axis);
      const UOp parts = UOp::make(Op::Reduce, {permute(reshape(in, split), order)}, arg);
      return UOp::make(Op::Reduce, {UOp::make(Op::Contiguous, {parts})}, ReduceArg{arg.op, 1});
    }
  }
  return {};
}

// What is already memory in row-major order needs no copy.
UOp contiguous_memory(const Match& m) {
  UOp b = m[x];
  while (b.op() == Op::Reshape) b = b.src(0);
  return b.op() == Op::Buffer || b.op() == Op::Contiguous || b.op() == Op::After ? m[x] : UOp();
}

constexpr auto kPrepare = rules(
    rule(op<Op::Detach>(x), fn(drop)),
    rule(op<Op::ContiguousBackward>(x), fn(drop)),
    rule(op<Op::Contiguous>(x), fn(contiguous_memory)),
    rule(op<Op::Reduce>(x), fn(empty_reduce)),
    rule(op<Op::Reduce>(x), fn(split_reduce)));

// A copy is a Store into a new buffer of the target device, of a value that lies in memory on its own device. Copies to where the
// value already is vanish.
UOp lower_copies(const UOp& graph) {
  std::vector<std::pair<UOp, UOp>> map;
  for (const UOp& u : toposort(graph)) {
    if (u.op() != Op::Copy) continue;
    const UOp in = map.empty() ? u.src(0) : substitute(u.src(0), map);
    const std::string& to = *u.arg_as<DeviceArg>().device;
    if (in.device() == to || in.device().empty()) {
      map.emplace_back(u, in);
      continue;
    }
    const UOp buffer = new_buffer(u.shape(), u.dtype(), to);
    const UOp source = UOp::make(Op::Contiguous, {in});
    map.emplace_back(u, UOp::make(Op::After, {buffer, store(buffer, u.with_srcs({&source, 1}))}));
  }
  return map.empty() ? graph : substitute(graph, map);
}

}  // namespace

UOp prepare(const UOp& graph) {
  static const Matcher<UOp> matcher(kPrepare);
  return graph_rewrite(lower_copies(graph), matcher, {.name = "prepare"});
}

}  // namespace lathe
