// Axes by name.
#include "ops/table.h"

#include "support/test.h"

using namespace lathe;
using namespace lathe::ops;

namespace {

// The element at i of the result is the one of x at from(i).
Row rearrange(const char* name, const char* formula, AxisSizes sizes, Index shape, Index result,
              Index (*from)(I)) {
  return Row(
             name, {in(std::move(shape))}, [=](T x) { return x.rearrange(formula, sizes); },
             [=](A x) { return build(result, [&](I i) { return x(from(i)); }); })
      .exact();
}

Rows rearrangements() {
  return {
      rearrange("rearrange", "a b c -> c (a b)", {}, {2, 3, 4}, {4, 6},
                [](I i) { return Index{i[1] / 3, i[1] % 3, i[0]}; })
          .on({DType::Float32, DType::Int8}),
      rearrange("rearrange: a split", "(h w) c -> c h w", {{"h", 2}}, {6, 2}, {2, 2, 3},
                [](I i) { return Index{i[1] * 3 + i[2], i[0]}; }),
      rearrange("rearrange: an ellipsis", "a ... b -> b a ...", {}, {2, 3, 4, 5}, {5, 2, 3, 4},
                [](I i) { return Index{i[1], i[2], i[3], i[0]}; }),
      rearrange("rearrange: an ellipsis of no axes, in a group", "a b ... -> (b ... a)", {}, {2, 3}, {6},
                [](I i) { return Index{i[0] % 2, i[0] / 2}; }),
      rearrange("rearrange: ones", "a 1 b -> 1 b () a", {}, {2, 1, 3}, {1, 3, 1, 2},
                [](I i) { return Index{i[3], 0, i[1]}; }),
      rearrange("rearrange: blocks", "(a b) (c d1) -> a c b d1", {{"b", 2}, {"d1", 3}}, {4, 6}, {2, 2, 2, 3},
                [](I i) { return Index{i[0] * 2 + i[2], i[1] * 3 + i[3]}; }),
      rearrange("rearrange: all axes merged", "... -> (...)", {}, {2, 3}, {6},
                [](I i) { return Index{i[0] / 3, i[0] % 3}; }),
  };
}

}  // namespace

TABLE_TEST_CASE("rearrangements", rearrangements)
