#include "codegen/kernel_parts.h"

#include "codegen/actions.h"
#include "renderer/program.h"
#include "uop/comparison.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"
#include "uop/spec_rules.h"

#include <algorithm>
#include <unordered_set>

namespace lathe {
namespace {

SmallVec<UOp, 8> joined(const UOp& first, std::span<const UOp> rest) {
  SmallVec<UOp, 8> out{first};
  for (const UOp& u : rest) out.push_back(u);
  return out;
}

}  // namespace

bool is_open(const UOp& u, const UOp& range) {
  return std::ranges::find(u.ranges(), range.node()) != u.ranges().end();
}

bool closes(const UOp& u, const UOp& range) {
  return (u.op() == Op::Reduce || u.op() == Op::End) &&
         std::ranges::find(u.srcs().subspan(1), range) != u.srcs().end();
}

std::vector<UOp> reduces_over(const UOp& body, const UOp& range) {
  std::vector<UOp> out;
  for (const UOp& u : toposort(body))
    if (u.op() == Op::Reduce && closes(u, range)) out.push_back(u);
  return out;
}

UOp open_axis(const UOp& u, AxisType t) {
  for (const Node* r : u.ranges())
    if (std::get<RangeArg>(r->arg).type == t) return UOp(r);
  return {};
}

bool fills_scratch(const UOp& body, const UOp& range) {
  return std::ranges::any_of(toposort(body), [&](const UOp& u) {
    return u.op() == Op::After &&
           std::ranges::any_of(u.srcs().subspan(1), [&](const UOp& s) { return is_open(s, range); });
  });
}

bool reads_what_it_writes(const UOp& body) {
  std::unordered_set<const Node*> read, written;
  for (const UOp& u : toposort(body)) {
    if (u.op() != Op::Load && u.op() != Op::Store) continue;
    const UOp& memory = strip_after(u.src(0).src(0));
    if (memory.op() == Op::Param) (u.op() == Op::Load ? read : written).insert(memory.node());
  }
  return std::ranges::any_of(written, [&](const Node* m) { return read.contains(m); });
}

double trips_of(const UOp& u) {
  double n = 1;
  for (const Node* r : u.ranges()) n *= UOp(r).bounds().hi.as_double() + 1;
  return n;
}

UOp after(const UOp& x, std::span<const UOp> deps) {
  return deps.empty() ? x : UOp::make(Op::After, x.dtype(), joined(x, deps));
}

UOp close_loops(const UOp& effect, std::span<const UOp> loops) {
  return loops.empty() ? effect : UOp::make(Op::End, DType::Void, joined(effect, loops));
}

UOp scratch_buffer(int64_t slot, DType dtype, int64_t n, std::string name, AddrSpace space) {
  auto arg = std::make_shared<ParamArg>();
  arg->slot = slot;
  arg->dtype = dtype;
  arg->space = space;
  arg->name = std::move(name);
  return UOp::make(Op::Buffer, {shape_node({SInt(n)})}, ParamPtr(std::move(arg)));
}

bool is_inside(const UOp& memory, const UOp& index) {
  const SInt size = prod(memory.shape());
  return size.is_const() && !index.bounds().lo.less(Scalar(0)) &&
         index.bounds().hi.less(Scalar(size.value()));
}

UOp elements_from(const UOp& memory, int64_t lanes, const UOp& first) {
  if (!lanes) return index(memory, first);
  const UOp n = constant(Scalar(lanes));
  return UOp::make(Op::Shrink, {memory, stack({&first, 1}), stack({&n, 1})});
}

UOp fold_lanes(Op op, UOp v) {
  int64_t lanes = v.shape()[0].value();
  const auto pick = [&](int64_t first, int64_t n) {
    std::vector<UOp> at;
    for (int64_t i = 0; i < n; i++) at.push_back(constant(Scalar(first + i)));
    return n == 1 ? index(v, at[0]) : index(v, stack(at));
  };
  for (; lanes > 1 && lanes % 2 == 0; lanes /= 2)
    v = alu(op, {pick(0, lanes / 2), pick(lanes / 2, lanes / 2)});
  if (!v.ndim()) return v;
  UOp out = pick(0, 1);
  for (int64_t i = 1; i < lanes; i++) out = alu(op, {out, pick(i, 1)});
  return out;
}

UOp to_vector(std::span<const Lane> lanes) {
  const UOp& first = lanes[0].value;
  if (lanes.size() == 1) return first.ndim() ? index(first, constant(Scalar(lanes[0].lane))) : first;
  const bool of_one =
      first.ndim() && std::ranges::all_of(lanes, [&](const Lane& l) { return l.value == first; });
  bool is_all = of_one && lanes_of(first) == std::ssize(lanes);
  std::vector<UOp> out;
  for (const Lane& l : lanes) {
    is_all = is_all && l.lane == std::ssize(out);
    const UOp which = constant(Scalar(l.lane));
    out.push_back(!l.value.ndim() ? l.value : of_one ? which : index(l.value, which));
  }
  return is_all ? first : of_one ? index(first, stack(out)) : stack(out);
}

Scalar neutral_element(Op op, DType d) {
  return op == Op::Max ? min_value(d) : Scalar(op == Op::Mul ? 1 : 0);
}

UOp at_values(const UOp& u, std::span<const UOp> ranges, std::span<const int64_t> values) {
  if (ranges.empty()) return u;
  Rebuilt done;
  for (size_t i = 0; i < ranges.size(); i++) done.set(ranges[i], constant(Scalar(values[i])));
  auto depends = [&](const UOp& n) {
    if (done.contains(n)) return false;
    for (const Node* r : n.ranges())
      for (const UOp& q : ranges)
        if (r == q.node()) return true;
    return false;
  };
  for (const UOp& n : toposort(u, depends)) done.set(n, done.over_sources(n));
  return done.of(u);
}

void for_each_combination(std::span<const UOp> ranges, FunctionRef<void(std::span<const int64_t>)> f) {
  std::vector<int64_t> values(ranges.size(), 0);
  for (;;) {
    f(values);
    size_t k = ranges.size();
    while (k > 0 && ++values[k - 1] == ranges[k - 1].src(0).value().as_i64()) values[--k] = 0;
    if (k == 0) return;
  }
}

std::optional<int64_t> stride_in(const UOp& index, const UOp& r) {
  if (!is_open(index, r)) return 0;
  const auto sum = LinearSum::of(index);
  if (!sum) return {};
  int64_t stride = 0;
  for (const Term& t : sum->terms) {
    if (t.base == r)
      stride = static_cast<int64_t>(t.factor);
    else if (is_open(t.base, r))
      return {};
  }
  return stride;
}

std::vector<KernelAccess> kernel_accesses(const UOp& body) {
  std::vector<KernelAccess> out;
  for (const UOp& u : toposort(body)) {
    if ((u.op() != Op::Load && u.op() != Op::Store) || u.src(0).op() != Op::Index) continue;
    out.push_back({ungated(u.src(0).src(1)), u.src(0).dtype(), u.op() == Op::Store, u});
  }
  return out;
}

bool step_as_one(const std::vector<KernelAccess>& accesses, const UOp& r0, const UOp& r1) {
  const int64_t inner = r1.src(0).value().as_i64();
  for (const KernelAccess& a : accesses) {
    const auto s0 = stride_in(a.index, r0), s1 = stride_in(a.index, r1);
    if (!s0 || !s1 || *s0 != *s1 * inner) return false;
  }
  return true;
}

bool runs_along(const UOp& body, const UOp& r) {
  return std::ranges::all_of(kernel_accesses(body), [&](const KernelAccess& a) {
    return a.is_store || !is_open(a.index, r) || stride_in(a.index, r) == 1;
  });
}

std::optional<Action> divided_axis(const UOp& body, std::initializer_list<AxisType> types) {
  const std::vector<UOp> axes = kernel_axes(body);
  const std::vector<KernelAccess> accesses = kernel_accesses(body);
  for (size_t i = 0; i < axes.size(); i++) {
    const UOp& r = axes[i];
    if (std::ranges::find(types, r.range().type) == types.end() || !r.src(0).is_const()) continue;
    int64_t by = 0;
    for (const KernelAccess& a : accesses)
      for (const UOp& u : toposort(a.index))
        if (u.op() == Op::FloorMod && u.src(0) == r && u.src(1).is_const()) by = u.src(1).value().as_i64();
    if (by < 2 || by >= size_of(r) || size_of(r) % by) continue;
    return Action{ActionKind::Tile, static_cast<int32_t>(i), static_cast<int32_t>(by)};
  }
  return std::nullopt;
}

}  // namespace lathe
