// Arithmetic that wraps and rounds, at random.
#include "property/run.h"

#include "support/test.h"

using namespace lathe::test;

TEST_CASE("simplification of random typed expressions") {
  const RunResult run = run_properties(Theme::Typed, 40000);
  if (!run.failure.empty()) FAIL(run.failure);
}
