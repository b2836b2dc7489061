#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/passes.h"
#include "codegen/stage.h"
#include "codegen/tensor_core.h"
#include "uop/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <tuple>

namespace lathe {
namespace {

bool is_plain_output(const UOp& r) { return r.range().type == AxisType::Loop; }
bool is_plain_reduce(const UOp& r) { return r.range().type == AxisType::Reduce; }
bool is_dot(const UOp& r) { return r.range().type == AxisType::Dot; }
int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }
bool is_sized(const UOp& r) { return r.src(0).is_const(); }
// The most that a loop may have, where their number is known at the launch.
double steps_of(const UOp& r) { return r.bounds().hi.as_double() + 1; }

// Costs in cycles of a core that starts two vector operations and two loads a cycle.
constexpr double kPerOperation = 0.5, kPerLoad = 0.5;
constexpr double kPerPanelLoad = 2.5;         // from the second cache
constexpr double kNotHidden = 0.3;            // the share of the loads' time that operations do not cover
constexpr double kMinCyclesPerStep = 4;       // latency of an addition to one accumulator
constexpr double kLine = 64, kPerLine = 1.5;  // bytes of a line, cycles to get one
constexpr double kGatedScalarLoad = 4;        // a branch
// A vector of a panel: from rows, from rows under gates, lane by lane.
constexpr double kPackRow = 2, kPackGated = 3, kPackLane = 3, kPackBlock = 0.6;
constexpr double kStoreRow = 1, kStoreLane = 3, kStoreBlock = 0.5;  // of a transposed block: a lane
constexpr double kPartOverhead = 2000;  // what it costs to give a part to a thread

// A load of the reduction, and what it moves by along an axis: nothing where that is not linear.
struct Operand {
  UOp load, index;
  bool is_gated;
  double operations = 0;  // on each element, before it is multiplied
  bool depends_on(const UOp& r) const { return is_open(load, r); }
  std::optional<int64_t> stride(const UOp& r) const { return stride_in(index, r); }
};

// How an operand lies to the lanes and rows of a tile.
struct Access {
  bool on_lanes, on_rows, is_row, is_gated, may_alias;
  double item_bytes, other_uses;  // steps of the other output loops that read the same
  double row_bytes;               // from row to row
  double steps_a_line;            // of the reduction, in one line of a cache
  bool transposes;                // packing goes along memory in blocks
  double operations;              // on each element
};

// Reductions over the same loops, and what they load.
struct Sums {
  std::vector<UOp> reduces;
  std::vector<Operand> operands;
  std::vector<Access> accesses;
  double steps = 1;
};

struct Tile {
  UOp lanes_axis, rows_axis;
  int64_t lanes = 1, vectors = 1, rows = 1;
  double cost = std::numeric_limits<double>::infinity();
  double packing = 0;  // of it, for packing panels
};

class Contraction {
 public:
  Contraction(const UOp& body, const Target& target) : body_(body), target_(&target) { refresh(); }

  bool find() {
    choose_dots();
    if (!read_reductions()) return false;
    if (!merge_outputs() || !split_divided()) return false;
    list_other_accesses();
    for (Sums& s : sums_)
      for (Operand& o : s.operands) o.operations = static_cast<double>(operations_on(body_, o.load));
    std::vector<UOp> free = outputs_;
    std::erase_if(free, [&](const UOp& r) { return !is_sized(r) || fills_scratch(body_, r); });
    for (const UOp& lanes : free)
      for (const UOp& rows : free)
        if (!(lanes == rows)) consider(lanes, rows);
    return static_cast<bool>(best_.lanes_axis);
  }

  double cost() const { return best_.cost; }

  // Few rows do not pay for packing what has the steps of the sum side by side: those can be the lanes.
  bool is_better_along_memory() const {
    const auto is_along = [&](const Operand& o) {
      return std::ranges::any_of(axes_, [&](const UOp& r) { return is_plain_reduce(r) && o.stride(r) == 1; });
    };
    if (best_.packing < best_.cost / 2) return false;
    return std::ranges::all_of(sums_, [&](const Sums& s) {
      return std::ranges::all_of(s.operands, [&](const Operand& o) {
        return !o.depends_on(best_.lanes_axis) || o.depends_on(best_.rows_axis) || is_along(o);
      });
    });
  }

