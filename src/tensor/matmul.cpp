// Products of matrices.
#include "tensor/tensor.h"
#include "uop/number_formats.h"

#include <algorithm>

namespace lathe {

Tensor Tensor::dot(const Tensor& w, std::optional<DType> dtype) const {
  const int64_t dx = ndim(), dw = w.ndim();
  if (dx == 0 || dw == 0) user_runtime_error("both tensors need to be at least 1D, got {}D and {}D", dx, dw);
  const int64_t w_axis = -std::min<int64_t>(dw, 2);
  if (!(size(-1) == w.size(w_axis))) user_runtime_error("cannot dot {} and {}", shape(), w.shape());
  // x (…, m, 1, k) times w (…, 1, n, k), folded over k.
  Shape left(shape().begin(), shape().end() - 1),
      right(w.shape().begin(), w.shape().end() - std::min<int64_t>(dw, 2));
  if (dx > 1 && dw > 1) {
    left.push_back(SInt(1));
    right.push_back(SInt(1));
  }
  left.push_back(size(-1));
  right.append(w.shape().end() - std::min<int64_t>(dw, 2), w.shape().end());
  const DType own = strong(join(this->dtype(), w.dtype())), wide = sum_dtype(own);
  Tensor x = reshape(left), y = w.reshape(right).transpose(-1, w_axis);
  // Products of narrow floats are exact in the type that sums them.
  if (is_narrow_float(own)) x = x.cast(wide), y = y.cast(wide);
  return x.mul(y).sum(-1, false, dtype).cast(dtype.value_or(own));
}

Tensor Tensor::linear(const Tensor& weight, const std::optional<Tensor>& bias,
                      std::optional<DType> dtype) const {
  if (dtype) {
    std::optional<Tensor> b;
    if (bias) b = bias->cast(*dtype);
    return cast(*dtype).linear(weight.cast(*dtype), b);
  }
  const Tensor x = weight.ndim() == 1 ? mul(weight) : dot(weight);
  return bias ? x.add(*bias) : x;
}

}  // namespace lathe
