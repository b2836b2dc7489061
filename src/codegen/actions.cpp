#include "codegen/actions.h"

#include "codegen/kernel_parts.h"
#include "codegen/lanes.h"
#include "codegen/stage.h"
#include "codegen/tensor_core.h"
#include "uop/arg_kind.h"
#include "uop/rebuild.h"
#include "uop/simplify.h"
#include "uop/spec_rules.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace lathe {
namespace {

constexpr int kMaxUpcast = 16;
constexpr int kMaxUnroll = 32;
constexpr int kMaxLanes = 128;
constexpr int kMaxShares = 64;  // each work item folds them all

[[noreturn]] void illegal(const Action& a, const char* why) {
  user_runtime_error("{}: {}", print_actions({&a, 1}), why);
}

bool is_output(AxisType t) { return t == AxisType::Loop || t == AxisType::Global || t == AxisType::Thread; }

// Parts of `amount` steps where that does not divide the axis: the last one begins early and overlaps the one
// before, so that all have the same form.
UOp tile_with_overlap(const UOp& body, const UOp& r, int64_t amount) {
  const int64_t size = r.src(0).value().as_i64(), last = size - amount;
  const int id = next_range_id(body);
  const UOp outer = range((size + amount - 1) / amount, id, r.range().type);
  const UOp inner = range(amount, id + 1, r.range().type);
  const UOp early = maximum(outer * -amount + last, constant(0));  // what the last part begins too early
  return change_ranges(body, {{r, early * -1 + last + inner, {outer, inner}}});
}

// Whether a quotient or remainder of `r` occurs: the parts may show what it is.
bool is_divided(const UOp& body, const UOp& r) {
  return std::ranges::any_of(toposort(body), [&](const UOp& u) {
    return (u.op() == Op::FloorDiv || u.op() == Op::FloorMod) && is_open(u.src(0), r);
  });
}

// `amount` inner iterations of `r` get `type`; the outer part keeps its type.
UOp split_axis(const UOp& body, const UOp& r, int64_t amount, AxisType type, bool inner_is_new) {
  const int64_t size = r.src(0).value().as_i64();
  const int id = next_range_id(body);
  RangeChange change{r, {}, {}};
  if (size == amount) {
    change.to = range(size, r.range().id, type);
    change.loops = {change.to};
    return change_ranges(body, {change});
  }
  const UOp outer = range(inner_is_new ? size / amount : amount, id, inner_is_new ? r.range().type : type);
  const UOp inner =
      range(inner_is_new ? amount : size / amount, id + 1, inner_is_new ? type : r.range().type);
  change.to = outer * inner.src(0).value().as_i64() + inner;
  change.loops = {outer, inner};
  const UOp out = change_ranges(body, {change});
  return is_divided(body, r) ? simplify(out) : out;
}

void check_vector(const UOp& body, const UOp& r, const Action& a) {
  for (const UOp& other : kernel_axes(body)) {
    if (other.range().type != AxisType::Vector) continue;
    for (const UOp& u : toposort(body)) {
      if (u.op() != Op::Reduce && u.op() != Op::End) continue;
      if (is_open(u.src(0), r) && is_open(u.src(0), other)) illegal(a, "a loop nest has one vector axis");
    }
  }
}

// Lanes of two axes that are closed together are lanes of one.
UOp vector_axis(const UOp& body, const UOp& r, int64_t amount, const Action& a) {
  const UOp beside = lanes_beside(body, r);
  if (amount * (beside ? beside.src(0).value().as_i64() : 1) > kMaxLanes) illegal(a, "more than 128 lanes");
  if (!beside) check_vector(body, r, a);
  const UOp out = split_axis(body, r, amount, AxisType::Vector, true);
  if (!beside) return hoist_lanes(out);
  for (const UOp& lanes : kernel_axes(out))
    if (lanes.range().type == AxisType::Vector && !(lanes == beside) && lanes_beside(out, lanes) == beside)
      return merge_lanes(out, lanes, beside);
  return out;
}

// Work items that share a reduction share all of it, and their number is the same for all reductions.
void check_shares(const UOp& body, const Action& a, int64_t amount) {
  const auto is_shared = [](const UOp& r) {
    return r.op() == Op::Range && r.range().type == AxisType::GroupReduce;
  };
  for (const UOp& u : toposort(body)) {
    if (is_shared(u) && u.src(0).value().as_i64() != amount)
      illegal(a, "another reduction is shared by another number of work items");
    if (u.op() != Op::Reduce) continue;
    const auto own = std::ranges::count_if(u.srcs().subspan(1), is_shared);
    if (own > 1) illegal(a, "the reduction is shared already");
    if (own && open_axis(u, AxisType::GroupReduce)) illegal(a, "the reduction is part of a shared one");
  }
}

// Copies, or lanes, of an effect that holds loops of its own would close these once each.
void check_no_loops_inside(const UOp& body, const UOp& r, const Action& a) {
  for (const UOp& e : body.srcs())
    for (const UOp& u : toposort(e))
      if (u.op() == Op::End && !(u == e) && is_open(u, r))
        illegal(a, "a staged copy is made inside the axis");
}

UOp swap_axes(const UOp& body, const Action& a, const std::vector<UOp>& axes) {
  if (a.amount < 0 || static_cast<size_t>(a.amount) >= axes.size()) illegal(a, "no such axis");
  const UOp &x = axes[static_cast<size_t>(a.axis)], &y = axes[static_cast<size_t>(a.amount)];
  const AxisType type = x.range().type;
  const bool is_sum = type == AxisType::Reduce && y.range().type == type;
  if (!is_sum && (!is_output(type) || !is_output(y.range().type)))
    illegal(a, "only output loops can be swapped, and loops of one reduction");
  Rebuilt done;
  return done.walk(toposort(body), [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    const bool closes =
        is_sum ? u.op() == Op::Reduce : std::ranges::find(body.srcs(), u) != body.srcs().end();
    if (!closes) return v;
    const auto loops = u.srcs().subspan(1);
    const auto has = [&](const UOp& r) { return std::ranges::find(loops, r) != loops.end(); };
    if (has(x) != has(y)) illegal(a, "one of the loops is closed without the other");
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : v.srcs()) srcs.push_back(s == x ? y : s == y ? x : s);
    return v.with_srcs({srcs.data(), srcs.size()});
  });
}

