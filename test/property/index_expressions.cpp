// Index arithmetic, at random.
#include "property/run.h"

#include "support/test.h"

using namespace lathe::test;

TEST_CASE("simplification of random index expressions") {
  const RunResult run = run_properties(Theme::Index, 60000);
  if (!run.failure.empty()) FAIL(run.failure);
}
