// Pieces of kernel bodies that several passes build.
#pragma once
#include "base/function_ref.h"
#include "uop/uop.h"

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

namespace lathe {

// Of a Range of constant size.
inline int64_t size_of(const UOp& range) { return range.src(0).value().as_i64(); }
// Whether `u` depends on an open Range.
bool is_open(const UOp& u, const UOp& range);
// Whether `u` is a Reduce or End over `range`.
bool closes(const UOp& u, const UOp& range);
// The Reduces over `range`.
std::vector<UOp> reduces_over(const UOp& body, const UOp& range);
// The open Range of `u` that is of type `t`, or null.
UOp open_axis(const UOp& u, AxisType t);
// Whether scratch is filled anew for each step of `range`: then the steps cannot run side by side.
bool fills_scratch(const UOp& body, const UOp& range);
// Whether the kernel loads from memory that it stores to: then no element may be computed twice.
bool reads_what_it_writes(const UOp& body);
// How often `u` is computed: the product of the sizes of the loops around it.
double trips_of(const UOp& u);

// `x` once `deps` have happened; `x` itself where there are none.
UOp after(const UOp& x, std::span<const UOp> deps);
// `effect` inside `loops`; the effect itself where there are none.
UOp close_loops(const UOp& effect, std::span<const UOp> loops);
// Scratch private to a thread, or of a work group, of n elements.
UOp scratch_buffer(int64_t slot, DType dtype, int64_t n, std::string name = {},
                   AddrSpace space = AddrSpace::Reg);
// Address of `lanes` elements of `memory` from element `first` on; of that element for 0.
UOp elements_from(const UOp& memory, int64_t lanes, const UOp& first);
// Whether the index is one of the memory's elements for all values of its ranges.
bool is_inside(const UOp& memory, const UOp& index);
// Folds the lanes of a vector pairwise: halves while even, then lane by lane.
UOp fold_lanes(Op op, UOp v);
// One lane of a vector, or a scalar.
struct Lane {
  UOp value;
  int64_t lane;
};
// A vector of these, or the only one.
UOp to_vector(std::span<const Lane> lanes);
// Starting value of a reduction.
Scalar neutral_element(Op op, DType d);

// `u` with Ranges replaced by values, sharing everything that does not depend on them.
UOp at_values(const UOp& u, std::span<const UOp> ranges, std::span<const int64_t> values);
// Calls `f` with every combination of values of `ranges` (constant sizes), the last range fastest.
void for_each_combination(std::span<const UOp> ranges, FunctionRef<void(std::span<const int64_t>)> f);

// Elements that an index moves by for one step of `r`; 0 when it does not depend on it, nothing when it is
// not linear in it.
std::optional<int64_t> stride_in(const UOp& index, const UOp& r);

// ---- memory accesses, as optimiser decisions see them

struct KernelAccess {
  UOp index;  // flat element index, without its gate
  DType dtype;
  bool is_store;
  UOp access;
  double trips() const { return trips_of(access); }
};
std::vector<KernelAccess> kernel_accesses(const UOp& body);

// Whether `r0` steps over whole runs of `r1` in every access.
bool step_as_one(const std::vector<KernelAccess>& accesses, const UOp& r0, const UOp& r1);

// The first axis of these types whose quotient and remainder by one number address memory, as the action that
// makes two axes of it.
std::optional<Action> divided_axis(const UOp& body, std::initializer_list<AxisType> types);

// Whether every load that depends on `r` goes through memory element by element with it.
bool runs_along(const UOp& body, const UOp& r);

}  // namespace lathe