// Iterations that run side by side: they have no place among loops.
bool is_unrolled(const UOp& r) {
  const AxisType t = r.range().type;
  return t == AxisType::Upcast || t == AxisType::Unroll || t == AxisType::Vector;
}

// The two may be anything to each other: what the index becomes shows whether it was worth it.
UOp merge_with_next(const UOp& body, const Action& a, const std::vector<UOp>& axes) {
  size_t next = static_cast<size_t>(a.axis) + 1;
  while (next + 1 < axes.size() && is_unrolled(axes[next])) next++;
  if (next >= axes.size()) illegal(a, "there is no next axis");
  const UOp &r0 = axes[static_cast<size_t>(a.axis)], &r1 = axes[next];
  if (r0.range().type != r1.range().type || !r0.src(0).is_const() || !r1.src(0).is_const())
    illegal(a, "the next axis is of another kind");
  if (!always_adjacent(body, r0, r1)) illegal(a, "the axes are not always next to each other");
  const int64_t inner = r1.src(0).value().as_i64();
  const UOp both = range(r0.src(0).value().as_i64() * inner, next_range_id(body), r0.range().type);
  return simplify(change_ranges(body, {{r0, both / inner, {both}}, {r1, both % inner, {}}}));
}

// Reads beyond the end give 0 and writes do nothing; a reduction takes nothing from there.
UOp pad_axis(const UOp& body, const UOp& r, int64_t size) {
  const UOp padded = range(size, next_range_id(body), r.range().type);
  const UOp inside = lt(padded, r.src(0));
  const UOp changed = change_ranges(body, {{r, padded, {padded}}});
  Rebuilt done;
  return done.walk(toposort(changed), [&](const UOp& u) {
    const UOp v = done.over_sources(u);
    if (u.op() == Op::Index && is_open(u, padded) && is_memory(u.src(0)))
      return index(v.src(0), where(inside, v.src(1), invalid()));
    if (u.op() != Op::Reduce || std::ranges::find(u.srcs(), padded) == u.srcs().end()) return v;
    SmallVec<UOp, 8> srcs;
    for (const UOp& s : v.srcs()) srcs.push_back(s);
    srcs[0] =
        where(inside, v.src(0), constant(v.dtype(), neutral_element(u.arg_as<ReduceArg>().op, v.dtype())));
    return v.with_srcs(srcs);
  });
}

}  // namespace

