// Tensor cores: instructions that sum products. The action TensorCore splits the innermost steps off a
// reduction, as a Dot range; passes.h says what becomes of it.
//
// A sum of int32 products may use an instruction of uint8 and int8 (4 steps) or of int16 (2 steps) where the
// bounds of the factors say that they fit. Of two factors with the same sign one moves by an offset, and a
// sum of the other one alone makes up for it:
//   Σ x·y = Σ (x + 128)·y - Σ 128·y
// A sum without products is one of products with 1. Integers are exact modulo 2^32. A sum of float32 products
// uses an instruction where both factors were bfloat16 (2 steps). Their products are exact and the sums are
// float32; an instruction may add a pair before it rounds, and may take subnormal numbers for 0. The
// interpreter rounds once an instruction.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

#include <optional>

namespace lathe {

// Why `amount` steps of `axis` can be no Dot range, or null.
const char* why_no_dot(const UOp& body, const UOp& axis, int64_t amount);
// The steps of `axis` that an instruction of the target sums, most first; 0 where there is none.
int64_t dot_steps(const UOp& body, const UOp& axis, const Target& target);

// An index whose lanes step through several contiguous runs by turns: base + r / n_runs + r % n_runs * stride
// for the open Vector range r of n_runs * lanes steps, where a turn is 32 bits. What packing for a dot
// instruction reads.
struct Interleaved {
  UOp base;
  int64_t n_runs, lanes, stride;
};
std::optional<Interleaved> interleaved_in(const UOp& index, int64_t item_size);

}  // namespace lathe
