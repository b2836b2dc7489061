// Floor division and modulo of index expressions.
#pragma once
#include "uop/uop.h"

namespace lathe {

// A simpler form of a weakint FloorDiv or FloorMod whose sources are simplified, or null. Exact for numbers
// of either sign; the quotient and the remainder of one pair always stay consistent. A divisor that is 0 for
// certain is a UserError. Rows in test/golden/symbolic show what each step does.
UOp fold_division(const UOp& u);

// `sum` (a weakint Add) with quotients and remainders of one division put together again, or null:
//   m*(b%d) + m*d*(b//d)        -> m*b
//   m*(b%d) + m*d*((b//d)%e)    -> m*(b%(d*e))      e > 0
// where b//d may have been simplified on its own.
UOp recombine_divmod(const UOp& sum);

}  // namespace lathe
