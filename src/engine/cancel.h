// Stopping what runs, from a signal handler or another thread.
#pragma once
#include "base/error.h"

namespace lathe {

// What a call that runs kernels throws after cancel().
class Cancelled : public Error {
 public:
  using Error::Error;
};

// The call that schedules, compiles or runs kernels now, or else the next one, throws Cancelled before its
// next kernel. It leaves all tensors as they were, so that it goes on after the first kernel that writes to
// memory from before it. Safe in signal handlers.
void cancel() noexcept;
// Where a call may stop: throws after cancel(), once.
void stop_if_cancelled();

}  // namespace lathe
