// Choosing among elements: masks by position, which the compiler turns into loads, and binary search.
#pragma once
#include "tensor/tensor.h"

#include <functional>

namespace lathe {

// Position of every element along `axis`, in a shape of `rank` axes that broadcasts.
Tensor iota(const SInt& n, DType dtype, int axis, int rank);

// `values` where `mask` is true, folded over `axes`; among several the last position in row-major order
// counts, and `x` stays where there is none.
Tensor last_selected(const Tensor& mask, const Tensor& values, const Axes& axes, const Tensor& x);

// A weak 0 of the kind of x.
Tensor zero_of(const Tensor& x);

// ---- binary search: every step is a few gathers, and all steps of all elements are one kernel
// For each element the largest p in [low, high] with p == low or before(p) true, where `before` holds for the
// first values of (low, high] and for none after. `span` is the largest high - low.
Tensor partition_point(const Tensor& low, const Tensor& high, int64_t span,
                       const std::function<Tensor(const Tensor&)>& before);

// How many elements of `sorted` (a vector, ascending, int32) are at most x, for each element of x (int32).
Tensor count_at_most(const Tensor& sorted, const Tensor& x);

// Reductions that also exist as running ones: element i of the result folds the elements up to i.
enum class Running : uint8_t { Sum, Prod, Max, LogSumExp };

}  // namespace lathe
