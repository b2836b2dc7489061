// How operands of different dtype meet.
#pragma once
#include "tensor/arguments.h"
#include "tensor/tensor.h"
#include "uop/uop.h"

#include <span>

namespace lathe {

// `x` for a computation in `d`: a weak literal takes the kind of `d` and stays weak, everything else is cast.
UOp promote(const UOp& x, DType d);
// Both operands at their join, and the op over them.
UOp promoted_alu(Op op, const UOp& a, const UOp& b);
// A weak literal of the kind of `d`, so that it takes `d` next to a value of `d`.
UOp weak_literal(const Scalar& v, DType d);
inline bool is_weak_literal(const UOp& x) {
  return x.is_const() && (is_weak(x.dtype()) || is_bool(x.dtype()));
}
// The type as messages print it: "dtypes.int".
std::string dtype_text(DType d);

// x as a product with a float literal would be: weakfloat unless it is a float.
inline Tensor as_weak_float(const Tensor& x) { return is_float(x.dtype()) ? x : x.cast(DType::WeakFloat); }
// f computed in at least float32, the result in the float type of x.
template <class F>
Tensor in_float32(const Tensor& x, F f) {
  const DType d = least_upper_float(x.dtype());
  if (is_weak(d)) return f(x.cast(d));
  return f(x.cast(join(d, DType::Float32))).cast(d);
}

// "(1, 2)", "(1,)": for messages.
std::string to_text(const Ints& v);

}  // namespace lathe