std::vector<UOp> kernel_axes(const UOp& body) {
  std::vector<UOp> out;
  auto add = [&](std::span<const UOp> ranges) {
    for (const UOp& r : ranges)
      if (r.op() == Op::Range && std::find(out.begin(), out.end(), r) == out.end()) out.push_back(r);
  };
  for (const UOp& e : body.srcs())
    if (e.op() == Op::End) add(e.srcs().subspan(1));
  for (const UOp& u : toposort(body))
    if (u.op() == Op::Reduce) add(u.srcs().subspan(1));
  return out;
}

// Wherever one of the two is closed the other follows.
bool always_adjacent(const UOp& body, const UOp& r0, const UOp& r1) {
  for (const UOp& u : toposort(body)) {
    if (u.op() != Op::End && u.op() != Op::Reduce) continue;
    const auto ranges = u.srcs().subspan(1);
    const auto at = std::find(ranges.begin(), ranges.end(), r0);
    const bool has1 = std::find(ranges.begin(), ranges.end(), r1) != ranges.end();
    if ((at != ranges.end()) != has1) return false;
    if (!has1) continue;
    const auto next =
        std::find_if(at + 1, ranges.end(), [&](const UOp& r) { return r == r1 || !is_unrolled(r); });
    if (next == ranges.end() || !(*next == r1)) return false;
  }
  return true;
}

int next_range_id(const UOp& body) {
  int id = 0;
  for (const UOp& u : toposort(body))
    if (u.op() == Op::Range) id = std::max(id, u.range().id + 1);
  return id;
}

UOp change_ranges(const UOp& body, const std::vector<RangeChange>& changes) {
  Rebuilt done;
  std::unordered_map<const Node*, const RangeChange*> by_range;
  for (const RangeChange& c : changes) {
    done.set(c.from, c.to);
    by_range.emplace(c.from.node(), &c);
  }
  return done.walk(toposort(body), [&](const UOp& u) {
    if (done.contains(u)) return done.of(u);
    if (u.op() != Op::End && u.op() != Op::Reduce) return done.over_sources(u);
    SmallVec<UOp, 8> srcs;
    for (size_t i = 0; i < u.n_srcs(); i++) {
      const UOp& s = u.src(i);
      const auto c = by_range.find(s.node());
      if (i > 0 && c != by_range.end())
        for (const UOp& loop : c->second->loops) srcs.push_back(loop);
      else
        srcs.push_back(done.of(s));
    }
    return u.with_srcs(srcs);
  });
}

UOp record(const UOp& body, const Action& a) {
  KernelArg arg = *body.arg_as<KernelPtr>();
  arg.actions.push_back(a);
  return body.with_arg(std::make_shared<const KernelArg>(std::move(arg)));
}

