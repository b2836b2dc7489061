// Recurrences over positions whose state fades: the delta rule with decay, and sums with decay.
#pragma once
#include "llm/state.h"
#include "tensor/tensor.h"

#include <optional>

namespace lathe {

// Rows of heads; heads of q and k may be 1 where all share them.
struct ScanInput {
  Tensor q, k;                 // float32 (rows, heads, dk)
  Tensor v;                    // (rows, heads, dv)
  Tensor log_decay;            // ≤ 0, (rows, heads, dk), or (rows, heads, 1) for one number a head
  std::optional<Tensor> beta;  // (rows, heads): with the delta rule, u = β (v - S k) instead of u = v
};

// Row by row S ← S diag(g), S ← S + u kᵀ, o = S q; S is (heads, dv, dk), float32, and assigned to. The rows
// behind `step.count` leave it as it is. Several rows go in chunks of `chunk` (a power of two) whose inner
// products come at once, by the chunk-wise form of Yang et al., "Gated Delta Networks", and of "Kimi Linear"
// for decays of channels; the results are those of the recurrence. Gives o, (rows, heads, dv).
Tensor decay_scan(const ScanInput& input, const Step& step, Tensor& state, int64_t chunk = 32);

// The inverse of I + A for A (…, n, n) that is strictly lower triangular, n a power of two.
Tensor unit_lower_inverse(const Tensor& a);

// A depthwise convolution over the rows x (rows, channels) and the k - 1 before them, which `state` (k - 1,
// channels) holds and is assigned: y_t = Σ_i weight[:, i] ⊙ x_{t-k+1+i} + bias, with weight (channels, k).
Tensor causal_convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                          const Step& step, Tensor& state);

}  // namespace lathe
