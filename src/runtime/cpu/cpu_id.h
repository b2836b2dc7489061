#pragma once
#include "base/hash.h"

namespace lathe {

// Processors with equal ids run each other's code: family, model and every feature the processor and the
// system offer. Part of a cached kernel's key.
Hash128 cpu_id();

}  // namespace lathe