  UOp apply() {
    const Tile t = best_;
    std::vector<int> inside, outside;  // by whether the panel depends on the loop
    for (const UOp& r : outputs_)
      if (!(r == t.lanes_axis) && !(r == t.rows_axis))
        (panel_depends_on(r) ? outside : inside).push_back(r.range().id);
    const int panels = tile(t.lanes_axis, t.lanes * t.vectors);
    upcast_lanes(t);
    const int rows = tile(t.rows_axis, t.rows);
    if (t.rows > 1) act(ActionKind::Upcast, inner_, t.rows);
    if (panels >= 0) outside.push_back(panels);
    const std::vector<int> of_panels = outside;
    outside.insert(outside.end(), inside.begin(), inside.end());
    if (rows >= 0) outside.push_back(rows);
    std::vector<int> now;
    for (const UOp& r : outputs_) now.push_back(r.range().id);
    order(now, outside);
    order_reductions();
    const std::optional<Action> block = plan_block(inside.size() + (rows >= 0 ? 1 : 0));
    thread(of_panels, block.has_value());
    if (block) act(ActionKind::Block, block->axis, block->amount);
    stage();
    if (!blocks_.empty()) {  // more steps at once would take the registers of the sums
      for (const int id : blocks_)
        if (size_of(axes_[static_cast<size_t>(position(id))]) % 2 == 0) act(ActionKind::Unroll, id, 2);
      return body_;
    }
    merge_reductions();
    unroll(t.rows * t.vectors);
    return body_;
  }

 private:
  void refresh() {
    axes_ = kernel_axes(body_);
    outputs_.clear();
    for (const UOp& r : axes_)
      if (is_plain_output(r)) outputs_.push_back(r);
  }

  // Steps that an instruction sums are its own.
  void choose_dots() {
    for (const bool along : {true, false})  // others are packed that way
      for (const UOp& r : std::vector<UOp>(axes_))
        if (is_plain_reduce(r) && r.src(0).is_const())
          if (const int64_t n = dot_steps(body_, r, *target_); n && (!along || runs_along(body_, r)))
            return act(ActionKind::TensorCore, r.range().id, n);
  }

  // There is a reduction for each step of every output, and inside of it at most sums of short blocks.
  bool read_reductions() {
    sums_.clear();
    blocks_.clear();
    may_overlap_ = !reads_what_it_writes(body_);
    for (const UOp& r : axes_)
      if (!(is_plain_output(r) || is_plain_reduce(r) || (is_dot(r) && is_sized(r)))) return false;
    for (const UOp& u : toposort(body_)) {
      if (u.op() == Op::Barrier) return false;
      if (u.op() != Op::Reduce) continue;
      if (open_axis(u, AxisType::Reduce)) {
        if (!read_block(u)) return false;
        continue;
      }
      for (const UOp& r : outputs_)
        if (!is_open(u, r)) return false;
      if (!read_operands(u)) return false;
    }
    return !sums_.empty();
  }
  bool read_block(const UOp& reduce) {
    constexpr int64_t kMostSteps = 16;
    int64_t steps = 1;
    for (const UOp& r : reduce.srcs().subspan(1)) {
      if (!is_plain_reduce(r)) continue;
      if (!is_sized(r)) return false;
      steps *= size_of(r);
      if (!is_in_block(r)) blocks_.push_back(r.range().id);
    }
    return steps <= kMostSteps;
  }
  bool is_in_block(const UOp& r) const { return std::ranges::find(blocks_, r.range().id) != blocks_.end(); }
  bool read_operands(const UOp& reduce) {
    const auto same = std::ranges::find_if(sums_, [&](const Sums& s) {
      return std::ranges::equal(s.reduces[0].srcs().subspan(1), reduce.srcs().subspan(1));
    });
    Sums& sums = same == sums_.end() ? sums_.emplace_back() : *same;
    sums.reduces.push_back(reduce);
    sums.steps = 1;
    for (const UOp& r : axes_)
      if (is_plain_reduce(r) &&
          (is_in_block(r) || std::ranges::find(reduce.srcs(), r) != reduce.srcs().end()))
        sums.steps *= steps_of(r);
    const auto computes = [](const UOp& u) { return u.op() != Op::After; };  // not how scratch is filled
    for (const UOp& x : toposort(reduce.src(0), computes)) {
      if (x.op() == Op::Reduce && !open_axis(x, AxisType::Reduce)) return false;  // a sum of its own
      if (x.op() != Op::Load || std::ranges::find(sums.operands, x, &Operand::load) != sums.operands.end())
        continue;
      if (x.src(0).op() != Op::Index) return false;
      const UOp& at = x.src(0).src(1);
      // A gate on scratch says where it holds zeros, and goes with the steps that are left out.
      const bool is_gated_here = is_gated(at) && x.src(0).src(0).op() == Op::Param;
      sums.operands.push_back({x, ungated(at), is_gated_here || x.n_srcs() > 1});
    }
    return true;
  }

