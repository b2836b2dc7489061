// Arithmetic that wraps and rounds, at random.
#include "property/run.h"
#include "uop/simplify.h"

#include "support/test.h"

using namespace lathe::test;

TEST_CASE("simplification of random typed expressions") {
  const RunResult run = run_properties(Theme::Typed, 40000, lathe::simplify);
  if (!run.failure.empty()) FAIL(run.failure);
  // Typed integers have no normal form: their operands keep the order that they came in.
  CHECK(run.order_differs * 10 <= run.expressions * 3 + 1);
}
