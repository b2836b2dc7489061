// Activation functions.
#include "tensor/promote.h"
#include "tensor/tensor.h"

#include <cmath>
#include <numbers>

namespace lathe {

Tensor Tensor::relu() const { return gt(0).where(*this, 0); }
Tensor Tensor::relu6() const { return relu().sub(sub(6).relu()); }
Tensor Tensor::hardswish() const { return mul(add(3).relu6()).mul(1.0 / 6); }
Tensor Tensor::hardsigmoid(double alpha, double beta) const {
  const Tensor line = mul(alpha).add(beta);
  return line.relu().sub(line.sub(1).relu());
}
Tensor Tensor::hardtanh(double min, double max) const { return clamp(min, max); }
Tensor Tensor::leaky_relu(double slope) const { return lt(0).where(mul(slope), *this); }

namespace {
// x above 0, else alpha * (e^(x * rate) - 1). Large x stay out of the exponential: its infinity would make
// the gradient NaN.
Tensor exponential_below_0(const Tensor& x, double alpha, double rate) {
  const Tensor positive = x.gt(0);
  return positive.where(x, positive.where(0, x).mul(rate).exp().sub(1).mul(alpha));
}
}  // namespace

Tensor Tensor::elu(double alpha) const { return exponential_below_0(*this, alpha, 1); }
Tensor Tensor::celu(double alpha) const { return exponential_below_0(*this, alpha, 1 / alpha); }
Tensor Tensor::selu(double alpha, double gamma) const { return elu(alpha).mul(gamma); }
Tensor Tensor::gelu(const std::string& approximate) const {
  // x/2 * (1 + tanh(y)) is x * sigmoid(2y), which loses no digits for negative x.
  if (approximate == "tanh")
    return in_float32(as_weak_float(*this), [](const Tensor& x) {
      const Tensor y = x.add(x.square().mul(x).mul(0.044715)).mul(2 * std::sqrt(2 / std::numbers::pi));
      return x.mul(y.sigmoid());
    });
  if (approximate == "none")
    return in_float32(
        *this, [](const Tensor& x) { return x.mul(0.5).mul(x.div(std::numbers::sqrt2).erf().add(1)); });
  user_runtime_error("approximate must be either 'none' or 'tanh', got {}", approximate);
}
Tensor Tensor::quick_gelu() const { return mul(mul(1.702).sigmoid()); }
Tensor Tensor::swish() const { return mul(sigmoid()); }
Tensor Tensor::mish() const { return mul(softplus().tanh()); }
Tensor Tensor::softplus(double beta) const { return mul(beta).logaddexp(0.0).mul(1 / beta); }
Tensor Tensor::logsigmoid() const { return neg().softplus().neg(); }
Tensor Tensor::softsign() const { return div(abs().add(1)); }

}  // namespace lathe