  // Output loops become one where every access goes through the pair with one stride, gates aside: vectors
  // then run across the ends of rows.
  bool merge_outputs() {
    body_ = merge_axes(body_, AxisType::Loop);
    refresh();
    return read_reductions();
  }
  bool split_divided() {
    while (const std::optional<Action> tile = divided_axis(body_, {AxisType::Loop, AxisType::Reduce})) {
      body_ = apply_action(body_, *tile);
      refresh();
      if (!read_reductions()) return false;
    }
    return true;
  }

  // ---- the cost of a tile

  // Where memory is stored to and loaded from once for an output.
  void list_other_accesses() {
    once_.clear();
    for (const UOp& u : toposort(body_))
      if ((u.op() == Op::Store || u.op() == Op::Load) && !is_operand(u)) once_.push_back(u.src(0).src(1));
  }

  // Every sum has to share loads both ways.
  bool is_shared_both_ways(const UOp& lanes_axis, const UOp& rows_axis) const {
    return std::ranges::all_of(sums_, [&](const Sums& s) {
      const auto on = [&](const UOp& one, const UOp& other) {
        return std::ranges::any_of(
            s.operands, [&](const Operand& o) { return o.depends_on(one) && !o.depends_on(other); });
      };
      return on(lanes_axis, rows_axis) && on(rows_axis, lanes_axis);
    });
  }

  void consider(const UOp& lanes_axis, const UOp& rows_axis) {
    if (!is_shared_both_ways(lanes_axis, rows_axis)) return;
    const int64_t n = size_of(lanes_axis), m = size_of(rows_axis);
    Tile t{lanes_axis, rows_axis};
    t.lanes = std::min<int64_t>(n, target_->lanes(sums_[0].reduces[0].dtype()));
    if (!may_overlap_)
      while (n % t.lanes) t.lanes--;
    if (t.lanes < 2) return;
    size_t accumulators = 0;
    for (Sums& s : sums_) {
      accumulators = std::max(accumulators, s.reduces.size());
      s.accesses.clear();
      for (const Operand& o : s.operands) s.accesses.push_back(access_of(o, s, t));
    }
    stores_ = row_stores_ = block_stores_ = 0;
    for (const UOp& at : once_) {
      if (!is_open(at, lanes_axis)) continue;
      const bool is_row = stride_in(at, lanes_axis) == 1, is_block = stride_in(at, rows_axis) == 1;
      (is_row ? row_stores_ : is_block ? block_stores_ : stores_) += 1;
    }
    constexpr int64_t kMostVectors = 6, kMostRows = 16;
    for (t.vectors = 1; t.vectors <= kMostVectors && t.vectors * t.lanes <= n; t.vectors++)
      for (t.rows = 1; t.rows <= std::min(m, kMostRows); t.rows++) {
        if (!may_overlap_ && (n % (t.lanes * t.vectors) || m % t.rows)) continue;
        const int64_t sums = t.rows * t.vectors * static_cast<int64_t>(accumulators);
        constexpr int64_t kMostOfBlocks = 16;  // beside them, those of a block take registers
        if (sums + t.vectors + 1 > target_->vector_registers || (!blocks_.empty() && sums > kMostOfBlocks))
          break;
        estimate(t);
        if (t.cost < best_.cost) best_ = t;
      }
  }

