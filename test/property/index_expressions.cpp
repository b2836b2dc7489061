// Index arithmetic, at random.
#include "property/run.h"
#include "uop/simplify.h"

#include "support/test.h"

using namespace lathe::test;

TEST_CASE("simplification of random index expressions") {
  const RunResult run = run_properties(Theme::Index, 60000, lathe::simplify);
  if (!run.failure.empty()) FAIL(run.failure);
  // Partial sums of quotients and remainders can be put together in more than one way.
  CHECK(run.order_differs * 5000 <= run.expressions + 5000);
}
