// Upcast axes become copies.
#pragma once
#include "uop/uop.h"

namespace lathe {

// After this pass no Upcast range is left: each End over them holds a Group with one effect for every
// combination of their values. Shown by test/golden/codegen/expand.txt.
UOp expand_upcasts(const UOp& body);

// `u` with Ranges replaced by values, sharing everything that does not depend on them.
UOp at_values(const UOp& u, std::span<const UOp> ranges, std::span<const int64_t> values);
// Calls `f` with every combination of values of `ranges` (constant sizes), the last range fastest.
void for_each_combination(std::span<const UOp> ranges,
                          const std::function<void(std::span<const int64_t>)>& f);

}  // namespace lathe
