// Training mode: the TRAINING knob for a scope.
#pragma once
#include "base/knobs.h"

namespace lathe::nn {

inline bool is_training() { return knob(Knob::TRAINING) != 0; }

// Turns training mode on (or off) until the end of the scope, for the whole process.
class [[nodiscard]] TrainingScope {
 public:
  explicit TrainingScope(bool on = true) : scope_(Knob::TRAINING, on ? 1 : 0) {}

 private:
  KnobScope scope_;
};

}  // namespace lathe::nn
