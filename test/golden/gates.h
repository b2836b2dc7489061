// Execution of gated accesses: original and simplified forms must read and write the same.
#pragma once
#include "uop/image.h"
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
// The same for reads of an image.
std::string compare_reads(const ImageSize& size, const ImageRead& a, const ImageRead& b, const Names& names);

// The same for values, where a and b read the memory `param(1, …)`.
std::string compare_values(const UOp& a, const UOp& b, std::vector<std::byte> memory, const Names& names);

// `gate @ index => gate @ index`, `T` where no gate is left: what simplify_gates makes of it.
std::string check_gate(std::string_view row, const Names& names);
// `HEIGHTxWIDTH: gate @ x , y => gate @ x , y`, `=` on the right for the same: what simplify_image_read and
// gate_by_row make.
std::string check_image(std::string_view row, const Names& names);

}  // namespace lathe::test
