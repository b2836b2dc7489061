// Movement ops as maps from output coordinates to input coordinates.
#pragma once
#include "uop/uop.h"

#include <vector>

namespace lathe {

using Coords = std::vector<UOp>;

// An index and the condition under which it may be used; a null gate means always.
struct Gated {
  UOp index, gate;
};
Gated split_gate(const UOp& i);                    // Where(g, i, Invalid) → {i, g}
UOp join_gate(const UOp& index, const UOp& gate);  // the reverse

// Coordinates of source 0 of a movement op, given coordinates of the op. Pad gates the axes it grows.
Coords movement_coords(const UOp& op, const Coords& out);
// The condition under which a Pad's element comes from its source.
UOp pad_condition(const UOp& op, const Coords& out);
// Row-major position of `coords` in `shape`, gated when any coordinate is.
UOp flat_index(std::span<const UOp> coords, std::span<const SInt> shape);
// An element of memory: an Index even where there are no axes, as it marks the access.
UOp element(const UOp& memory, const Coords& coords);

// A value over the Ranges of `from`, at `to`.
UOp at_coords(const UOp& value, const Coords& from, const Coords& to);

// Coordinates of an operand of an elementwise op: right-aligned, 0 on broadcast axes.
Coords operand_coords(const Coords& out, const Shape& operand);

}  // namespace lathe
