#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "uop/rebuild.h"
#include "uop/spec_rules.h"

#include <algorithm>
#include <array>

namespace lathe {
namespace {

// Axes of a kernel along the x, y and z of a launch.
class Grid {
 public:
  explicit Grid(const std::array<int64_t, 3>& limits) : limits_(limits) {}

  // False where the axis has no place. Each axis gets a dimension of its own as long as there are some, in
  // the order x, y, z; one that is longer than any dimension is split in two.
  bool add(const UOp& axis) {
    const int64_t n = size_of(axis);
    for (size_t d = 0; d < 3; d++)
      if (sizes_[d] == 1 && n <= limits_[d]) return put(d, axis, n, 1);
    for (size_t d = 3; d-- > first_shared_;)
      if (n <= limits_[d] / sizes_[d]) return put(d, axis, n, 1);
    for (size_t a = first_shared_; a < 3; a++)
      for (size_t b = a + 1; b < 3; b++)
        for (int64_t low = std::min({limits_[a] / sizes_[a], n, kMostSplit});
             low > 1 && n / low <= limits_[b] / sizes_[b]; low--)
          if (n % low == 0) return put(a, axis, low, 1) && put(b, axis, n / low, low);
    return false;
  }
  // The axis in x stays alone there.
  void close_x() { first_shared_ = 1; }

  // Each axis becomes its coordinate.
  void append_changes(const char* prefix, std::vector<RangeChange>& out) const {
    std::array<UOp, 3> specials;
    for (size_t d = 0; d < 3; d++)
      specials[d] =
          UOp::make(Op::Special, {constant(Scalar(sizes_[d]))}, TextArg(fmt::format("{}{}", prefix, d)));
    for (const Part& p : parts_) {
      UOp at = specials[p.dimension];
      if (p.before > 1) at = at / p.before;
      if (p.before * p.size < sizes_[p.dimension]) at = at % p.size;
      if (p.stride > 1) at = at * p.stride;
      if (!out.empty() && out.back().from == p.axis)
        out.back().to = out.back().to + at;
      else
        out.push_back({p.axis, at, {}});
    }
  }

 private:
  static constexpr int64_t kMostSplit = 1 << 16;  // bounds the search for a divisor
  struct Part {
    UOp axis;
    size_t dimension;
    int64_t size, stride;  // steps of the axis that are counted here, and what one of them is worth
    int64_t before;        // product of the sizes of the parts that share the dimension and run faster
  };
  bool put(size_t d, const UOp& axis, int64_t n, int64_t stride) {
    parts_.push_back({axis, d, n, stride, sizes_[d]});
    sizes_[d] *= n;
    return true;
  }

