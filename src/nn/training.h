// Training mode, and what stands between a gradient and the step of an optimiser. Lists of tensors are those
// of a model, `parameters(model)`: what is not flagged as a parameter or has no gradient is passed over.
#pragma once
#include "base/knobs.h"
#include "tensor/tensor.h"

#include <vector>

namespace lathe::nn {

inline bool is_training() { return knob(Knob::TRAINING) != 0; }

// Turns training mode (the TRAINING knob) on or off until the end of the scope, for the whole process.
class [[nodiscard]] TrainingScope {
 public:
  explicit TrainingScope(bool on = true) : scope_(Knob::TRAINING, on ? 1 : 0) {}

 private:
  KnobScope scope_;
};

// The parameters that have a gradient, each once.
std::vector<Tensor> with_gradient(const std::vector<Tensor>& tensors);
// Their gradients. `Tensor::realize(gradients(tensors))` between micro-batches keeps their
// graphs from adding up.
std::vector<Tensor> gradients(const std::vector<Tensor>& tensors);

// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the root of the sum of all their
// squares, and returns it: float32, without axes. Lazy. ValueError unless max_norm > 0 and there is a
// gradient.
Tensor clip_grad_norm(const std::vector<Tensor>& tensors, double max_norm);

// Clamps every element of a gradient to [-limit, limit]. Lazy. ValueError unless limit > 0.
void clip_grad_value(const std::vector<Tensor>& tensors, double limit);

// An exponential moving average of a model, kept in a second model: parameters become
// decay·average + (1-decay)·value, other tensors, such as running statistics, take the value. A decay of 0
// copies, which is how an average starts. Realises. ValueError unless the lists agree in shapes.
void update_average(const std::vector<Tensor>& average, const std::vector<Tensor>& values, double decay);

}  // namespace lathe::nn
