// Binary search in the graph: every step is a few gathers, and all steps of all elements are one kernel.
#pragma once
#include "tensor/tensor.h"

#include <functional>

namespace lathe {

// For each element the largest p in [low, high] with p == low or before(p) true, where `before` holds for the
// first values of (low, high] and for none after. `span` is the largest high - low.
Tensor partition_point(const Tensor& low, const Tensor& high, int64_t span,
                       const std::function<Tensor(const Tensor&)>& before);

// How many elements of `sorted` (a vector, ascending, int32) are at most x, for each element of x (int32).
Tensor count_at_most(const Tensor& sorted, const Tensor& x);

}  // namespace lathe
