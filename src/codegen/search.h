// Beam search over schedules: lists of actions, compared by what they take. Who times them is the caller.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

#include <functional>
#include <span>
#include <unordered_set>
#include <vector>

namespace lathe {

struct SearchOptions {
  int width = 1;         // schedules kept from round to round
  int64_t copies = 256;  // most copies of an expression, vectors of several registers counted as so many
  double seconds = 0;    // the search ends soon after; 0: no limit
};

struct TimedSchedule {
  std::vector<Action> actions;
  double seconds;
};

// Seconds that the kernel takes under each schedule, all timed in turn; infinite for those that cannot be
// run. Of one that is clearly slower than another a rough time will do, except for the first.
using TimeSchedules = std::function<std::vector<double>(std::span<const std::vector<Action>> schedules)>;

// Starts from the heuristic's schedule, then from no action at all. A round tries what differs from the kept
// schedules by one action more, one less, or one other amount; the fastest are kept until a round gains
// nothing. The schedules are for lower(body, target, actions). Progress is shown with DEBUG=2.
class Search {
 public:
  Search(const UOp& body, const Target& target, const SearchOptions& options, TimeSchedules time);
  // What the timer throws passes through; best() is what was found by then.
  void run();
  // The heuristic's until something else was faster.
  const TimedSchedule& best() const { return best_; }
  const TimedSchedule& heuristic() const { return heuristic_; }
  int tried() const { return tried_; }  // schedules timed

 private:
  TimedSchedule explore(TimedSchedule start);
  std::vector<double> time(std::span<const std::vector<Action>> schedules);
  bool is_over() const;

  const Target target_;
  UOp body_;
  SearchOptions options_;
  TimeSchedules time_;
  TimedSchedule best_, heuristic_;
  std::unordered_set<UOp> seen_;  // kernels that were tried
  double start_;
  int tried_ = 0;
};

// All schedules that differ from `actions` by one action and are legal for a body whose ranges are merged,
// each kernel once; `seen` takes them.
std::vector<std::vector<Action>> neighbours(const UOp& body, const Target& target, int64_t copies,
                                            const std::vector<Action>& actions,
                                            std::unordered_set<UOp>& seen);

}  // namespace lathe
