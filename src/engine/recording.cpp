#include "engine/recording.h"

#include <algorithm>
#include <iterator>

namespace lathe {
namespace {
thread_local Recording* t_open = nullptr;
}  // namespace

Recording* Recording::open() { return t_open; }

Recording::Recording(uint64_t mark) : mark_(mark), start_(new_buffer({1}, DType::UInt8, "").param().slot) {
  CHECK(!t_open, "a recording within another");
  t_open = this;
}

void Recording::close() {
  if (t_open == this) t_open = nullptr;
}

void Recording::add(std::span<const ScheduledKernel> kernels, const VariableValues& values) {
  // All or nothing: what comes to be known as realised is recorded.
  std::vector<Launch> launches = make_launches(kernels, values);
  std::ranges::move(launches, std::back_inserter(launches_));
}

void Recording::run() const {
  const auto lock = lock_engine();
  run_launches(launches_);
}

}  // namespace lathe
