// Resampling along axes.
#include "tensor/tensor.h"

#include <algorithm>

namespace lathe {
namespace {

// The position in the source of element i of the result is (factor * i + offset) / divisor; integers, so that
// what falls on an element does so exactly.
struct Sampling {
  int64_t factor, offset, divisor;
};

Sampling sampling(Interpolation mode, bool align_corners, int64_t from, int64_t to) {
  if (mode == Interpolation::Nearest) return {from, 0, to};
  // The first element alone is aligned where there is only one.
  if (align_corners) return {to > 1 ? from - 1 : 0, 0, std::max<int64_t>(to - 1, 1)};
  // Centres: (i + 1/2) * from / to, counted from the centre of the first element where it is interpolated.
  return {2 * from, mode == Interpolation::Linear ? from - to : from, 2 * to};
}

Tensor resampled(const Tensor& x, int64_t dim, int64_t to, Interpolation mode, bool align_corners) {
  const int64_t from = x.size(dim).value();
  if (from == 0) value_error("cannot interpolate an axis without elements, got shape {}", x.shape());
  const auto [factor, offset, divisor] = sampling(mode, align_corners, from, to);
  Shape along(x.shape().size(), SInt(1)), wide = x.shape();
  along[static_cast<size_t>(dim)] = wide[static_cast<size_t>(dim)] = to;
  const Tensor scaled =
      Tensor::arange(to, {DType::Int64}).mul(factor).add(offset).clamp(0, (from - 1) * divisor);
  const auto at = [&](const Tensor& position) {
    return x.gather(dim, position.minimum(from - 1).reshape(along).expand(wide));
  };
  const Tensor low = scaled.div_floor(divisor).to_int();
  if (mode != Interpolation::Linear) return at(low);
  const DType d = is_float(x.dtype()) ? x.dtype() : DType::Float32;
  const Tensor fraction = scaled.mod(divisor).cast(d).div(divisor).reshape(along);
  return at(low).lerp(at(low.add(1)), fraction);
}

}  // namespace

Tensor Tensor::interpolate(const Ints& size, Interpolation mode, bool align_corners) const {
  const auto n = static_cast<int64_t>(size.size());
  if (n == 0 || n > ndim())
    value_error("interpolate needs sizes of 1 to {} axes, got {}", ndim(), size.size());
  if (align_corners && mode != Interpolation::Linear)
    value_error("align_corners is only for linear interpolation");
  Tensor x = *this;
  for (int64_t i = 0; i < n; i++) {
    if (size[static_cast<size_t>(i)] <= 0)
      value_error("interpolate needs positive sizes, got {}", size[static_cast<size_t>(i)]);
    x = resampled(x, ndim() - n + i, size[static_cast<size_t>(i)], mode, align_corners);
  }
  return x.cast(dtype());
}

}  // namespace lathe
