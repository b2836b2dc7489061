#include "codegen/stage.h"

#include "base/flat_map.h"
#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "uop/comparison.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"
#include "uop/simplify.h"

#include <algorithm>
#include <cstdlib>

namespace lathe {
namespace {

struct StagedValue {
  UOp value;
  int64_t operations;  // that it takes
};

bool is_outer(AxisType t) { return t == AxisType::Loop || t == AxisType::Thread || t == AxisType::Global; }

// Inner ranges of the load, steps of a reduction in the order in which it takes them, the vector axis last so
// that its lanes are neighbours in scratch, and after it what a dot instruction sums into one of them.
std::vector<UOp> inner_ranges(const UOp& body, const UOp& load) {
  std::vector<UOp> out, copies, vectors, dots;
  for (const Node* r : load.ranges()) {
    const AxisType t = std::get<RangeArg>(r->arg).type;
    if (is_outer(t)) continue;
    (t == AxisType::Reduce   ? out
     : t == AxisType::Vector ? vectors
     : t == AxisType::Dot    ? dots
                             : copies)
        .emplace_back(r);
  }
  const std::vector<UOp> axes = kernel_axes(body);
  std::ranges::sort(out, {}, [&](const UOp& r) { return std::ranges::find(axes, r); });
  for (const std::vector<UOp>* more : {&copies, &vectors, &dots})
    out.insert(out.end(), more->begin(), more->end());
  return out;
}

// Axes that are copies side by side stay that in the loops that fill scratch.
AxisType copy_type(const UOp& r) {
  const AxisType t = r.range().type;
  return t == AxisType::Vector || t == AxisType::Upcast ? t : AxisType::Loop;
}

// Row-major position of the coordinates `at` in a box of `sizes`.
UOp position_at(const std::vector<UOp>& at, const std::vector<int64_t>& sizes) {
  UOp sum;
  int64_t stride = 1;
  for (size_t k = at.size(); k-- > 0;) {
    sum = sum ? at[k] * stride + sum : at[k] * stride;
    stride *= sizes[k];
  }
  return sum;
}
UOp position_in(const std::vector<UOp>& ranges) {
  std::vector<int64_t> sizes;
  for (const UOp& r : ranges) sizes.push_back(size_of(r));
  return position_at(ranges, sizes);
}

}  // namespace

// The largest expression that is computed of the load for its steps alone, and that hides everything below
// it: what is packed is what is used. Wider types take more room and come last.
static StagedValue staged_value(const UOp& body, const UOp& load) {
  std::vector<UOp> of_load;            // what is computed of the load and constants, sources first
  FlatMap<const Node*, int64_t> uses;  // of these
  const NodeList order = toposort(body);
  const auto is_computed = [&](const UOp& u) {
    if (!(is_alu(u.op()) || u.op() == Op::Cast) || is_weak(u.dtype()) || !(u.ranges() == load.ranges()))
      return false;
    return std::ranges::all_of(u.srcs(), [&](const UOp& s) { return s.is_const() || uses.find(s.node()); });
  };
  for (const UOp& u : order) {
    for (const UOp& s : u.srcs())
      if (int64_t* n = uses.find(s.node())) ++*n;
    if (!(u == load) && !is_computed(u)) continue;
    uses.try_emplace(u.node(), 0);
    of_load.push_back(u);
  }
  int64_t open = 0;  // uses by others of what is inside, but for those of the last
  StagedValue best{load, 0};
  for (size_t i = 1; i < of_load.size(); i++) {
    const UOp& u = of_load[i];
    open += *uses.find(of_load[i - 1].node());
    for (const UOp& s : u.srcs()) open -= uses.find(s.node()) != nullptr;
    const bool widens = u.op() == Op::Cast && item_size(u.dtype()) > item_size(u.src(0).dtype());
    if (!open && !widens) best = {u, static_cast<int64_t>(i)};
  }
  return best;
}

int64_t operations_on(const UOp& body, const UOp& load) { return staged_value(body, load).operations; }

std::vector<UOp> stageable_loads(const UOp& body) {
  std::vector<UOp> out;
  for (const UOp& u : toposort(body)) {
    if (u.op() != Op::Load || u.src(0).op() != Op::Index || u.src(0).src(0).op() != Op::Param) continue;
    if (u.n_srcs() == 1) out.push_back(u);
  }
  return out;
}

// Whether the reduction runs over the loop or inside it.
static bool is_around(const UOp& reduce, const UOp& r) {
  return is_open(reduce, r) || std::ranges::find(reduce.srcs(), r) != reduce.srcs().end();
}

StagePlan plan_stage(const UOp& body, const UOp& load) {
  const std::vector<UOp> inner = inner_ranges(body, load);
  if (inner.empty()) return {};
  StagePlan plan{item_size(staged_value(body, load).value.dtype()), 0};
  for (const UOp& r : inner) {
    if (!r.src(0).is_const()) return {};
    plan.bytes *= size_of(r);
  }
  for (const UOp& u : toposort(body)) {
    if (u.op() != Op::Reduce || !std::ranges::all_of(inner, [&](const UOp& r) { return is_around(u, r); }))
      continue;
    plan.uses = 1;
    for (const Node* r : u.ranges())
      if (!is_open(load, UOp(r)) && is_outer(UOp(r).range().type))
        plan.uses *= UOp(r).bounds().hi.as_double() + 1;
    break;
  }
  return plan;
}

// An output loop and the steps of a reduction that reach the elements of a sum of both.
namespace {
struct Slide {
  UOp output, step;
  int64_t output_factor, step_factor;  // one of them is 1 or -1
  int64_t lo, n;                       // the sum's least value, and how many there are
  UOp at() const { return output * output_factor + step * step_factor + -lo; }
};

// X < 1 of a sum of what is never negative holds for any positive factors: those of the slide.
UOp with_factors(const UOp& value, const Slide& s) {
  if (s.output_factor < 1 || s.step_factor < 1) return value;
  Rebuilt done;
  return done.walk(toposort(value), [&](const UOp& u) {
    if (u.op() != Op::CmpLt || !u.src(1).is_const(Scalar(1)) || !is_open(u, s.output) || !is_open(u, s.step))
      return done.over_sources(u);
    std::optional<LinearSum> sum = LinearSum::of(u.src(0));
    if (!sum || sum->constant != 0) return done.over_sources(u);
    for (Term& t : sum->terms) {
      if (t.factor < 1 || t.base.bounds().lo.less(Scalar(0))) return done.over_sources(u);
      if (t.base == s.output) t.factor = s.output_factor;
      if (t.base == s.step) t.factor = s.step_factor;
    }
    return lt(sum->to_uop(), 1);
  });
}

// `value` with the sum in the place of the loop that has no other factor than ±1; null where more of the two
// is left than the sum.
UOp over_sum(const UOp& value, const Slide& s, const UOp& sum) {
  const bool by_step = s.step_factor == 1 || s.step_factor == -1;
  const UOp& gone = by_step ? s.step : s.output;
  const UOp rest = by_step ? s.output * s.output_factor : s.step * s.step_factor;
  const int64_t sign = by_step ? s.step_factor : s.output_factor;
  const UOp form = with_factors(value, s);
  const UOp out = simplify(substitute(form, {{gone, (sum + s.lo + rest * -1) * sign}}));
  return is_open(out, s.output) || is_open(out, s.step) ? UOp() : out;
}

std::optional<Slide> slide_of(const UOp& value, const UOp& index, const UOp& output, const UOp& step) {
  const int64_t a = stride_in(index, output).value_or(0), b = stride_in(index, step).value_or(0);
  if (!a || !b) return {};
  const auto unit = static_cast<int64_t>(gcd(a, b));
  Slide s{output, step, a / unit, b / unit, 0, 1};
  if (std::abs(s.output_factor) != 1 && std::abs(s.step_factor) != 1) return {};
  for (const auto& [r, f] : {std::pair(output, s.output_factor), std::pair(step, s.step_factor)}) {
    s.lo += std::min<int64_t>(0, f * (size_of(r) - 1));
    s.n += std::abs(f) * (size_of(r) - 1);
  }
  if (s.n >= size_of(output) * size_of(step)) return {};
  return over_sum(value, s, range(s.n, next_range_id(sink({&value, 1})), AxisType::Loop)) ? std::optional(s)
                                                                                          : std::nullopt;
}

// What is copied of a load: loops of the copy as they stand in the body, and the sums.
struct Slides {
  UOp value;
  std::vector<UOp> plain;     // reduction loops that slide along nothing
  std::vector<Slide> slides;  // from the outside in
};

// All slides that a load has; none of them where it cannot be copied.
Slides find_slides(const UOp& body, const UOp& load) {
  Slides out{staged_value(body, load).value, {}, {}};
  const UOp& index = ungated(load.src(0).src(1));
  std::vector<UOp> outputs;
  for (const UOp& r : kernel_axes(body))
    if (r.range().type == AxisType::Loop && r.src(0).is_const()) outputs.push_back(r);
  for (const Node* n : out.value.ranges()) {
    const UOp step(n);
    if (is_outer(step.range().type)) continue;
    if (step.range().type != AxisType::Reduce || !step.src(0).is_const()) return {out.value, {}, {}};
    std::optional<Slide> best;
    for (const UOp& r : outputs)
      if (const auto s = slide_of(out.value, index, r, step); s && (!best || s->n < best->n)) best = s;
    const auto same = [&](const Slide& s) { return s.output == best->output; };
    if (!best || std::ranges::any_of(out.slides, same))
      out.plain.push_back(step);
    else
      out.slides.push_back(*best);
  }
  std::ranges::sort(out.slides, {}, [&](const Slide& s) { return std::ranges::find(outputs, s.output); });
  return out;
}

// With the innermost `n` slides only.
Slides innermost(Slides s, size_t n) {
  while (s.slides.size() > n) {
    s.plain.push_back(s.slides.front().step);
    s.slides.erase(s.slides.begin());
  }
  return s;
}

SlidePlan plan_of(const Slides& s) {
  SlidePlan plan{1, 1, 0, {}};
  for (const UOp& r : s.plain) plan.elements *= static_cast<double>(size_of(r));
  for (const Slide& slide : s.slides) plan.elements *= static_cast<double>(slide.n);
  plan.bytes = static_cast<int64_t>(plan.elements) * item_size(s.value.dtype());
  for (const Node* r : s.value.ranges()) {
    const auto is_own = [&](const Slide& x) { return x.output.node() == r; };
    if (is_outer(UOp(r).range().type) && std::ranges::none_of(s.slides, is_own))
      plan.times *= UOp(r).bounds().hi.as_double() + 1;
  }
  return plan;
}

UOp stage_sliding(const UOp& body, const Slides& s) {
  int next = next_range_id(body);
  UOp value = s.value;
  std::vector<UOp> copied, used, loops;
  std::vector<int64_t> sizes;
  for (const UOp& r : s.plain) {
    copied.push_back(range(size_of(r), next++, AxisType::Loop));
    loops.push_back(copied.back());
    used.push_back(r);
    sizes.push_back(size_of(r));
    value = change_ranges(value, {{r, copied.back(), {copied.back()}}});
  }
  for (const Slide& slide : s.slides) {
    const bool is_last = &slide == &s.slides.back();
    const int64_t lanes = std::min<int64_t>(slide.n, 64 / item_size(value.dtype()));
    UOp at;
    if (is_last && lanes > 1) {  // neighbours side by side; the last vector overlaps the one before
      const UOp lane = range(lanes, next++, AxisType::Vector),
                vector = range((slide.n + lanes - 1) / lanes, next++, AxisType::Loop);
      at = maximum(vector * -lanes + (slide.n - lanes), constant(0)) * -1 + (slide.n - lanes) + lane;
      loops.push_back(vector);
      loops.push_back(lane);
    } else {
      at = range(slide.n, next++, AxisType::Loop);
      loops.push_back(at);
    }
    copied.push_back(at);
    used.push_back(slide.at());
    sizes.push_back(slide.n);
    value = over_sum(value, slide, at);
  }
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  const UOp scratch = scratch_buffer(next, value.dtype(), n, "stage");
  const UOp filled = close_loops(store(index(scratch, position_at(copied, sizes)), value), loops);
  // That zeros are read is said by a gate, for sums to leave such steps out. In the innermost slide tiles
  // have all steps.
  std::vector<UOp> steps(s.plain);
  for (const Slide& slide : s.slides)
    if (&slide != &s.slides.back()) steps.push_back(slide.step);
  UOp some, place = simplify(position_at(used, sizes));
  for (const UOp& c : shortening_clauses(s.value, steps)) some = and_gates(some, c);
  if (some) place = where(some, place, invalid());
  const UOp read = load(index(after(scratch, {&filled, 1}), place));
  return substitute(body, {{s.value, read}});
}
}  // namespace

std::vector<SlidePlan> plan_slides(const UOp& body, const UOp& load) {
  const Slides all = find_slides(body, load);
  std::vector<SlidePlan> out;
  for (size_t n = 1; n <= all.slides.size(); n++) {
    const Slides inner = innermost(all, n);
    out.push_back(plan_of(inner));
    out.back().stage = [body, inner] { return stage_sliding(body, inner); };
  }
  return out;
}

// Steps of a loop over `size` that a copy loads side by side, for other lanes each: `r` goes through
// neighbours in memory, where the lanes do not. Their blocks are transposed in registers.
static int64_t transposed_steps(const UOp& load, const UOp& r, int64_t size) {
  const UOp lanes = open_axis(load, AxisType::Vector);
  if (!lanes || r.range().type != AxisType::Reduce || open_axis(load, AxisType::Dot)) return 1;
  const UOp& at = load.src(0).src(1);
  const auto by_lane = stride_in(at, lanes);
  if (is_gated(at) || stride_in(at, r) != 1 || !by_lane || by_lane == 1) return 1;
  for (const int64_t n : {8, 4})
    if (size % n == 0) return n;
  return 1;
}

// The steps of inner[k] and of the loops behind it that go on where it ends, all of reductions.
static std::vector<UOp> one_run(const UOp& load, const std::vector<UOp>& inner, size_t k) {
  std::vector<UOp> out{inner[k]};
  const UOp& at = load.src(0).src(1);
  while (++k < inner.size() && inner[k].range().type == AxisType::Reduce &&
         out.back().range().type == AxisType::Reduce) {
    const auto stride = stride_in(at, inner[k]);
    if (!stride || stride_in(at, out.back()) != *stride * size_of(inner[k])) break;
    out.push_back(inner[k]);
  }
  return out;
}

static UOp stage_inner(const UOp& body, const UOp& load, int access) {
  const StagePlan plan = plan_stage(body, load);
  if (!plan.bytes) user_runtime_error("Stage({}, 0): the load does not move inside the outer loops", access);
  const std::vector<UOp> inner = inner_ranges(body, load);
  const UOp value = staged_value(body, load).value;
  int next = next_range_id(body);
  std::vector<UOp> copied, loops;  // coordinates of the copy, and the loops that they are made of
  std::vector<RangeChange> changes;
  for (size_t k = 0; k < inner.size();) {
    const std::vector<UOp> run = one_run(load, inner, k);
    k += run.size();
    const UOp& r = run.back();
    const bool is_dot = r.range().type == AxisType::Dot;
    const AxisType type = is_dot || r.range().type == AxisType::Vector ? AxisType::Vector : copy_type(r);
    if (is_dot && !copied.empty() && copied.back().range().type == AxisType::Vector) {  // lanes for both
      const UOp &lanes = changes.back().from, all = range(size_of(lanes) * size_of(r), next++, type);
      changes.back() = {lanes, all / size_of(r), {all}};
      changes.push_back({r, all % size_of(r), {}});
      copied.back() = loops.back() = all;
      continue;
    }
    int64_t size = 1;
    for (const UOp& part : run) size *= size_of(part);
    if (const int64_t n = transposed_steps(load, r, size); n > 1) {
      const UOp block = range(size / n, next++, type), step = range(n, next++, AxisType::Upcast);
      loops.push_back(block);
      loops.push_back(step);
      copied.push_back(block * n + step);
    } else {
      copied.push_back(range(size, next++, type));
      loops.push_back(copied.back());
    }
    for (const UOp& part : run) {
      size /= size_of(part);
      changes.push_back({part, copied.back() / size % size_of(part), {}});
    }
  }
  std::vector<int64_t> sizes;
  for (const UOp& at : copied) sizes.push_back(at.bounds().hi.as_i64() + 1);
  // The slot is unique in the body: range ids only grow.
  const UOp scratch = scratch_buffer(next, value.dtype(), plan.bytes / item_size(value.dtype()), "stage");
  const UOp copy = store(index(scratch, position_at(copied, sizes)), simplify(change_ranges(value, changes)));
  // What a gate depends on is looked at outside of the other loops.
  const UOp at = change_ranges(load.src(0), changes).src(1);
  std::vector<UOp> ordered;
  for (const bool outer : {true, false})
    for (const UOp& r : loops)
      if (outer == (r.range().type == AxisType::Loop && is_gated(at) && is_open(at.src(0), r)))
        ordered.push_back(r);
  const UOp filled = close_loops(copy, ordered);
  return substitute(body, {{value, lathe::load(index(after(scratch, {&filled, 1}), position_in(inner)))}});
}

UOp stage_load(const UOp& body, int access, int slides) {
  const std::vector<UOp> loads = stageable_loads(body);
  if (access < 0 || static_cast<size_t>(access) >= loads.size())
    user_runtime_error("Stage({}, {}): no such load", access, slides);
  const UOp& load = loads[static_cast<size_t>(access)];
  if (!slides) return stage_inner(body, load, access);
  const std::vector<SlidePlan> plans = plan_slides(body, load);
  if (slides < 0 || static_cast<size_t>(slides) > plans.size())
    user_runtime_error("Stage({}, {}): the load slides along fewer loops", access, slides);
  return plans[static_cast<size_t>(slides) - 1].stage();
}

// The same loops once more.
struct Again {
  std::vector<UOp> loops;
  std::vector<RangeChange> changes;
};
static Again again(const std::vector<UOp>& loops, int& next) {
  Again out;
  for (const UOp& r : loops) {
    out.loops.push_back(range(r.src(0), next++, r.range().type));
    out.changes.push_back({r, out.loops.back(), {out.loops.back()}});
  }
  return out;
}

UOp block_reduce(const UOp& body, const UOp& r, int64_t amount) {
  const std::vector<UOp> reduces = reduces_over(body, r);
  for (const UOp& u : reduces)
    for (const UOp& below : toposort(u.src(0)))
      if (std::ranges::find(reduces, below) != reduces.end())
        user_runtime_error("Block: the terms of the reduction hold one over the same loop");
  UOp innermost;
  for (const UOp& axis : kernel_axes(body))
    if (axis.range().type == AxisType::Loop &&
        std::ranges::all_of(reduces, [&](const UOp& u) { return is_open(u, axis); }))
      innermost = axis;
  if (!innermost) user_runtime_error("Block: no output loop is inside the reduction's result");
  int next = next_range_id(body);
  const UOp outer = range(size_of(r) / amount, next++, AxisType::Loop);
  const UOp inner = range(amount, next++, AxisType::Reduce);
  std::vector<std::pair<UOp, UOp>> map;
  for (const UOp& u : reduces) {
    std::vector<UOp> tile{innermost};
    for (const UOp& q : inner_ranges(body, u)) tile.push_back(q);
    int64_t n = 1;
    for (const UOp& q : tile) n *= size_of(q);
    const Again start = again(tile, next), step = again(tile, next);
    const Op op = u.arg_as<ReduceArg>().op;
    const UOp scratch = scratch_buffer(next++, u.dtype(), n, "block");
    const UOp neutral = constant(u.dtype(), neutral_element(op, u.dtype()));
    std::vector<UOp> around;  // each step of these loops begins anew
    for (const Node* q : u.ranges())
      if (std::ranges::find(tile, q, &UOp::node) == tile.end()) around.emplace_back(q);
    const UOp fresh = index(after(scratch, around), position_in(start.loops));
    const UOp begun = close_loops(store(fresh, neutral), start.loops);
    std::vector<RangeChange> changes = step.changes;
    changes.push_back({r, outer * amount + inner, {inner}});
    const UOp part = change_ranges(u, changes);
    const UOp deps[] = {begun, outer};
    const UOp place = index(after(scratch, deps), position_in(step.loops));
    std::vector<UOp> loops = step.loops;
    loops.insert(loops.begin(), outer);
    const UOp added = close_loops(store(place, alu(op, {load(place), part})), loops);
    map.emplace_back(u, load(index(after(scratch, {&added, 1}), position_in(tile))));
  }
  return substitute(body, map);
}

}  // namespace lathe
