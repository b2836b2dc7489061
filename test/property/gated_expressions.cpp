// Gates and the indices under them, at random.
#include "property/run.h"
#include "uop/gates.h"

#include "support/test.h"

using namespace lathe::test;

TEST_CASE("simplification of random indices under gates") {
  const RunResult run = run_properties(Theme::Gated, 10000, lathe::simplify_gates);
  if (!run.failure.empty()) FAIL(run.failure);
  // As for index expressions without gates.
  CHECK(run.order_differs * 5000 <= run.expressions + 5000);
}