UOp apply_action(const UOp& body, const Action& a) {
  if (a.kind == ActionKind::Stage) return record(stage_load(body, a.axis, a.amount), a);
  const std::vector<UOp> axes = kernel_axes(body);
  if (a.axis < 0 || static_cast<size_t>(a.axis) >= axes.size()) illegal(a, "no such axis");
  if (a.kind == ActionKind::Swap) return record(swap_axes(body, a, axes), a);
  if (a.kind == ActionKind::Merge) return record(merge_with_next(body, a, axes), a);
  const UOp& r = axes[static_cast<size_t>(a.axis)];
  if (!r.src(0).is_const()) illegal(a, "the axis has no constant size");
  const int64_t size = r.src(0).value().as_i64();
  const int64_t amount = a.amount ? a.amount : size;
  const AxisType type = r.range().type;
  if (a.kind == ActionKind::Tile && amount > 1 && amount < size && size % amount && is_output(type) &&
      type != AxisType::Thread) {
    if (reads_what_it_writes(body)) illegal(a, "parts overlap, and the kernel reads what it writes");
    return record(tile_with_overlap(body, r, amount), a);
  }
  if (a.kind == ActionKind::PadTo) {
    if (amount < 2 || size % amount == 0) illegal(a, "the axis is a multiple already");
    if (!is_output(type) && type != AxisType::Reduce) illegal(a, "not a plain loop");
    return record(pad_axis(body, r, (size + amount - 1) / amount * amount), a);
  }
  if (amount < 2 || size % amount) illegal(a, "the amount does not divide the axis");
  switch (a.kind) {
    case ActionKind::Upcast:
      if (!is_output(type) || type == AxisType::Thread) illegal(a, "not an output loop");
      if (amount > kMaxUpcast) illegal(a, "more than 16");
      check_no_loops_inside(body, r, a);
      return record(split_axis(body, r, amount, AxisType::Upcast, true), a);
    case ActionKind::Unroll:
      if (type != AxisType::Reduce) illegal(a, "not a reduction loop");
      if (amount > kMaxUnroll) illegal(a, "more than 32");
      return record(split_axis(body, r, amount, AxisType::Unroll, true), a);
    case ActionKind::Vector:
      if (type == AxisType::Thread || (!is_output(type) && type != AxisType::Reduce))
        illegal(a, "not a plain loop");
      check_no_loops_inside(body, r, a);
      return record(vector_axis(body, r, amount, a), a);
    case ActionKind::TensorCore:
      if (const char* why = why_no_dot(body, r, amount)) illegal(a, why);
      return record(split_axis(body, r, amount, AxisType::Dot, true), a);
    case ActionKind::Thread:
      if (!is_output(type)) illegal(a, "not an output loop");
      if (std::ranges::count_if(axes, [](const UOp& o) { return o.range().type == AxisType::Thread; }) > 1)
        illegal(a, "the kernel has two thread axes");
      return record(split_axis(body, r, amount, AxisType::Thread, false), a);
    case ActionKind::Local:
      if (!is_output(type) || type == AxisType::Thread) illegal(a, "not an output loop");
      return record(split_axis(body, r, amount, AxisType::Local, true), a);
    case ActionKind::Group: {
      if (type != AxisType::Reduce) illegal(a, "not a reduction loop");
      if (amount > kMaxShares) illegal(a, "more than 64");
      const UOp shared = split_axis(body, r, amount, AxisType::GroupReduce, true);
      check_shares(shared, a, amount);
      return record(shared, a);
    }
    case ActionKind::Tile:
      if (type == AxisType::Thread || (!is_output(type) && type != AxisType::Reduce))
        illegal(a, "not a plain loop");
      if (amount == size) illegal(a, "the tile is the whole axis");
      return record(split_axis(body, r, amount, type, true), a);
    case ActionKind::Block:
      if (type != AxisType::Reduce) illegal(a, "not a reduction loop");
      if (amount == size) illegal(a, "the block is the whole axis");
      return record(block_reduce(body, r, amount), a);
    default: illegal(a, "there is no such action");
  }
}

std::string print_actions(std::span<const Action> actions) {
  std::string out;
  for (const Action& a : actions) {
    if (!out.empty()) out += ' ';
    out += fmt::format("{}({}, {})", action_kind_name(a.kind), a.axis, a.amount);
  }
  return out;
}

Result<std::vector<Action>> parse_actions(std::string_view text) {
  std::vector<Action> out;
  for (size_t at = 0; at < text.size();) {
    const ParseError error{fmt::format("no list of actions: `{}`", text), at, "schedule"};
    const size_t open = text.find('(', at), close = text.find(')', at);
    if (open >= close || close == text.npos) return error;
    const std::optional<ActionKind> kind = parse_action_kind(text.substr(at, open - at));
    Action a{};
    const char *first = text.data() + open + 1, *last = text.data() + close;
    const auto axis = std::from_chars(first, last, a.axis);
    if (!kind || axis.ec != std::errc() || last - axis.ptr < 2 || axis.ptr[0] != ',' || axis.ptr[1] != ' ')
      return error;
    const auto amount = std::from_chars(axis.ptr + 2, last, a.amount);
    if (amount.ec != std::errc() || amount.ptr != last) return error;
    a.kind = *kind;
    out.push_back(a);
    at = close + 1;
    if (at < text.size() && (text[at++] != ' ' || at == text.size())) return error;
  }
  return out;
}

}  // namespace lathe
