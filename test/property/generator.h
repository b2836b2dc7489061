// Random expressions of the shapes that index arithmetic has.
#pragma once
#include "property/random.h"
#include "uop/uop.h"

#include <vector>

namespace lathe::test {

enum class Theme : uint8_t {
  Index,    // weakints, bools, Ranges, gates, lanes, loads
  Gated,    // an index under a gate
  Reduced,  // reductions over Ranges
  Typed,    // int32, int64, uint8, float and bools among them, with weak literals and casts
};

class Generator {
 public:
  Generator(Theme theme, Random random) : theme_(theme), random_(random) {}
  // A scalar or a vector of shape (n,), over one to four variables and Ranges. Not simplified at all.
  UOp expression();

 private:
  UOp index_root(int depth);
  UOp gated_root(int depth);
  UOp reduced_root();
  UOp reduced_value(DType d);
  UOp index(int depth);
  UOp index_shape(int depth);
  UOp index_leaf();
  UOp index_constant();
  UOp sum(int depth);
  UOp divided(int depth);
  UOp nested_division(int depth);
  UOp reshaped();
  UOp recombined(int depth);
  UOp by_symbol(int depth);
  UOp selected(int depth);
  UOp correlated(int depth);
  UOp gated(int depth);
  UOp bits(int depth);
  UOp converted(int depth);
  UOp condition(int depth);
  UOp comparison(int depth);
  UOp clauses(int depth);
  UOp typed(DType d, int depth);
  UOp typed_int(DType d, int depth);
  UOp real(int depth);
  UOp typed_leaf(DType d);
  UOp typed_condition(int depth);
  int64_t divisor();
  void declare();

  Theme theme_;
  Random random_;
  std::vector<UOp> indices_, ints_, bools_;
};

// The same value, built in another order: operands of commutative ops swapped, sums, products, And, Or and
// Max of integers associated anew.
UOp reorder_randomly(const UOp& u, Random& random);

}  // namespace lathe::test
