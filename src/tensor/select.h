// Masks by position, which the compiler turns into loads.
#pragma once
#include "tensor/tensor.h"

namespace lathe {

// Position of every element along `axis`, in a shape of `rank` axes that broadcasts.
Tensor iota(const SInt& n, DType dtype, int axis, int rank);

// `values` where `mask` is true, folded over `axes`; among several the last position in row-major order
// counts, and `x` stays where there is none.
Tensor last_selected(const Tensor& mask, const Tensor& values, const Axes& axes, const Tensor& x);

// A weak 0 of the kind of x.
Tensor zero_of(const Tensor& x);

}  // namespace lathe
