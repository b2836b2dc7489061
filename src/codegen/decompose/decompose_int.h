// Integer and boolean ops in terms of simpler ones.
#pragma once
#include "renderer/target.h"
#include "uop/pattern.h"

#include <optional>

namespace lathe {

// After this pass no FloorDiv and no FloorMod is left, and of the target's missing ops no integer Pow and no
// Threefry:
// - division by 2^k becomes a shift, the remainder a mask; other divisions become CDiv and CMod where the
// signs are known,
//   else one CDiv of a non-negative number. A divisor that may be 0 or -1 is replaced by 1 where it is, so
//   that the instruction cannot trap: x//0 and x%0 have no meaning, but no consequence either.
// - with the knob DISABLE_FAST_IDIV=0, division by a constant becomes a multiplication and a shift.
// - Shl and Shr by a count that may reach the width shift all bits out, on every machine.
// - sums, products and maxima of booleans become Or and And.
// - Threefry becomes 32-bit additions, rotations and exclusive ors.
// Shown by test/unit/decompose_int.cpp.
UOp decompose_int(const UOp& sink, const Target& target);
RuleView<UOp> int_rule_set();  // the rules of it

// floor(x / divisor) == (x * multiplier) >> shift for all x in [0, largest].
struct MagicDivision {
  int128 multiplier;
  int shift;
};
// Nothing where no multiplier below 2^127 serves. Source: Warren, "Hacker's Delight", section 10-9.
std::optional<MagicDivision> magic_division(int128 largest, int128 divisor);

}  // namespace lathe
