// Runs the properties over many random expressions.
#pragma once
#include "property/generator.h"
#include "property/properties.h"

namespace lathe::test {

// Sanitizers make everything some twenty times slower; there is that much less to do under them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr size_t kSlowdown = 20;
#else
inline constexpr size_t kSlowdown = 1;
#endif

struct RunResult {
  size_t expressions = 0;
  size_t order_differs = 0;  // results that depend on the order of construction, which end no run
  std::string failure;       // report of the first failure, made small; empty when there is none
};

// PROPERTY_SEED and PROPERTY_COUNT in the environment replace seed and count, PROPERTY_FIRST=n starts with
// expression n, to see one of them again. PROPERTY_ALL goes on after a failure and prints each,
// PROPERTY_ORDER makes failures of Order ones.
RunResult run_properties(Theme theme, size_t count, const Simplifier& simplifier, double tolerance = 0);

}  // namespace lathe::test
