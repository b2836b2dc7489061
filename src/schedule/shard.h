// Values over several devices as one graph a device.
#pragma once
#include "uop/uop.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lathe {

// What a value is on its devices.
struct Shards {
  std::vector<UOp> parts;   // one a device; a single one where it is on one device or on none
  std::optional<int> axis;  // along which the parts are equal pieces, in order; none: each is all of it
};

// The roots, and what they are computed from, without values over several devices (docs/multi_device.md).
// Elementwise ops bring their operands to where the last one that is in pieces has them; a reduction over
// pieces ends in an all-reduce; a Store leaves out devices that hold nothing of the view it writes.
// RuntimeError where an op would move elements between shards, or meets operands on other devices.
std::vector<Shards> resolve_shards(std::span<const UOp> roots);
// The axis of one value; nothing for a single device.
std::optional<int> shard_axis(const UOp& u);
// Elements of an axis of `size` on each of n devices; RuntimeError where they do not come out even.
int64_t shard_size(const SInt& size, size_t n);
// Piece i of n along an axis.
UOp shard_piece(const UOp& x, int axis, size_t i, size_t n);

// `x` on a device; constants are on every one.
UOp copy_to(const UOp& x, const std::string& device);
// Values that differ only in the size of an axis, one behind the other along it, in memory: who reads them
// often would find out every time which one it is.
UOp concatenate(std::span<const UOp> parts, int axis);

}  // namespace lathe
