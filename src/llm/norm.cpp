#include "llm/norm.h"

namespace lathe {

Tensor Norm::operator()(const Tensor& x) const {
  const Tensor centre = centered ? x - x.mean(-1, true) : x;
  Tensor y = centre * (centre.square().mean(-1, true) + eps).rsqrt() * weight;
  return bias ? y + *bias : y;
}

}  // namespace lathe
