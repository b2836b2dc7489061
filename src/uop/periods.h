// Remainders that a gate pins to one period.
#pragma once
#include "uop/uop.h"

namespace lathe {

// For Where(gate, x, y) whose gate has clauses `a % n < c`: windows cut out of a repeated axis. Where only
// one period of `a` can satisfy the clause, it becomes two linear bounds, and in `x` the quotient and the
// remainder of `a` become linear too: x counts only where the gate holds. Null when nothing changes.
UOp unwrap_periods(const UOp& where);

}  // namespace lathe
