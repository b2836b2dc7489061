// The passes that turn a kernel body into the program of a target, in their order (codegen/lower.cpp), and
// what runs them.
#pragma once
#include "renderer/target.h"
#include "uop/pattern.h"
#include "uop/spec.h"

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lathe {

struct Pass {
  std::string_view name;
  UOp (*run)(const UOp&, const Target&);
  SpecLevel level;  // what the result must satisfy
};

// Runs them in order. PASS_OFF leaves passes out by name, DEBUG >= 6 prints each result that changed,
// PASS_TIME=1 times, SPEC >= 1 verifies after each pass and names it in the error.
UOp run_passes(const UOp& body, const Target& target, std::span<const Pass> passes);

// A Range whose values above (below) some number add nothing to any reduction over it and reach no Store,
// because gates or selections of 0 say so, gets a smaller end (and an offset). A range of one value becomes
// that value. For kernel bodies with simplified gates. Shown by test/unit/shrink_ranges_test.cpp.
UOp shrink_ranges(const UOp& body);

// A kernel of chained reductions (uop/chained_reduces.h) computes them over blocks of rows and steps, in one
// walk over the steps: scores of a block in scratch, sums over them kept up to date, blocks left out where
// gates say that they add nothing. The order of every sum is the same for any number of rows and threads.
// Other kernels, and those of targets with work groups, stay as they are. Shown by
// test/golden/codegen/block_reductions.txt.
UOp block_reductions(const UOp& body, const Target& target);

// In a sum, a selection between a product and 0 becomes one between a factor and 0: that which depends on all
// of the gate. The other factors are loaded without the gate where the memory has such elements; what
// is beyond a gate is 0 times the other factor, as in a sum over data padded with zeros: no number where that
// is infinite. Gates that data decides stay. Shown by test/unit/gate_factors_test.cpp.
UOp gate_factors(const UOp& body);

// Merges adjacent loops of an End or Reduce where every access moves through them with one stride. Shown by
// test/golden/codegen/merge_ranges.txt.
UOp merge_ranges(const UOp& body);

// The same for axes of one type, also where gates then divide.
UOp merge_axes(const UOp& body, AxisType type);

// Costly values that a reduction computes step by step and that a later loop needs again (the exponentials of
// a softmax) are kept in scratch of up to half of the second cache instead. The scratch has one place a step;
// after actions, widen_kept gives each of the iterations that run side by side its own. Shown by
// test/golden/codegen/keep_values.txt.
UOp keep_values(UOp body, const Target& target);
UOp widen_kept(const UOp& body);

// A loop that reads a row again, which it finds in the caches, asks for the next row meanwhile: a Noop over
// an address is what a renderer may prefetch. Shown by test/golden/codegen/prefetch.txt.
UOp prefetch(const UOp& body, const Target& target);

// Applies actions chosen from shapes, strides and the target's registers and caches. The order of every sum
// is the same for any number of threads. With NOOPT=1 nothing is applied; a schedule given in the KernelArg
// is applied as it is, and so are `actions`, after merge_ranges.
UOp optimise(const UOp& body, const Target& target, const std::vector<Action>* actions = nullptr);

// A kernel whose reductions run side by side over the same loops, where some loads are shared by the steps of
// one output loop and some by those of another, runs in register tiles: rows of one loop, lanes of the other.
// The tile with the least estimated time is taken, from the strides of all accesses, the registers and the
// caches. What lies along the lanes is packed into panels, in blocks of the reduction where they are larger
// than the second cache; the loops that a panel does not depend on run inside of it. Nothing for other
// kernels: those that read nothing again for other outputs.
std::optional<UOp> tile_contraction(const UOp& body, const Target& target);

// A loop of a sum leaves out the steps that gates make 0 for all that runs side by side: those beyond the
// edges of an image that a convolution slides over. Copies are read without gates then. For bodies after
// their actions. Shown by test/golden/codegen/shorten_sums.txt.
UOp shorten_sums(const UOp& body);

// For a target with work groups: output loops become places in a launch ("gidx0" … and "lidx0" …, folded to
// three dimensions within the target's limits), Local axes work items of a group. The work items of a
// GroupReduce axis compute the same output: a Reduce over it names their Special "lidx0" instead of the
// Range, and the first of them stores. A loop that has no constant size or finds no place stays one, as do
// the plain loops of a kernel with several effects or with an After. Shown by
// test/golden/codegen/work_groups.txt.
UOp to_work_groups(const UOp& body, const Target& target);
// UserError where the axes of a body, or the memory of a program, are more than the target has.
void check_work_groups(const UOp& body, const Target& target);
void check_local_memory(std::span<const UOp> linear, const Target& target);

// After this pass no Upcast range is left: each End over them holds a Group with one effect for every
// combination of their values. Shown by test/golden/codegen/expand.txt.
UOp expand_upcasts(const UOp& body);

// After this pass no Invalid is left. A gated index becomes the gate of its Load (alternative 0) or Store, a
// gated value becomes 0 where the gate is false, and Where(g, load, c) over a load with the same gate becomes
// the load with the alternative c. Best run before vectorising: a gate inside an index hides that lanes are
// contiguous. Shown by test/unit/decompose_gates.cpp.
UOp move_gates(const UOp& sink, const Target& target);

// After this pass no Reduce is left. Each keeps its running value in a Reg Buffer; reductions over the same
// ranges in the same place share one loop, Unroll ranges become a chain inside it and a Vector range becomes
// lanes that are folded after it. Work items that share a Reduce leave their parts in Local memory, meet at a
// Barrier and fold all parts each. Shown by test/golden/codegen/lower_reduce.txt.
UOp lower_reduces(const UOp& body);

// Of the sums over a Dot range (tensor_core.h) those that an instruction of the target computes become Dots
// of that range, for the others it becomes an Unroll range. Shown by test/golden/codegen/tensor_core.txt.
UOp to_dots(const UOp& body, const Target& target);

// After this pass no Dot range is left: a Dot starts with what its sum is added to, and each of its operands
// is over a Vector range of its own that counts the groups of all lanes, or one group for all. Shown by
// test/golden/codegen/tensor_core.txt.
UOp widen_dots(const UOp& body);

// After this pass no Vector range is left: what depended on it has shape (n,). Accesses that move by one
// element a lane become contiguous vector accesses (Shrink), others gather or scatter. Shown by
// test/golden/codegen/vectorize.txt.
UOp vectorize(const UOp& body);

// After this pass no value has a weak dtype. An integer expression gets int32 when it and everything it is
// computed from fits, else int64; a float expression gets the default float, or the wider type that a Cast, a
// Store or an operand asks for; a literal takes the dtype of its neighbour. Comparisons use a type that holds
// both sides. An index into a buffer of at most 2^31 elements is int32: arithmetic modulo 2^32 cannot change
// an index that is in bounds. Shown by test/unit/decompose_index_types.cpp.
UOp commit_weak_types(const UOp& sink, const Target& target);

// After this pass no value and no memory has an 8-bit float, float16 or bfloat16 that the target does not
// support. Memory becomes uint8 or uint16 of the same layout; values are computed in float32 and rounded to
// the narrow type after every operation, so results are those of the reference ALU bit for bit. Nor is there
// a cast that machines lack: from float64 to a narrow float, or from a float to uint64. Runs after
// commit_weak_types and move_gates, before decompose_float. Shown by test/unit/decompose_dtype.cpp.
UOp decompose_dtype(const UOp& sink, const Target& target);

// The code (uint32) of a float32 value in `d`, rounded to nearest even, and back. Formats: number_formats.h.
UOp encode_expression(const UOp& x, DType d);
UOp decode_expression(const UOp& code, DType d);

// After this pass no Exp2, Log2, Sin, Pow, Sqrt, Trunc and Reciprocal is left that the target lacks. Knob
// TRANSCENDENTAL: 2 replaces Exp2, Log2, Sin and Pow on every target, 0 leaves them. float32 and float64 are
// computed as they are (see transcendental.h), narrower types in float32. Pow of float32 is computed in
// float64 where the target has it and is exact to one rounding; other pows carry more digits of the logarithm
// than the result has. A sin whose angle may be huge gets a loop that runs once where some lane is, else not
// at all. exp2(x * log2(e) * ±2^k) and sin(pi/2 - x) are computed as exp and cos of x, without rounding the
// argument. Figures: docs/accuracy.md.
// Shown by test/unit/decompose_float.cpp and decompose_sin.cpp.
UOp decompose_float(const UOp& sink, const Target& target);

// An upper bound of |u| for finite values of what it is computed from, infinite where none shows.
double largest_magnitude(const UOp& u);

// After this pass no FloorDiv and no FloorMod is left, and of the target's missing ops no integer Pow and no
// Threefry:
// - division by 2^k becomes a shift, the remainder a mask; other divisions become CDiv and CMod where the
//   signs are known, else one CDiv of a non-negative number. A divisor that may be 0 or -1 is replaced by 1
//   where it is, so that the instruction cannot trap: x//0 and x%0 have no meaning, but no consequence
//   either.
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

// After this pass no value and no memory is int64 or uint64, where the target does not support those. Memory
// of n elements becomes 2n words of uint32, the low word of element i at 2i and the high one at 2i+1; a value
// becomes two words, and results are those of native arithmetic bit for bit. Coordinates use the low word.
// Quotients are 64 steps of shift and subtract, unless both numbers are known to fit 32 bits.
// UserError: buffers of more than 2^31 words, coordinates of larger ones, loops and variables that reach
// beyond int32, and the bits of float64. Runs after decompose_int, before use_native_ops. Shown by
// test/unit/decompose_long.cpp.
UOp decompose_long(const UOp& sink, const Target& target);

// Brings Sub, Neg, FDiv, CmpEq, MulAcc and Shl back where the target has them and takes Sub, Neg, CmpEq and
// Max away where it does not. MulAcc is made of floats only, and only on targets that round it once in one
// instruction. A product with a reciprocal becomes a division only where both are computed equally often: one
// reciprocal outside a loop is cheaper than a division inside. Shown by test/unit/decompose_late_rules.cpp.
UOp use_native_ops(const UOp& sink, const Target& target);

// The rules of it, and what their conditions ask for as Match::ctx.
RuleView<UOp> native_op_rule_set();
struct LateContext {
  const Target& target;
};

// Gathers whose lanes, or whose lanes and those of other gathers that are constants away, lie in few runs of
// memory become contiguous loads and shuffles; scatters of one Group likewise. Lanes a row apart in copies
// that are an element apart are transposed in registers. The last pass: shuffles are Stacks of lanes, which
// simplification would undo. Not for work groups, where an access a work item is the better form. Shown by
// test/golden/codegen/combine_lanes.txt.
UOp combine_lanes(const UOp& sink, const Target& target);

// After this pass every vector of more bits than a register has a power of two of lanes: others become parts,
// registers first. LLVM keeps a long vector of another number of lanes in scalars between blocks. Runs after
// combine_lanes. Shown by test/golden/codegen/split_lanes.txt.
UOp split_lanes(const UOp& sink, const Target& target);

// Every node of the lowered kernel in an order that can be printed: sources before users, each node inside
// exactly the loops it depends on, one loop a Range. Values that do not depend on a loop are computed before
// it.
std::vector<UOp> linearize(const UOp& body);

}  // namespace lathe
