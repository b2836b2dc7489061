#include "base/knobs.h"
#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/lanes.h"
#include "codegen/passes.h"
#include "codegen/stage.h"
#include "codegen/tensor_core.h"
#include "uop/simplify.h"

#include <algorithm>
#include <set>

namespace lathe {
namespace {

constexpr int kMaxCopies = 64;  // of the innermost expression, over upcasts and unrolls: bounds code size
constexpr int64_t kDenseSteps = 16;
constexpr double kThreadWork = 1 << 15;  // loop trips below which a second thread costs more than it brings

// 0 where the size is not constant.
int64_t known_size(const UOp& r) { return r.src(0).is_const() ? size_of(r) : 0; }

// Largest divisor of `size` in [2, most], or 0.
int64_t divisor(int64_t size, int64_t most) {
  for (int64_t d = std::min(size, most); d >= 2; d--)
    if (size % d == 0) return d;
  return 0;
}

// The divisor of `size` up to `most` that does most work an instruction, or 0. A vector that fills no power
// of two is loaded and stored in pieces, which costs about one and a half registers more.
int64_t best_lanes(int64_t size, int64_t most, int64_t per_register) {
  int64_t best = 0;
  double best_value = 0;
  for (int64_t n = 2; n <= std::min(size, most); n++) {
    if (size % n) continue;
    const double registers = static_cast<double>((n + per_register - 1) / per_register);
    const double value = static_cast<double>(n) / ((n & (n - 1)) ? registers + 1.5 : registers);
    if (value >= best_value) {
      best = n;
      best_value = value;
    }
  }
  return best;
}

class Heuristic {
 public:
  Heuristic(UOp body, const Target& target) : body_(std::move(body)), target_(target) {}

  UOp run() {
    refresh();
    if (target_.work_groups) return run_on_work_groups();
    for (const UOp& r : axes_)
      has_outer_reductions_ = has_outer_reductions_ || (is_output(r) && !in_all_reductions(r));
    const bool is_blocked = std::ranges::any_of(
        toposort(body_), [](const UOp& u) { return u.op() == Op::Buffer && u.param().name == "block"; });
    if (is_blocked) {  // all but the outer loops is chosen
      choose_threads();
      return body_;
    }
    while (const std::optional<Action> tile = divided_axis(body_, {AxisType::Reduce}))
      body_ = apply_action(body_, *tile);
    refresh();
    choose_dots();
    choose_vectors();
    choose_tile();
    choose_blocks();
    unroll_reductions();
    order_loops();
    choose_threads();
    stage_panels();
    return body_;
  }

 private:
  // Work items hide latency by their number: few outputs share reductions, and only many are worth tiles.
  UOp run_on_work_groups() {
    // A kernel that says what its groups and their work items are has no need of others.
    if (std::ranges::any_of(axes_, [](const UOp& r) {
          return r.range().type == AxisType::Local || r.range().type == AxisType::Global;
        }))
      return body_;
    constexpr int64_t kFew = 2048, kPerTile = 32;
    const int64_t outputs = n_outputs();
    if (outputs <= kFew && share_reductions()) return body_;
    if (outputs >= kFew) choose_vectors();
    if (outputs >= kFew * kPerTile) choose_tile();
    unroll_reductions();
    choose_items();
    return body_;
  }

  int64_t n_outputs() const {
    int64_t n = 1;
    for (const UOp& r : axes_)
      if (is_output(r)) n *= std::max<int64_t>(1, known_size(r));
    return n;
  }

  // The work items of a group divide reductions that 16 divides, the longest loop of each.
  bool share_reductions() {
    constexpr int64_t kItems = 16;
    bool is_shared = false;
    for (;;) {
      const UOp* longest = nullptr;
      for (const UOp& r : axes_)
        if (is_reduce(r) && known_size(r) % kItems == 0 && known_size(r) > 0 && !in_nested_reduce(r) &&
            !is_shared_with_others(r) && (!longest || known_size(r) > known_size(*longest)))
          longest = &r;
      if (!longest) return is_shared;
      apply(ActionKind::Group, longest->range().id, kItems);
      is_shared = true;
    }
  }
  // Whether a reduction over `r` is over an axis of work items already.
  bool is_shared_with_others(const UOp& r) const {
    return std::ranges::any_of(reduces_over(body_, r), [](const UOp& u) {
      return std::ranges::any_of(u.srcs(), [](const UOp& s) {
        return s.op() == Op::Range && s.range().type == AxisType::GroupReduce;
      });
    });
  }

