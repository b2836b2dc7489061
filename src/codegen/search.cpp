#include "codegen/search.h"

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"
#include "codegen/actions.h"
#include "codegen/kernel_parts.h"
#include "codegen/lower.h"
#include "codegen/passes.h"
#include "codegen/stage.h"
#include "uop/arg_kind.h"

#include <algorithm>
#include <limits>

namespace lathe {
namespace {

constexpr double kGain = 0.98;   // of the time before; a round that gains less is the last
constexpr double kClear = 0.95;  // of the heuristic's time; what takes longer is no better
constexpr int kLaps = 5;         // of the last race
constexpr size_t kBatch = 12;    // schedules timed between two looks at the clock
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What is worth trying of each kind; illegal amounts cost a look.
std::span<const int32_t> amounts_of(ActionKind kind) {
  static constexpr int32_t kCopies[] = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};
  static constexpr int32_t kSteps[] = {2, 3, 4, 7, 8, 16};
  static constexpr int32_t kLanes[] = {4, 8, 14, 16, 28, 32, 48, 64};
  static constexpr int32_t kParts[] = {2, 4, 8, 16, 32};
  static constexpr int32_t kTiles[] = {4, 8, 16, 32, 64, 128, 256, 512};
  static constexpr int32_t kItems[] = {2, 4, 8, 16, 32, 64};
  static constexpr int32_t kAny[] = {0, 1, 2, 3, 4, 8, 16, 32, 64};
  switch (kind) {
    case ActionKind::Upcast: return kCopies;
    case ActionKind::Unroll: return kSteps;
    case ActionKind::Vector: return kLanes;
    case ActionKind::Thread: return kParts;
    case ActionKind::Tile: return kTiles;
    case ActionKind::Local:
    case ActionKind::Group: return kItems;
    case ActionKind::Stage: return std::span(kAny).first(1);
    default: return kAny;
  }
}

bool suits(ActionKind kind, const Target& target) {
  if (kind == ActionKind::Local || kind == ActionKind::Group) return target.work_groups.has_value();
  return kind != ActionKind::Thread || (target.has_threads && target.max_threads > 1);
}

// The body under a schedule; null where that is illegal.
UOp with_actions(UOp body, std::span<const Action> actions) {
  try {
    for (const Action& a : actions) body = apply_action(body, a);
  } catch (const UserError&) {
    return {};
  }
  return body;
}

// Bodies that differ in the numbers of ranges and in the way to them only become equal.
UOp canonical(const UOp& body) {
  constexpr int kFirstId = 1 << 20;
  std::vector<RangeChange> changes;
  for (const UOp& r : kernel_axes(body)) {
    const UOp same = range(r.src(0), kFirstId + static_cast<int>(changes.size()), r.range().type);
    changes.push_back({r, same, {same}});
  }
  KernelArg arg = *body.arg_as<KernelPtr>();
  arg.actions.clear();
  return change_ranges(body, changes).with_arg(std::make_shared<const KernelArg>(std::move(arg)));
}

// Whether the target has such vectors, no expression takes more registers than `copies`, its copies times
// what its lanes fill, and all scratch fits half of the second cache.
bool is_small(const UOp& body, const Target& target, int64_t copies) {
  int64_t scratch = 0;
  for (const UOp& u : toposort(body)) {
    if (u.op() == Op::Buffer) scratch += prod(u.shape()).vmax() * item_size(u.dtype());
    if (u.op() != Op::Load && u.op() != Op::Store && u.op() != Op::Reduce) continue;
    int64_t n = 1, lanes = 1;
    for (const Node* r : (u.op() == Op::Reduce ? u.src(0) : u).ranges()) {
      const UOp axis(r);
      const AxisType t = axis.range().type;
      if (t == AxisType::Upcast || t == AxisType::Unroll) n *= axis.src(0).value().as_i64();
      if (t == AxisType::Vector) lanes *= axis.src(0).value().as_i64();
    }
    const int64_t register_lanes = std::max(1, target.vector_bits / 32);
    if (lanes > target.max_lanes || n * ((lanes + register_lanes - 1) / register_lanes) > copies)
      return false;
  }
  return scratch <= target.l2_bytes / 2;
}

// Calls `f` with every action that some axis, or load, of the body might take.
void for_each_action(const UOp& body, const Target& target, FunctionRef<void(const Action&)> f) {
  const auto n = static_cast<int32_t>(kernel_axes(body).size());
  for (size_t k = 0; k < std::size(kActionKindNames); k++) {
    const auto kind = static_cast<ActionKind>(k);
    if (!suits(kind, target)) continue;
    const int32_t places = kind == ActionKind::Stage ? static_cast<int32_t>(stageable_loads(body).size()) : n;
    for (int32_t axis = 0; axis < places; axis++) {
      if (kind == ActionKind::Swap)
        for (int32_t other = axis + 1; other < n; other++) f({kind, axis, other});
      else
        for (const int32_t amount : amounts_of(kind)) f({kind, axis, amount});
    }
  }
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

}  // namespace

std::vector<std::vector<Action>> neighbours(const UOp& body, const Target& target, int64_t copies,
                                            const std::vector<Action>& actions,
                                            std::unordered_set<UOp>& seen) {
  std::vector<std::vector<Action>> out;
  const auto consider = [&](std::vector<Action> schedule, const UOp& made) {
    if (!made || !is_small(made, target, copies) || !seen.insert(canonical(made)).second) return;
    out.push_back(std::move(schedule));
  };
  for (size_t i = 0; i < actions.size(); i++) {
    std::vector<Action> other = actions;
    for (const int32_t amount : amounts_of(actions[i].kind)) {
      other[i].amount = amount;
      if (actions[i].kind != ActionKind::Swap) consider(other, with_actions(body, other));
    }
    other.erase(other.begin() + static_cast<std::ptrdiff_t>(i));
    consider(other, with_actions(body, other));
  }
  const UOp made = with_actions(body, actions);
  if (!made) return out;
  for_each_action(made, target, [&](const Action& a) {
    std::vector<Action> longer = actions;
    longer.push_back(a);
    consider(std::move(longer), with_actions(made, {&a, 1}));
  });
  return out;
}

Search::Search(const UOp& body, const Target& target, const SearchOptions& options, TimeSchedules time)
    : target_(without_emulated(target)),
      body_(prepare_kernel(body, target_)),
      options_(options),
      time_(std::move(time)),
      start_(now_seconds()) {
  heuristic_ = {optimise(body_, target_).arg_as<KernelPtr>()->actions, kInfinity};
  best_ = heuristic_;
}

bool Search::is_over() const { return options_.seconds > 0 && now_seconds() - start_ > options_.seconds; }

std::vector<double> Search::time(std::span<const std::vector<Action>> schedules) {
  std::vector<double> out = time_(schedules);
  CHECK(out.size() == schedules.size(), "{} schedules, {} times", schedules.size(), out.size());
  tried_ += static_cast<int>(out.size());
  return out;
}

void Search::run() {
  const std::vector<Action> plain = merge_ranges(body_).arg_as<KernelPtr>()->actions;
  std::vector<std::vector<Action>> finals = {heuristic_.actions, plain};
  const std::vector<double> starts = time(finals);
  heuristic_.seconds = best_.seconds = starts[0];
  const bool is_shown = knob(Knob::DEBUG) >= 2;
  if (is_shown)
    debug_line("search: {} as the heuristic has it, {} with no action", milliseconds(starts[0]),
               milliseconds(starts[1]));
  for (const auto& actions : finals) seen_.insert(canonical(with_actions(body_, actions)));
  best_ = explore(heuristic_);
  // A kernel that takes long without any action would have no time left for more than a few rounds.
  constexpr double kRuns = 200;
  if (options_.seconds <= 0 || starts[1] * kRuns < options_.seconds)
    finals.push_back(explore({plain, starts[1]}).actions);
  finals[1] = best_.actions;
  // Chance alone makes one of several equals the fastest: the heuristic's stays unless one is clearly faster.
  std::vector<double> last = time(finals);
  for (int lap = 1; lap < kLaps; lap++)
    std::ranges::transform(last, time(finals), last.begin(),
                           [](double a, double b) { return std::min(a, b); });
  auto fastest = std::ranges::min_element(last) - last.begin();
  if (!(last[static_cast<size_t>(fastest)] < last[0] * kClear)) fastest = 0;
  heuristic_.seconds = last[0];
  best_ = {finals[static_cast<size_t>(fastest)], last[static_cast<size_t>(fastest)]};
  if (is_shown)
    debug_line("search: {} after {} schedules in {:.1f} s, {:.2f} times as fast as the heuristic's: {}",
               milliseconds(best_.seconds), tried_, now_seconds() - start_,
               heuristic_.seconds / best_.seconds, print_actions(best_.actions));
}

// The machine may be slower for a while, so times are told as ratios to the first kept schedule, which is
// timed anew beside each batch. The least of many times is low by chance: those of a round that are kept are
// timed once more.
TimedSchedule Search::explore(TimedSchedule start) {
  const bool is_first = start.actions == heuristic_.actions;
  const auto by_time = [](const TimedSchedule& s) { return std::pair(s.seconds, s.actions.size()); };
  std::vector<TimedSchedule> beam = {std::move(start)};
  for (int round = 1; !is_over(); round++) {
    std::vector<std::vector<Action>> fresh;
    for (const TimedSchedule& s : beam)
      for (auto& n : neighbours(body_, target_, options_.copies, s.actions, seen_))
        fresh.push_back(std::move(n));
    const TimedSchedule before = beam[0];
    size_t done = 0;
    while (done < fresh.size() && !is_over()) {
      const size_t n = std::min(kBatch, fresh.size() - done);
      std::vector<std::vector<Action>> batch = {before.actions};
      for (size_t i = 0; i < n; i++) batch.push_back(std::move(fresh[done++]));
      const std::vector<double> seconds = time(batch);
      for (size_t i = 1; i <= n; i++)
        if (seconds[i] < kInfinity)
          beam.push_back({std::move(batch[i]), before.seconds * (seconds[i] / seconds[0])});
    }
    std::ranges::sort(beam, {}, by_time);
    beam.resize(std::min(beam.size(), static_cast<size_t>(options_.width)));
    std::vector<std::vector<Action>> kept = {before.actions};
    for (const TimedSchedule& s : beam) kept.push_back(s.actions);
    const std::vector<double> again = time(kept);
    if (!(again[0] < kInfinity)) break;
    for (size_t i = 0; i < beam.size(); i++)
      if (beam[i].actions != before.actions) beam[i].seconds = before.seconds * (again[i + 1] / again[0]);
    std::ranges::sort(beam, {}, by_time);
    if (is_first && beam[0].seconds < best_.seconds) best_ = beam[0];
    if (knob(Knob::DEBUG) >= 2)
      debug_line("search: round {}, {} of {} new schedules timed, the best takes {}: {}", round, done,
                 fresh.size(), milliseconds(beam[0].seconds), print_actions(beam[0].actions));
    if (!(beam[0].seconds < before.seconds * kGain)) break;
  }
  return beam[0];
}

}  // namespace lathe
