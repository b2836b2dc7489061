// The passes that turn a tensor graph into kernels (schedule.cpp has their order).
#pragma once
#include "schedule/index_map.h"
#include "schedule/schedule.h"

#include <functional>
#include <unordered_map>
#include <unordered_set>

namespace lathe {

// Memory, and no variable.
bool is_buffer(const UOp& u);

// ---- prepare.cpp: clean-up of a tensor graph before ranges are assigned

// Removes identities, gives empty results their constants, splits large reductions, turns Copy into a Store
// on the target device and Bitcasts between element sizes into shifts.
UOp prepare(const UOp& graph);

// No elements.
bool is_empty(const Shape& s);

// A view chain over a Stack as one over the lanes that it shows.
UOp look_through_stacks(const UOp& view);

// ---- assignments.cpp: assignments that need no work

// Where memory that holds one constant is assigned a value of itself, the value takes the constant: the
// memory need not be filled first.
UOp forward_constants(const UOp& graph);

// Leaves out stores that a later one covers before anyone reads them, stores of what is there already, and
// copies of a value that is only stored. `graph` is a Sink; its sources from number `n_roots` on are not
// uses. Positions of sources stay: what was left out becomes the state before it.
UOp simplify_assignments(const UOp& graph, size_t n_roots);

// ---- calls.cpp: calls of functions before kernels are made

// Results of functions become what the functions compute, over the arguments; hash-consing then shares what
// is the same elsewhere. Those of a precompiled function become new buffers, which a Call writes
// as the first of its arguments.
UOp lower_calls(const UOp& graph);

// The kernels of a precompiled function: over its Params; behind these one more for each source of the body,
// which holds it afterwards; and over Buffers of its own. Scheduled once.
const Schedule& function_schedule(const UOp& body);

// ---- split_reduce.cpp: long reductions at the tensor level

// One long reduction as two shorter ones, so that many outputs can run at once; null where it stays whole: it
// is short, it has no device (closed forms and constants), its axes only repeat memory, or it picks one
// element by position, which needs no loop.
UOp split_reduce(const UOp& reduce);

// ---- bitcast.cpp: bitcasts at the tensor level: to elements of another size, and as a view that is written

// A Bitcast between element sizes as shifts of unsigned words, the low word first (little endian). Null for
// equal sizes.
UOp lower_resizing_bitcast(const UOp& bitcast);

// A Store whose target is a bitcast view, of elements of one size, stores the bitcast value into what the
// view shows. Null for other targets.
UOp store_below_bitcast(const UOp& store);

// ---- all_reduce.cpp: one value from a partial one on each device

// Folds the parts, one a device, with a reduction op: the result on each device, of the same bits on all.
// Naively every device gets every part. Large values (knobs RING, ALL2ALL, RING_ALLREDUCE_THRESHOLD) are cut
// into a chunk a device, so that each device sends about two values whatever their number: chunks are folded
// either along a ring or each on a device of its own, and then sent on to all.
std::vector<UOp> all_reduce(const std::vector<UOp>& parts, Op op, std::span<const std::string> devices);

// ---- assign_ranges.cpp: decides what is kept in memory and gives every value its ranges

struct ValueRanges {
  Coords
      out;  // one coordinate an axis: a Range, 0 on size-1 axes, or an expression inherited from a consumer
  Coords reduce;            // Ranges of a Reduce node
  bool kept = false;        // starts its own ranges; becomes a kernel unless it is cheap to recompute
  bool removable = true;    // false where memory was asked for
  bool repeats = false;     // a view at ranges of its own, which every consumer replaces by what it asks for
  size_t shared_loops = 0;  // of its loops, those that the one kernel that reads it begins with
  int64_t rereads = 0;      // how often a reduction that reads it does so, 0 where none does
};

struct RangePlan {
  std::vector<UOp> order;  // value nodes, producers first
  std::unordered_map<const Node*, ValueRanges> ranges;
  int next_range = 0;
};

// Sources of `u` that are values (not shapes).
std::span<const UOp> flow_sources(const UOp& u);
// Coordinates that `user`, itself at `user_out`, asks of its value source `i`.
Coords source_coords(const UOp& user, const ValueRanges& at, size_t i);

// `roots` must end in memory: each is kept.
RangePlan assign_ranges(std::span<const UOp> roots);

// ---- build_kernels.cpp: cuts a ranged tensor graph into kernels

// Kernels that run in a row, one but for a precompiled function, and the buffer states they touch. State 0 of
// a buffer is what it holds before the schedule runs; each assignment makes the next.
struct DraftKernel {
  std::vector<ScheduledKernel> kernels;
  struct Access {
    UOp buffer;
    int state;
  };
  std::vector<Access> reads, writes;
};

struct Draft {
  std::vector<DraftKernel> kernels;             // producers first
  std::unordered_map<const Node*, UOp> memory;  // kept node → the Buffer that holds it, or a view of one
};

Draft build_kernels(RangePlan plan);

// ---- kernel_body.cpp: from an effect over Buffers to the self-contained body of a kernel

// `effect` is a Store over Buffers (or buffer states) inside `loops`. Buffers become flat Params in order of
// appearance, the written one first; ranges are numbered from 0, so equal kernels are equal nodes. UserError
// when buffers are on several devices.
DraftKernel make_kernel(const UOp& effect, const std::vector<UOp>& loops, DraftKernel::Access written);

// ---- buffer_limit.cpp: kernels take a limited number of buffers

// The most buffers a kernel may have on a device; SIZE_MAX where there is no limit. MAX_KERNEL_BUFFERS
// overrides.
size_t max_kernel_buffers(const std::string& device);

// Fills a new buffer of `shape` with `value`, computed over Loop ranges `loops`.
using KeepValue = std::function<UOp(const UOp& value, const std::vector<UOp>& loops, const Shape& shape)>;

// `value`, an expression over loads, with parts of it moved into buffers of their own by `keep`, so that it
// reads at most `most` buffers.
UOp limit_buffers(const UOp& value, size_t most, const KeepValue& keep);

// ---- order.cpp: puts kernels in an order that respects reads and writes

// Readers of a state run after the kernel that writes it and before the kernel that writes the next one.
// Otherwise the given order is kept, except that kernels which give memory back come as soon as they can.
// UserError "cycle detected in assign graph" where that is impossible.
std::vector<ScheduledKernel> order_kernels(std::vector<DraftKernel> kernels);

}  // namespace lathe