  // Up to three output loops give work items, the innermost first: neighbours read neighbours.
  void choose_items() {
    constexpr int64_t kItems = 128;
    int64_t left = std::min(kItems, target_.work_groups->group_items);
    std::vector<int> loops;
    for (const UOp& r : axes_)
      if (is_output(r)) loops.push_back(r.range().id);
    for (size_t k = loops.size(), chosen = 0; k-- > 0 && chosen < 3;) {
      const int64_t most = std::min(left, target_.work_groups->items[chosen]);
      const int64_t n = divisor(known_size(axes_[static_cast<size_t>(position(loops[k]))]),
                                std::min<int64_t>(most, chosen == 0 ? 32 : 16));
      if (!n) continue;
      apply(ActionKind::Local, loops[k], n);
      left /= n;
      chosen++;
    }
  }

  void refresh() {
    axes_ = kernel_axes(body_);
    accesses_ = kernel_accesses(body_);
  }

  // Applies an action to the axis with this range id; returns the id of the outer loop that is left, or -1.
  int apply(ActionKind kind, int id, int64_t amount) {
    const int32_t at = position(id);
    const int rest = known_size(axes_[static_cast<size_t>(at)]) == amount ? -1 : next_range_id(body_);
    body_ = apply_action(body_, {kind, at, static_cast<int32_t>(amount)});
    refresh();
    return rest;
  }
  int32_t position(int id) const {
    const auto at = std::ranges::find(axes_, id, [](const UOp& r) { return r.range().id; });
    CHECK(at != axes_.end(), "heuristic lost axis {}", id);
    return static_cast<int32_t>(at - axes_.begin());
  }

  static bool is_output(const UOp& r) { return r.range().type == AxisType::Loop; }
  static bool is_reduce(const UOp& r) { return r.range().type == AxisType::Reduce; }

  // Contiguous accesses are worth most, values shared by all lanes little, gathers cost unless few loads have
  // all that the lanes need. Of a short axis few lanes do something.
  double vector_score(const UOp& r) const {
    double score = 0;
    for (const KernelAccess& a : accesses_) {
      const auto s = stride_in(a.index, r);
      if (s && *s == 0) continue;
      const double worth = s && *s == 1 ? 1 : a.is_store ? -4 : is_dense(a, r) ? 0.25 : -0.75;
      score += worth * a.trips();
    }
    return score * std::min(1.0, static_cast<double>(known_size(r)) / static_cast<double>(kDenseSteps));
  }

  // Whether the elements of consecutive steps of `r` lie close together.
  static bool is_dense(const KernelAccess& a, const UOp& r) {
    constexpr int64_t kMostApart = 4;
    if (const auto s = stride_in(a.index, r)) return std::abs(*s) <= kMostApart;
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t step = 0; step < std::min(kDenseSteps, known_size(r)); step++) {
      std::vector<std::pair<UOp, UOp>> at;
      for (const Node* other : a.index.ranges()) at.emplace_back(UOp(other), constant(0));
      for (auto& [range, value] : at)
        if (range == r) value = constant(step);
      const UOp index = simplify(substitute(a.index, at));
      if (!index.is_const()) return false;
      least = std::min(least, index.value().as_i64());
      most = std::max(most, index.value().as_i64());
    }
    return most - least <= kMostApart * kDenseSteps;
  }

  // A reduction whose value holds another one for each of its steps, or one that sits in the loop of another,
  // keeps plain loops.
  bool in_nested_reduce(const UOp& r) const {
    for (const UOp& u : reduces_over(body_, r)) {
      if (open_axis(u, AxisType::Reduce)) return true;
      for (const UOp& below : toposort(u.src(0)))
        if (below.op() == Op::Reduce && is_open(below, r)) return true;
    }
    return false;
  }

  // A reduction that does not depend on an output loop comes before it, and is done once as long as the loops
  // that it does depend on are further out.
  bool in_all_reductions(const UOp& r) const {
    return std::ranges::all_of(toposort(body_), [&](const UOp& u) {
      return u.op() != Op::Reduce || u.ranges().empty() || is_open(u, r);
    });
  }