  // Free of the number of threads: which sums are made in blocks must not depend on it.
  void estimate(Tile& t) const {
    const auto vectors = static_cast<double>(t.vectors), rows = static_cast<double>(t.rows);
    const auto lanes = static_cast<double>(t.lanes);
    const auto panels = static_cast<double>(parts_of(size_of(t.lanes_axis), t.lanes * t.vectors));
    const auto tiles_a_panel = static_cast<double>(parts_of(size_of(t.rows_axis), t.rows));
    double outer = 1;
    for (const UOp& r : outputs_)
      if (!(r == t.lanes_axis) && !(r == t.rows_axis)) outer *= steps_of(r);
    double tile = 0;
    t.packing = 0;
    for (const Sums& s : sums_) tile += cycles_of(s, t);
    const double a_block = t.rows % 8 == 0 ? kStoreBlock : kStoreLane;
    tile +=
        vectors * rows * (row_stores_ * kStoreRow + (stores_ * kStoreLane + block_stores_ * a_block) * lanes);
    const double times = tiles_a_panel * panels * outer;
    t.packing *= times;
    t.cost = tile * times + t.packing;
  }

  // Of one tile's share in a sum; the packing goes to `t`.
  double cycles_of(const Sums& s, Tile& t) const {
    const auto vectors = static_cast<double>(t.vectors), rows = static_cast<double>(t.rows);
    const auto lanes = static_cast<double>(t.lanes);
    double operations = vectors * rows * static_cast<double>(s.reduces.size());
    double loads = 0;
    const auto tiles_a_panel = static_cast<double>(parts_of(size_of(t.rows_axis), t.rows));
    for (const Access& a : s.accesses) {
      if (a.on_lanes && a.on_rows) {
        loads += vectors * rows * (a.is_row ? kPerLoad : lanes * kPerLoad);
      } else if (a.on_lanes) {
        const double bytes = vectors * lanes * s.steps * a.item_bytes;
        loads += vectors * (bytes > static_cast<double>(target_->l1d_bytes) / 2 ? kPerPanelLoad : kPerLoad);
        t.packing += s.steps * vectors *
                     (!a.is_row    ? (a.transposes ? kPackBlock : kPackLane) * lanes
                      : a.is_gated ? kPackGated
                                   : kPackRow) /
                     (tiles_a_panel * a.other_uses);
      } else if (a.on_rows) {
        loads += rows * (a.is_gated ? kGatedScalarLoad : kPerLoad);
        if (a.operations > 0) operations += rows * (a.operations + 1);  // and a broadcast
        constexpr double kWays = 8;  // of the first cache, less some for others
        if (rows > kWays && a.row_bytes >= kLine) loads += (rows - kWays) * (a.may_alias ? 2 : 0.4);
        loads += kPerLine * std::min(rows, rows * a.row_bytes / kLine + 1) / a.steps_a_line;
      } else {
        loads += kPerLoad;
      }
    }
    return s.steps * (std::max({operations * kPerOperation, loads, kMinCyclesPerStep}) + kNotHidden * loads);
  }

  // The innermost loops go element by element, in blocks.
  static bool goes_in_blocks(const Operand& o, const Sums& s) {
    constexpr int64_t kBlock = 8;
    const auto loops = s.reduces[0].srcs().subspan(1);
    int64_t run = 1;
    for (size_t k = loops.size(); k-- > 0 && is_sized(loops[k]) && o.stride(loops[k]) == run;)
      run *= size_of(loops[k]);
    return run > 1 && run % kBlock == 0 && !open_axis(o.load, AxisType::Dot);
  }
  static double steps_a_line(const Operand& o, const Sums& s) {
    const auto loops = s.reduces[0].srcs().subspan(1);
    int64_t reach = 0, steps = 1;
    for (size_t k = loops.size(); k-- > 0;) {
      const auto stride = o.stride(loops[k]);
      if (!stride || !is_sized(loops[k]) || (reach ? *stride != reach : *stride < 1)) break;
      reach = *stride * size_of(loops[k]);
      steps *= size_of(loops[k]);
    }
    const double a_step = static_cast<double>(reach * item_size(o.load.dtype())) / static_cast<double>(steps);
    return a_step > 0 ? std::clamp(kLine / a_step, 1.0, static_cast<double>(steps)) : 1;
  }

  bool is_operand(const UOp& load) const {
    return std::ranges::any_of(sums_, [&](const Sums& s) {
      return std::ranges::find(s.operands, load, &Operand::load) != s.operands.end();
    });
  }