  std::array<int64_t, 3> limits_, sizes_{1, 1, 1};
  size_t first_shared_ = 0;
  std::vector<Part> parts_;
};

// The loops around every effect, from the outside in.
std::vector<UOp> common_loops(const UOp& body) {
  std::vector<UOp> out;
  for (size_t i = 0; i < body.n_srcs(); i++) {
    const UOp& e = body.src(i);
    std::vector<UOp> loops;
    if (e.op() == Op::End) loops.assign(e.srcs().begin() + 1, e.srcs().end());
    if (i == 0) out = loops;
    std::erase_if(out, [&](const UOp& r) { return std::ranges::find(loops, r) == loops.end(); });
  }
  return out;
}

// Effects that the kernel's author put in order may need the order of its loops, too.
bool orders_effects(const UOp& body) {
  return body.n_srcs() != 1 ||
         std::ranges::any_of(toposort(body), [](const UOp& u) { return u.op() == Op::After; });
}

// Of the work items that share a reduction and have its result all, the first one stores it. All of them
// load, which may be from the element that is stored to.
UOp store_once(const UOp& body, const UOp& lane) {
  const UOp is_first = alu(Op::CmpLt, {lane, constant(Scalar(1))});
  Rebuilt done;
  return done.walk(toposort(body), [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    if (v.op() != Op::Store || strip_after(v.src(0).src(0)).op() != Op::Param) return v;
    const UOp& at = v.src(0);
    SmallVec<UOp, 3> srcs{index(at.src(0), where(is_first, at.src(1), invalid()))};
    for (const UOp& s : v.srcs().subspan(1)) srcs.push_back(s);
    return v.with_srcs({srcs.data(), srcs.size()});
  });
}

void place_item(const UOp& axis, Grid& items) {
  if (!items.add(axis))
    user_runtime_error("{} of {}: a group has no place for so many work items", axis_name(axis.range().type),
                       size_of(axis));
}

}  // namespace

UOp to_work_groups(const UOp& body, const Target& target) {
  if (!target.work_groups) return body;
  Grid groups(target.work_groups->groups), items(target.work_groups->items);
  std::vector<RangeChange> changes;
  std::vector<UOp> shares;
  for (const UOp& r : kernel_axes(body))
    if (r.range().type == AxisType::GroupReduce) shares.push_back(r);
  if (!shares.empty()) {
    place_item(shares[0], items);
    items.close_x();
  }
  const bool is_ordered = orders_effects(body);
  const std::vector<UOp> loops = common_loops(body);
  for (size_t i = loops.size(); i-- > 0;) {
    const UOp& r = loops[i];
    const AxisType t = r.range().type;
    if (t == AxisType::Local) place_item(r, items);
    // What finds no place stays a loop.
    const bool is_free = t == AxisType::Global || (t == AxisType::Loop && !is_ordered);
    if (is_free && r.src(0).is_const()) groups.add(r);
  }
  groups.append_changes("gidx", changes);
  items.append_changes("lidx", changes);
  UOp out = body;
  if (!shares.empty()) {
    // All shared reductions are shared alike: each axis is the x of the work item, and its Reduce names it.
    const auto own = std::ranges::find(changes, shares[0], &RangeChange::from);
    const UOp lane = own->to;
    changes.erase(own);
    for (const UOp& r : shares) changes.push_back({r, lane, {lane}});
    out = store_once(change_ranges(body, changes), lane);
  } else if (!changes.empty()) {
    out = change_ranges(body, changes);
  }
  return out;
}

void check_work_groups(const UOp& body, const Target& target) {
  int64_t items = 1;
  bool is_shared = false;
  for (const UOp& r : kernel_axes(body)) {
    const AxisType t = r.range().type;
    const bool is_item = t == AxisType::Local || t == AxisType::GroupReduce;
    if (is_item && !target.work_groups)
      user_runtime_error("{}: a kernel for {} has no work groups", axis_name(t), target.name);
    if (t == AxisType::Thread && !target.has_threads)
      user_runtime_error("Thread: a kernel for {} has no threads; Local divides its work", target.name);
    if (t == AxisType::Vector && size_of(r) > target.max_lanes)
      user_runtime_error("Vector of {} lanes: {} has at most {}", size_of(r), target.name, target.max_lanes);
    if (!is_item || (t == AxisType::GroupReduce && is_shared)) continue;
    is_shared = is_shared || t == AxisType::GroupReduce;
    items *= size_of(r);
  }
  if (target.work_groups && items > target.work_groups->group_items)
    user_runtime_error("a group of {} work items: the device has at most {}", items,
                       target.work_groups->group_items);
}

void check_local_memory(std::span<const UOp> linear, const Target& target) {
  int64_t bytes = 0;
  for (const UOp& u : linear)
    if (u.op() == Op::Buffer && u.param().space == AddrSpace::Local)
      bytes += prod(u.shape()).value() * item_size(u.dtype());
  if (target.work_groups && bytes > target.work_groups->local_bytes)
    user_runtime_error("a group shares {} bytes of memory: the device has {}", bytes,
                       target.work_groups->local_bytes);
}

}  // namespace lathe