  // Whether a loop that `r` is in has lanes.
  bool in_vector_nest(const UOp& r) const {
    return std::ranges::any_of(toposort(body_), [&](const UOp& u) {
      return (u.op() == Op::Reduce || u.op() == Op::End) && is_open(u.src(0), r) &&
             open_axis(u.src(0), AxisType::Vector);
    });
  }

  // The axis that gains most by lanes, of those in loop nests without; null when there is none.
  UOp best_vector_axis(const std::set<int>& tried) const {
    UOp best;
    double best_score = 0;
    for (const UOp& r : axes_) {
      if (known_size(r) < 2 || tried.contains(r.range().id) || !(is_output(r) || is_reduce(r))) continue;
      if ((is_reduce(r) && in_nested_reduce(r)) || in_vector_nest(r)) continue;
      double score = vector_score(r);
      if (is_reduce(r)) score *= 0.75;  // lanes of a sum have to be folded
      if (score > best_score) {
        best_score = score;
        best = r;
      }
    }
    return best;
  }

  // Steps that an instruction sums are its own. The lanes of a sum of short blocks go along as many blocks as
  // fill a register.
  void choose_dots() {
    for (size_t i = 0; i < axes_.size(); i++) {
      const UOp r = axes_[i];
      const int64_t n =
          is_reduce(r) && known_size(r) && runs_along(body_, r) ? dot_steps(body_, r, target_) : 0;
      const bool is_block = in_block(r);
      if (!n || (is_block && !sums_integers(r))) continue;
      const int steps = apply(ActionKind::TensorCore, r.range().id, n);
      if (!is_block || steps < 0) continue;
      const int64_t lanes = target_.lanes(DType::Int32), own = known_size(r) / n;
      if (own < 2 || lanes % own) continue;
      apply(ActionKind::Vector, steps, own);
      vectorised_ = on_reduce_ = true;
      for (const UOp& blocks : axes_)
        if (is_reduce(blocks) && own < lanes && known_size(blocks) % (lanes / own) == 0 &&
            lanes_beside(body_, blocks)) {
          apply(ActionKind::Vector, blocks.range().id, lanes / own);
          return;
        }
    }
  }
  bool sums_integers(const UOp& r) const {
    return std::ranges::all_of(reduces_over(body_, r), [](const UOp& u) { return is_int(u.dtype()); });
  }
  // Whether the reduction over `r` is done for each step of another one.
  bool in_block(const UOp& r) const {
    return std::ranges::any_of(reduces_over(body_, r), [](const UOp& u) {
      return static_cast<bool>(open_axis(u, AxisType::Reduce));
    });
  }

  // A loop nest has one vector axis. The best of all shapes what follows.
  void choose_vectors() {
    int64_t widest = 4;
    for (const KernelAccess& a : accesses_) widest = std::max(widest, item_size(a.dtype));
    const int64_t lanes = std::max<int64_t>(2, target_.vector_bits / 8 / widest);
    std::set<int> tried;
    while (const UOp r = best_vector_axis(tried)) {
      tried.insert(r.range().id);
      const int64_t registers = !target_.has_long_vectors ? 1
                                : is_reduce(r)            ? (has_reuse() ? 1 : 4)
                                : reads_rows_once(r)      ? 8
                                                          : 2;
      const int64_t n = best_lanes(known_size(r), registers * lanes, lanes);
      // Work items that load lane by lane gain nothing from vectors.
      if (!n || (target_.work_groups && (n & (n - 1)))) continue;
      const int rest = apply(ActionKind::Vector, r.range().id, n);
      if (std::exchange(vectorised_, true)) continue;
      lanes_per_vector_ = std::max<int64_t>(1, n / lanes);
      on_reduce_ = is_reduce(r);
      vector_loop_ = rest;
    }
  }

  // A reduction over rows, nothing of which serves two outputs apart from what all lanes of `r` share: the
  // more of a row is read at once, the better.
  bool reads_rows_once(const UOp& r) const {
    return std::ranges::any_of(axes_, is_reduce) && !has_outer_reductions_ &&
           std::ranges::none_of(axes_, [&](const UOp& o) {
             return is_output(o) && known_size(o) > 1 && !(o == r) && reuse(o) > 0;
           });
  }

