#pragma once

#include <chrono>

namespace lathe {

// Seconds on a clock that never goes back; only differences mean anything.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace lathe
