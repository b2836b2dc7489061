#pragma once
#include "base/hash.h"

#include <string>

namespace lathe {

// Processors with equal ids run each other's code: family, model and every feature the processor and the
// system offer. Part of a cached kernel's key.
Hash128 cpu_id();

// What the maker calls the processor: "AMD EPYC 9B14"; empty where it does not say.
std::string cpu_name();

}  // namespace lathe
