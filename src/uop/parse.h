// Reads the text form of uop/print.h. The bytes may come from anywhere: every length is bounded, and what
// cannot be a graph is an error with its offset.
#pragma once
#include "base/result.h"
#include "uop/uop.h"

#include <string_view>
#include <vector>

namespace lathe {

// The node of the last line. A dtype may be left out where it follows from the sources. `slot=N` of a Buffer
// names that buffer of this process; the buffers `slot=@N` are new ones, one a label.
Result<UOp> parse(std::string_view text);
// The nodes of all lines, in order.
Result<std::vector<UOp>> parse_list(std::string_view text);

}  // namespace lathe