  Access access_of(const Operand& o, const Sums& s, const Tile& t) const {
    // Rows whose distance is a multiple of a page's half fall into the same few sets of the first cache.
    constexpr int64_t kHalfPage = 2048;
    const auto on_rows = o.stride(t.rows_axis), on_lanes = o.stride(t.lanes_axis);
    const UOp dot = open_axis(o.load, AxisType::Dot);
    const auto bytes = item_size(o.load.dtype()) * (dot ? size_of(dot) : 1);
    Access a{o.depends_on(t.lanes_axis),
             o.depends_on(t.rows_axis),
             on_lanes == 1,
             o.is_gated,
             on_rows && *on_rows && *on_rows * bytes % kHalfPage == 0,
             static_cast<double>(bytes),
             1,
             on_rows ? static_cast<double>(std::abs(*on_rows) * bytes) : kLine,
             steps_a_line(o, s),
             !o.is_gated && goes_in_blocks(o, s),
             o.operations};
    for (const UOp& r : outputs_)
      if (!(r == t.lanes_axis) && !(r == t.rows_axis) && !o.depends_on(r)) a.other_uses *= steps_of(r);
    return a;
  }

  // ---- actions

  int32_t position(int id) const {
    const auto at = std::ranges::find(axes_, id, [](const UOp& r) { return r.range().id; });
    CHECK(at != axes_.end(), "no such axis");
    return static_cast<int32_t>(at - axes_.begin());
  }
  // Applies an action to the axis with this range id.
  void act(ActionKind kind, int id, int64_t amount) {
    body_ = apply_action(body_, {kind, position(id), static_cast<int32_t>(amount)});
    refresh();
  }

  // The id of the loop over tiles, or -1 where one is all; that of the loop inside is inner_.
  int tile(const UOp& axis, int64_t amount) {
    inner_ = axis.range().id;
    if (size_of(axis) == amount) return -1;
    if (amount == 1) return inner_;
    const int outer = next_range_id(body_);
    act(ActionKind::Tile, inner_, amount);
    inner_ = outer + 1;
    return outer;
  }

  void upcast_lanes(const Tile& t) {
    const int vectors = next_range_id(body_);
    act(ActionKind::Vector, inner_, t.lanes);
    if (t.vectors > 1) act(ActionKind::Upcast, vectors, t.vectors);
  }

  bool panel_depends_on(const UOp& r) const {
    return std::ranges::any_of(sums_, [&](const Sums& s) {
      return std::ranges::any_of(s.operands, [&](const Operand& o) {
        return o.depends_on(best_.lanes_axis) && !o.depends_on(best_.rows_axis) && o.depends_on(r);
      });
    });
  }

  // Swaps the loops with the ids `now` until those at the front are `wanted`.
  void order(std::vector<int> now, const std::vector<int>& wanted) {
    for (size_t i = 0; i < wanted.size(); i++) {
      if (now[i] == wanted[i]) continue;
      act(ActionKind::Swap, now[i], position(wanted[i]));
      std::swap(now[i], *std::ranges::find(now, wanted[i]));
    }
  }
  // Steps of a sum go through the rows' memory in its order: panels are packed in any.
  void order_reductions() {
    if (sums_.size() != 1 || !blocks_.empty()) return;
    const Operand* rows = nullptr;
    for (const Operand& o : sums_[0].operands)
      if (o.depends_on(best_.rows_axis) && !o.depends_on(best_.lanes_axis)) rows = &o;
    if (!rows) return;
    std::vector<std::tuple<int64_t, size_t, int>> loops;  // by stride, and as they are now
    std::vector<int> now, wanted;
    for (const UOp& r : axes_) {
      if (!is_plain_reduce(r)) continue;
      const auto stride = rows->stride(r);
      if (!stride) return;
      loops.emplace_back(-std::abs(*stride), loops.size(), r.range().id);
      now.push_back(r.range().id);
    }
    std::ranges::sort(loops);
    for (const auto& [stride, place, id] : loops) wanted.push_back(id);
    order(now, wanted);
  }

