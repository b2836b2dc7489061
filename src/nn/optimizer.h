// Optimisers: from gradients to new parameters.
#pragma once
#include "tensor/tensor.h"

#include <span>
#include <vector>

namespace lathe::nn {

// Takes the tensors of a model (`parameters(model)`). Those flagged as parameters are updated, each once; the
// others, such as running statistics, are realised with them. ValueError for a negative learning rate or when
// nothing is a parameter. State is kept in float32.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Forgets the gradients.
  void zero_grad();
  // Updates the parameters by their gradients and realises them, together with `others` (a loss, say).
  // RuntimeError outside training mode or where a parameter has no gradient.
  void step(std::span<const Tensor> others = {});
  // The same lazily: the tensors to realise.
  std::vector<Tensor> schedule_step();

  const std::vector<Tensor>& params() const { return params_; }
  // Shape (1,); assign to it to change the learning rate.
  Tensor lr;

 protected:
  Optimizer(const std::vector<Tensor>& tensors, double lr);
  // Zeros of a parameter's shape, one for each parameter.
  std::vector<Tensor> make_state() const;
  // What a step changes besides parameters.
  virtual std::vector<Tensor> state() const = 0;
  virtual void begin_step() {}
  // What to subtract from parameter `i`.
  virtual Tensor update(size_t i, const Tensor& grad) = 0;

 private:
  std::vector<Tensor> params_, buffers_;
};

// g += weight_decay·p; b = momentum·b + g; g = nesterov ? g + momentum·b : b; p -= lr·g. With `classic` the
// learning rate is multiplied in before the momentum.
class SGD : public Optimizer {
 public:
  struct Options {
    double lr = 0.001;
    double momentum = 0;
    double weight_decay = 0;
    bool nesterov = false;
    bool classic = false;
  };
  explicit SGD(const std::vector<Tensor>& tensors) : SGD(tensors, Options()) {}
  SGD(const std::vector<Tensor>& tensors, const Options& options);

 protected:
  std::vector<Tensor> state() const override { return momentum_; }
  Tensor update(size_t i, const Tensor& grad) override;

 private:
  Options options_;
  std::vector<Tensor> momentum_;
};

struct AdamOptions {
  double lr = 0.001;
  double b1 = 0.9;
  double b2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// m = b1·m + (1-b1)·g; v = b2·v + (1-b2)·g²; p -= lr·(m̂/(sqrt(v̂) + eps) + weight_decay·p), where m̂ and v̂ are
// divided by 1 minus the step's power of b1 and b2. Weight decay acts on the parameter, never on the
// gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(const std::vector<Tensor>& tensors) : Adam(tensors, AdamOptions()) {}
  Adam(const std::vector<Tensor>& tensors, const AdamOptions& options);

 protected:
  std::vector<Tensor> state() const override;
  void begin_step() override;
  Tensor update(size_t i, const Tensor& grad) override;

 private:
  AdamOptions options_;
  Tensor b1_power_, b2_power_;
  std::vector<Tensor> m_, v_;
};

// Adam with a weight decay of 0.01 unless said otherwise.
class AdamW : public Adam {
 public:
  static constexpr AdamOptions kDefaults{
      .lr = 0.001, .b1 = 0.9, .b2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};
  explicit AdamW(const std::vector<Tensor>& tensors) : Adam(tensors, kDefaults) {}
  AdamW(const std::vector<Tensor>& tensors, const AdamOptions& options) : Adam(tensors, options) {}
};

}  // namespace lathe::nn
