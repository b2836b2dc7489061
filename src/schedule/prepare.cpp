#include "schedule/passes.h"
#include "uop/pattern.h"
#include "uop/rewrite.h"

#include <algorithm>
#include <unordered_set>

namespace lathe {
namespace {
using namespace pat;

UOp drop(const Match& m) { return m[x]; }

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

UOp split(const Match& m) { return split_reduce(m.root()); }
UOp resize_bitcast(const Match& m) { return lower_resizing_bitcast(m.root()); }
UOp store_through_bitcast(const Match& m) { return store_below_bitcast(m.root()); }

UOp empty_pad(const Match& m) {
  return is_empty(m[x].shape()) ? broadcast_to(constant(m[x].dtype(), Scalar(0)), m.root().shape()) : UOp();
}

// What is already memory in row-major order needs no copy.
UOp contiguous_memory(const Match& m) {
  UOp b = m[x];
  while (b.op() == Op::Reshape) b = b.src(0);
  // In memory for the largest symbolic sizes, rows have gaps that a reshape would have to know of.
  const bool has_gaps = !prod(b.shape()).is_const() && !(b == m[x]);
  const bool whole = b.op() == Op::Buffer || b.op() == Op::Param || (b.op() == Op::Contiguous && !has_gaps) ||
                     b.op() == Op::After;
  return whole ? m[x] : UOp();
}

constexpr auto kPrepare =
    rules(rule(op<Op::Detach>(x), fn(drop)), rule(op<Op::ContiguousBackward>(x), fn(drop)),
          rule(op<Op::Contiguous>(x), fn(contiguous_memory)), rule(op<Op::Reduce>(x), fn(empty_reduce)),
          rule(op<Op::Pad>(x, y, z), fn(empty_pad)), rule(op<Op::Reduce>(x), fn(split)),
          rule(op<Op::Bitcast>(x), fn(resize_bitcast)));

// Before the target's own bitcast is rewritten as a value.
constexpr auto kStores = rules(rule(op<Op::Store>(x, y), fn(store_through_bitcast)));

// Some lanes of a Stack.
UOp shrink_of_stack(const Match& m) {
  const UOp &u = m.root(), &all = u.src(0);
  const Shape offset = shape_from_node(u.src(1)), size = shape_from_node(u.src(2));
  if (all.op() != Op::Stack || !offset[0].is_const() || !size[0].is_const()) return {};
  const size_t first = static_cast<size_t>(offset[0].value());
  std::vector<UOp> lanes;
  for (const UOp& lane : all.srcs().subspan(first, static_cast<size_t>(size[0].value())))
    lanes.push_back(
        shrink(lane, Shape(offset.begin() + 1, offset.end()), Shape(size.begin() + 1, size.end())));
  return lanes.size() == 1 ? reshape(lanes[0], size) : stack(lanes);
}

UOp permute_of_permute(const Match& m) {
  const auto outer = m.root().arg_as<AxesArg>().span(), inner = m.root().src(0).arg_as<AxesArg>().span();
  std::vector<int> order;
  for (const int8_t axis : outer) order.push_back(inner[static_cast<size_t>(axis)]);
  return permute(m[x], order);
}

UOp reshape_of_reshape(const Match& m) { return reshape(m[x], m.root().shape()); }

constexpr auto kStackViews = rules(rule(op<Op::Shrink>(op<Op::Stack>(), y, z), fn(shrink_of_stack)),
                                   rule(op<Op::Permute>(op<Op::Permute>(x)), fn(permute_of_permute)),
                                   rule(op<Op::Reshape>(op<Op::Reshape>(x, y), z), fn(reshape_of_reshape)));

// Copies that nothing but Stores over all of some memory use.
std::unordered_set<const Node*> stored_copies(const std::vector<UOp>& order) {
  std::unordered_set<const Node*> stored, used;
  for (const UOp& u : order)
    for (const UOp& s : u.srcs()) {
      if (s.op() != Op::Copy) continue;
      const bool is_whole = u.op() == Op::Store && !is_view(u.src(0));
      (is_whole ? stored : used).insert(s.node());
    }
  for (const Node* n : used) stored.erase(n);
  return stored;
}

// A copy is a Store into memory of the target device, a new buffer unless there is a Store already, of a
// value that lies in memory on its own device. Copies to where the value already is vanish.
UOp lower_copies(const UOp& graph) {
  std::vector<std::pair<UOp, UOp>> map;
  const NodeList order = toposort(graph);
  const std::unordered_set<const Node*> stored = stored_copies(order);
  for (const UOp& u : order) {
    if (u.op() != Op::Copy) continue;
    const UOp in = map.empty() ? u.src(0) : substitute(u.src(0), map);
    const std::string& to = *u.arg_as<DeviceArg>().device;
    if (in.device() == to || in.device().empty()) {
      map.emplace_back(u, in);
      continue;
    }
    const UOp source = UOp::make(Op::Contiguous, {in}), copy = u.with_srcs({&source, 1});
    if (stored.contains(u.node())) {
      map.emplace_back(u, copy);
      continue;
    }
    const UOp target = new_memory(u.shape(), u.dtype(), to), &buffer = strip_views(target);
    const UOp written = UOp::make(Op::After, {buffer, store(target, copy)});
    map.emplace_back(u, shrink(written, Shape(u.shape().size(), SInt(0)), u.shape()));
  }
  return map.empty() ? graph : substitute(graph, map);
}

}  // namespace

bool is_empty(const Shape& s) { return std::find(s.begin(), s.end(), SInt(0)) != s.end(); }

UOp look_through_stacks(const UOp& view) {
  static const Matcher<UOp> matcher(kStackViews);
  return graph_rewrite(
      view, matcher,
      {.gate = [](const UOp& u) { return u.op() == Op::Stack || is_view(u); }, .name = "stack views"});
}

UOp prepare(const UOp& graph) {
  static const Matcher<UOp> matcher({kPrepare, kStackViews}), stores(kStores);
  return graph_rewrite(lower_copies(graph), matcher, {.bottom_up = &stores, .name = "prepare"});
}

}  // namespace lathe
