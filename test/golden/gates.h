// Execution of gated accesses: original and simplified forms must read and write the same.
#pragma once
#include "uop/uop.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "support/parse_expression.h"

namespace lathe::test {

// Two gated indices (`gate ? index : Invalid`, or what became of it) over the names, executed by the
// interpreter at the points that for_each_point visits. The memory has just the elements that `a` reaches.
// Where they load or store different things, or where `b` leaves the memory, as text; else empty.
std::string compare_accesses(const UOp& a, const UOp& b, const Names& names);

// The same for values, where a and b read the memory `param(1, …)`.
std::string compare_values(const UOp& a, const UOp& b, std::vector<std::byte> memory, const Names& names);

// `gate @ index => gate @ index`, `T` where no gate is left: what simplify_gates makes of it.
std::string check_gate(std::string_view row, const Names& names);

}  // namespace lathe::test
