// Sums, maxima and products over Ranges, at random.
#include "property/run.h"
#include "uop/rewrite.h"
#include "uop/simplify.h"

#include "support/test.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("reductions in closed form have the value of the loop") {
  constexpr double kRounding = 1e-5;  // a factor that leaves a sum of floats changes it
  const RunResult run = run_properties(
      Theme::Reduced, 10000, [](const UOp& u) { return graph_rewrite(u, reduce_rules()); }, kRounding);
  if (!run.failure.empty()) FAIL(run.failure);
  // Typed integers under a reduction keep the order that they came in, too.
  CHECK(run.order_differs * 10 <= run.expressions + 1);
}
