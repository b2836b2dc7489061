// What would run, kept instead.
#pragma once
#include "engine/launch.h"

#include <span>
#include <vector>

namespace lathe {

// While one is open, realize() on this thread compiles its kernels and records them: the values it speaks of
// have no contents before the recording runs. Buffers from the host are filled at once.
class Recording {
 public:
  // `mark` is for who opens it.
  explicit Recording(uint64_t mark = 0);
  ~Recording() { close(); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  static Recording* open();  // of this thread, or null
  void close();
  void add(std::span<const ScheduledKernel> kernels, const VariableValues& values);
  // Runs everything as it would have run.
  void run() const;

  uint64_t mark() const { return mark_; }
  const std::vector<Launch>& launches() const { return launches_; }
  // Whether the Buffer is younger than the recording.
  bool made(const UOp& buffer) const { return buffer.param().slot > start_; }

 private:
  std::vector<Launch> launches_;
  uint64_t mark_;
  int64_t start_;  // number of the last Buffer before it
};

}  // namespace lathe