  // Some load is the same for all steps of some output loop.
  bool has_reuse() const {
    return std::ranges::any_of(
        axes_, [&](const UOp& r) { return is_output(r) && known_size(r) > 1 && reuse(r) > 0; });
  }

  // Trips of loads inside reductions that an output loop repeats without need. Reductions outside of the loop
  // it does not repeat, and tiles would move them inside.
  double reuse(const UOp& r) const {
    double saved = 0;
    for (const KernelAccess& a : accesses_) {
      if (a.is_store || has_outer_reductions_) continue;
      const auto s = stride_in(a.index, r);
      if (s && *s == 0) saved += a.trips();
    }
    return saved;
  }

  // Output loops that repeat loads of a reduction become register tiles: the loads are shared by the copies.
  void choose_tile() {
    if (!vectorised_ || !(on_reduce_ || std::ranges::any_of(axes_, is_reduce))) return;
    int64_t budget =
        on_reduce_ ? 16 : std::max<int64_t>(1, (target_.vector_registers - 8) / lanes_per_vector_);
    const int rounds = on_reduce_ ? 2 : 1;
    for (int round = 0; round < rounds; round++) {
      const UOp* best = nullptr;
      double best_reuse = 0;
      for (const UOp& r : axes_)
        if (is_output(r) && known_size(r) > 1 && reuse(r) > best_reuse && r.range().id != vector_loop_ &&
            r.range().id != tile_loop_) {
          best = &r;
          best_reuse = reuse(r);
        }
      if (!best) return;
      const int64_t n = divisor(known_size(*best), std::min<int64_t>(on_reduce_ ? 4 : 12, budget));
      if (!n) return;
      copies_ *= n;
      budget /= n;
      tile_loop_ = apply(ActionKind::Upcast, best->range().id, n);
    }
  }
  // Lanes that are rows apart, in copies that are elements apart, are transposed in registers
  // (combine_lanes).
  void choose_blocks() {
    for (const KernelAccess& a : accesses_) {
      const UOp lanes = open_axis(a.index, AxisType::Vector);
      const auto apart = lanes ? stride_in(a.index, lanes) : 0;
      if (!apart || *apart == 0 || *apart == 1) continue;
      for (const UOp& r : axes_) {
        int64_t n = std::min<int64_t>(16, target_.lanes(a.dtype));
        while (n > 1 && known_size(r) % n) n /= 2;
        if (!is_output(r) || n < 4 || known_size(r) < n || stride_in(a.index, r) != 1 ||
            copies_ * n > kMaxCopies)
          continue;
        copies_ *= n;
        apply(ActionKind::Upcast, r.range().id, n);
        return;
      }
    }
  }

  // Short reduction loops vanish; of a long innermost one a few steps run side by side.
  void unroll_reductions() {
    for (bool again = true; again;) {
      again = false;
      for (size_t k = axes_.size(); k-- > 0;) {
        const UOp& r = axes_[k];
        const int64_t n = known_size(r);
        if (!is_reduce(r) || n < 2 || n > 8 || copies_ * n > kMaxCopies) continue;
        copies_ *= n;
        apply(ActionKind::Unroll, r.range().id, n);
        again = true;
        break;
      }
    }
    if (copies_ > 8 || axes_.empty() || !is_reduce(axes_.back())) return;
    const int64_t n = divisor(known_size(axes_.back()), 4);
    if (n) apply(ActionKind::Unroll, axes_.back().range().id, n);
  }

