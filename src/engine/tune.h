// Schedules that a search found by timing kernels on this machine.
#pragma once
#include "runtime/device.h"
#include "uop/uop.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lathe {

// With BEAM >= 1, on devices that run programs: searches for a schedule of a kernel graph unless one is
// known, and keeps it, in the kernel cache as well. Times the kernel over memory of its own, on all threads
// that it uses: nothing else should run meanwhile. On cancel() what was found so far is kept, then Cancelled
// is thrown.
void find_schedule(const UOp& body, Device& device);

// What such a search found, in this process or one before, whatever its width; nothing without BEAM. Of the
// same body, machine and knobs.
std::optional<std::vector<Action>> found_schedule(const UOp& body, Device& device);

// Of a search that has ended.
struct Tuned {
  std::string name;  // of the kernel under its new schedule
  std::string actions;
  double before, after;  // seconds under the heuristic's schedule and under the new one
  int tried;             // schedules timed
};
// Called after each search, until another takes its place. Returns what was there before.
std::function<void(const Tuned&)> on_tuned(std::function<void(const Tuned&)> listener);

}  // namespace lathe
