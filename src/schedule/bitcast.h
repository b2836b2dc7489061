// Bitcasts at the tensor level: to elements of another size, and as a view that is written.
#pragma once
#include "uop/uop.h"

namespace lathe {

// A Bitcast between element sizes as shifts of unsigned words, the low word first (little endian). Null for
// equal sizes.
UOp lower_resizing_bitcast(const UOp& bitcast);

// A Store whose target is a bitcast view, of elements of one size, stores the bitcast value into what the
// view shows. Null for other targets.
UOp store_below_bitcast(const UOp& store);

}  // namespace lathe