  // Whether the place in the loop alone decides which values are taken: then others are not read.
  bool selects(const UOp& r) const {
    return std::ranges::any_of(toposort(body_), [&](const UOp& u) {
      return u.op() == Op::Where && is_open(u.src(0), r) &&
             std::ranges::none_of(toposort(u.src(0)), [](const UOp& c) { return c.op() == Op::Load; });
    });
  }
  // A loop over which more memory is read again than a cache holds goes inside of those that walk through it.
  void nest_reuse() {
    if (body_.n_srcs() != 1 || std::ranges::any_of(axes_, is_reduce)) return;
    std::vector<int> loops;
    for (const UOp& r : axes_)
      if (is_output(r)) loops.push_back(r.range().id);
    for (size_t k = loops.size(); k-- > 0;) {
      const UOp r = axes_[static_cast<size_t>(position(loops[k]))];
      const auto is_read_again = [&](const KernelAccess& a) {
        double bytes = static_cast<double>(item_size(a.dtype));
        for (size_t i = static_cast<size_t>(position(loops[k])) + 1; i < axes_.size(); i++)
          if (is_open(a.index, axes_[i])) bytes *= static_cast<double>(known_size(axes_[i]));
        return !a.is_store && !is_open(a.index, r) && bytes > static_cast<double>(target_.l2_bytes);
      };
      if (std::ranges::none_of(accesses_, is_read_again) || selects(r)) continue;
      for (size_t i = k + 1; i < loops.size(); i++) {
        body_ = apply_action(body_, {ActionKind::Swap, position(loops[i - 1]), position(loops[i])});
        refresh();
        std::swap(loops[i - 1], loops[i]);
      }
    }
  }
  // The panel that the vector loop walks stays in cache while the tile loop runs inside it.
  void order_loops() {
    nest_reuse();
    if (on_reduce_ || vector_loop_ < 0 || tile_loop_ < 0) return;
    const int32_t v = position(vector_loop_), t = position(tile_loop_);
    if (v < t) return;
    body_ = apply_action(body_, {ActionKind::Swap, t, v});
    refresh();
  }

  void choose_threads() {
    if (!target_.has_threads || target_.max_threads < 2) return;
    double work = 0;
    for (const KernelAccess& a : accesses_) work = std::max(work, a.trips());
    if (work < kThreadWork) return;
    const int64_t threads = target_.max_threads;
    int best = -1;
    int64_t best_parts = 0;
    double best_busy = 0;  // of all threads, the share that has something to do
    for (const UOp& r : axes_) {
      if (!is_output(r) || !r.src(0).is_const() || (has_outer_reductions_ && !in_all_reductions(r))) continue;
      const int64_t size = size_of(r), parts = size % threads == 0 ? threads : divisor(size, 4 * threads);
      if (parts < threads) continue;
      const double busy =
          static_cast<double>(parts) / static_cast<double>((parts + threads - 1) / threads * threads);
      if (busy <= best_busy + 0.1) continue;
      best = r.range().id;
      best_parts = parts;
      best_busy = busy;
    }
    if (best >= 0) apply(ActionKind::Thread, best, best_parts);
  }

  // A panel that many steps of the tile loop read, and that fits half of the second cache, is packed: its
  // rows are far apart in memory and would fall into few sets of the caches.
  void stage_panels() {
    if (on_reduce_ || tile_loop_ < 0) return;
    constexpr double kMinUses = 8;
    const std::vector<UOp> loads = stageable_loads(body_);
    for (size_t i = 0; i < loads.size(); i++) {
      const StagePlan plan = plan_stage(body_, loads[i]);
      if (plan.bytes < target_.l1d_bytes / 2 || plan.bytes > target_.l2_bytes / 2 || plan.uses < kMinUses)
        continue;
      if (!open_axis(loads[i], AxisType::Vector)) continue;
      body_ = apply_action(body_, {ActionKind::Stage, static_cast<int32_t>(i), 0});
      return;
    }
  }

  UOp body_;
  const Target& target_;
  std::vector<UOp> axes_;
  std::vector<KernelAccess> accesses_;
  int64_t copies_ = 1;
  int64_t lanes_per_vector_ = 1;
  bool has_outer_reductions_ = false;  // some output loop does not repeat some reduction
  bool vectorised_ = false;
  bool on_reduce_ = false;
  int vector_loop_ = -1;  // what is left of the vector axis
  int tile_loop_ = -1;    // what is left of the last tiled axis
};

}  // namespace

UOp optimise(const UOp& body, const Target& target, const std::vector<Action>* actions) {
  const auto& given = body.arg_as<KernelPtr>()->given;
  if (!given && !actions && knob(Knob::NOOPT)) return body;
  UOp out = body;
  if (given || actions) {
    for (const Action& a : given ? *given : *actions) out = apply_action(out, a);
  } else {
    const UOp merged = merge_ranges(body);
    const std::optional<UOp> tiled = tile_contraction(merged, target);
    out = tiled ? *tiled : Heuristic(merged, target).run();
  }
  check_work_groups(out, target);
  return out;
}

}  // namespace lathe