  // Panels that would not stay in the second cache are taken in blocks: of the loop with this id. All `inner`
  // loops that share a panel become the one that runs through for each block.
  std::optional<Action> plan_block(size_t inner) {
    const auto most = static_cast<double>(target_->l2_bytes) / 2;
    double bytes = 0;
    for (const UOp& load : stageable_loads(body_)) {
      if (!open_axis(load, AxisType::Vector)) continue;
      if (const StagePlan plan = plan_stage(body_, load); plan.uses > 1)
        bytes = std::max(bytes, static_cast<double>(plan.bytes));
    }
    if (bytes <= most || outputs_.empty() || !is_sized(outputs_.back())) return std::nullopt;
    int64_t item_bytes = 0;
    for (const Sums& s : sums_)
      for (const UOp& u : s.reduces) item_bytes += item_size(u.dtype());
    // The sums of the loop lie in scratch, too.
    const auto fits = [&](int64_t steps) {
      return static_cast<double>(steps * best_.rows * best_.vectors * best_.lanes * item_bytes) <= most;
    };
    if (!fits(size_of(outputs_.back()))) return std::nullopt;
    const UOp* longest = nullptr;
    for (const UOp& r : axes_)
      if (is_plain_reduce(r) && is_sized(r) && (!longest || size_of(r) > size_of(*longest))) longest = &r;
    if (!longest) return std::nullopt;
    const int id = longest->range().id;
    const int64_t size = size_of(*longest);
    for (int64_t n = size / 2; n >= 32; n--) {
      if (size % n || bytes / static_cast<double>(size / n) > most) continue;
      for (; inner > 1; inner--) {
        const UOp& before = outputs_[outputs_.size() - 2];
        if (!is_sized(before) || !fits(size_of(before) * size_of(outputs_.back()))) break;
        act(ActionKind::Merge, before.range().id, 0);
      }
      return Action{ActionKind::Block, id, static_cast<int32_t>(n)};
    }
    return std::nullopt;
  }

  // The loop whose parts keep the threads busiest; the last of them may overlap the one before. Parts of a
  // loop that panels do not depend on pack them each for itself.
  void thread(const std::vector<int>& of_panels, bool blocks) {
    if (!target_->has_threads || target_->max_threads < 2) return;
    const auto threads = static_cast<double>(target_->max_threads);
    UOp best;
    int64_t best_part = 0;
    double best_time = best_.cost;
    for (const UOp& r : outputs_) {
      if (!is_sized(r)) continue;
      const int64_t n = std::max<int64_t>(
          1, size_of(r) / (blocks && r == outputs_.back() ? 2 : 1));  // some are left a block
      const bool packs_again = std::ranges::find(of_panels, r.range().id) == of_panels.end();
      constexpr int64_t kMostParts = 64;  // a thread
      const int64_t most_busy = parts_of(size_of(r), std::min<int64_t>(n, target_->max_threads));
      for (int64_t parts = parts_of(size_of(r), most_busy);  // as few as take as long as one a thread
           parts <= std::min(n, kMostParts * target_->max_threads); parts++) {
        const int64_t part = parts_of(size_of(r), parts);
        if (parts < 2 || part * parts >= size_of(r) + part || (!may_overlap_ && size_of(r) % parts)) continue;
        const auto p = static_cast<double>(parts),
                   share = static_cast<double>(part) / static_cast<double>(size_of(r));
        const double work = best_.cost - best_.packing + best_.packing * (packs_again ? 1 / share : 1);
        const double time = work * share * std::ceil(p / threads) + p * kPartOverhead / threads;
        if (time >= best_time * 0.98) continue;
        best = r;
        best_part = part;
        best_time = time;
      }
    }
    if (!best) return;
    if (size_of(best) % best_part == 0)
      return act(ActionKind::Thread, best.range().id, size_of(best) / best_part);
    act(ActionKind::Thread, tile(best, best_part), 0);
  }

  // Panels are packed where that pays: rows far apart in memory fall into few sets of the caches, and gates
  // and gathers are paid once.
  void stage() {
    int64_t staged = 0;  // scratch is on the stack
    std::vector<UOp> loads = stageable_loads(body_);
    for (size_t i = 0, n = loads.size(); i < n; i++) {
      const UOp load = loads[i];
      const UOp vector = open_axis(load, AxisType::Vector);
      if (!vector) continue;
      const StagePlan plan = plan_stage(body_, load);
      if (!plan.bytes || staged + plan.bytes > target_->l2_bytes) continue;
      const UOp& at = load.src(0).src(1);
      const bool is_row = !is_gated(at) && stride_in(at, vector) == 1;
      constexpr double kMinUses = 8;
      if (plan.uses < (is_row ? kMinUses : 2)) continue;
      if (is_row && (plan.bytes < target_->l1d_bytes / 2 || is_packed(load, plan))) continue;
      body_ = apply_action(body_, {ActionKind::Stage, static_cast<int32_t>(i), 0});
      refresh();
      loads = stageable_loads(body_);
      staged += plan.bytes;
    }
  }

  // Whether the elements that a panel would hold are one run of memory.
  bool is_packed(const UOp& load, const StagePlan& panel) const {
    int64_t run = 1;
    for (const UOp& r : axes_) {
      if (!is_plain_reduce(r) && r.range().type != AxisType::Vector && r.range().type != AxisType::Upcast)
        continue;
      if (!is_sized(r)) return false;
      const auto stride = stride_in(load.src(0).src(1), r);
      if (!stride) return false;
      run += (size_of(r) - 1) * std::abs(*stride);
    }
    return run * item_size(load.dtype()) == panel.bytes;
  }

  // Packed panels have one stride.
  void merge_reductions() {
    body_ = merge_axes(body_, AxisType::Reduce);
    refresh();
  }

  // A few steps side by side, so that the loop itself costs little.
  void unroll(int64_t copies) {
    constexpr int64_t kMostCopies = 128;
    if (axes_.empty() || !is_plain_reduce(axes_.back()) || !is_sized(axes_.back())) return;
    const int64_t size = size_of(axes_.back());
    for (const int64_t n : {4, 3, 2})
      if (size % n == 0 && copies * n <= kMostCopies && !steps_share_loads(axes_.back(), n))
        return act(ActionKind::Unroll, axes_.back().range().id, n);
  }
  // Whether `n` steps load the same elements for different rows: compilers would keep them in registers that
  // are needed for sums.
  bool steps_share_loads(const UOp& step, int64_t n) const {
    std::vector<UOp> rows;
    for (const UOp& r : axes_)
      if (r.range().type == AxisType::Upcast) rows.push_back(r);
    return std::ranges::any_of(toposort(body_), [&](const UOp& u) {
      if (u.op() != Op::Load || u.src(0).op() != Op::Index || open_axis(u, AxisType::Vector)) return false;
      const UOp& at = ungated(u.src(0).src(1));
      const int64_t by_step = stride_in(at, step).value_or(0);
      if (!by_step) return false;
      return std::ranges::any_of(rows, [&](const UOp& r) {
        const int64_t by_row = stride_in(at, r).value_or(0);
        for (int64_t i = 1; by_row && i < size_of(r); i++)
          if (by_row * i % by_step == 0 && std::abs(by_row * i / by_step) < n) return true;
        return false;
      });
    });
  }

  UOp body_;
  const Target* target_;
  std::vector<UOp> axes_, outputs_;
  std::vector<Sums> sums_;
  std::vector<int> blocks_;  // ranges of sums inside the sums
  std::vector<UOp> once_;    // indices of what is loaded and stored once for an output
  double stores_ = 0, row_stores_ = 0, block_stores_ = 0;
  bool may_overlap_ = true;
  Tile best_;
  int inner_ = -1;
};

// Forms of the body in which a load that slides along output loops reads from a copy, with what the copies
// cost.
struct Form {
  UOp body;
  double cost = 0;
};
std::vector<Form> sliding_forms(const UOp& body, const Target& target) {
  constexpr double kLanes = 16, kSelect = 1;
  constexpr int kMostSlides = 2;
  std::vector<Form> out;
  const std::vector<UOp> loads = stageable_loads(body);
  for (size_t i = 0; i < loads.size(); i++) {
    int n = 0;
    for (const SlidePlan& plan : plan_slides(body, loads[i])) {
      if (++n > kMostSlides || plan.bytes > target.l2_bytes / 2) break;
      const UOp staged = record(plan.stage(), {ActionKind::Stage, static_cast<int32_t>(i), n});
      out.push_back({staged, plan.elements * plan.times / kLanes * (kPackGated + kSelect)});
    }
  }
  return out;
}

}  // namespace

std::optional<UOp> tile_contraction(const UOp& body, const Target& target) {
  if (target.work_groups) return {};
  Contraction best(body, target);
  if (!best.find()) return {};
  double best_cost = best.cost();
  for (const Form& form : sliding_forms(body, target)) {
    Contraction c(form.body, target);
    if (!c.find() || c.cost() + form.cost >= best_cost) continue;
    best_cost = c.cost() + form.cost;
    best = std::move(c);
  }
  if (best.is_better_along_memory()) return {};
  return best.apply();
}

}  // namespace lathe
