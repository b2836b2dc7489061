// Optimisers: from gradients to new parameters.
#pragma once
#include "tensor/named_tensors.h"
#include "tensor/tensor.h"

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::nn {

// Takes the tensors of a model (`parameters(model)`). Those flagged as parameters are updated, each once; the
// others, such as running statistics, are realised with them. ValueError for a negative learning rate or when
// nothing is a parameter. State is kept in float32; `state_dict(optimizer)` has it and the learning rate by
// name ("lr", "m.0" for the first parameter, …), so that a run resumes from a file as if it had not stopped.
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

  // Of the state of parameters that are whole on several devices each keeps a piece: along the first axis
  // that splits evenly, where there is one. A step then computes its piece of the change, and gathers the
  // parameter (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
  // 2020).
  void shard_state();

  const std::vector<Tensor>& params() const { return params_; }
  void each(auto&& visit) const {
    visit("lr", lr);
    for (const auto& [name, t] : state_) visit(name, t);
  }

  // Writes the learning rate. ValueError if it is negative.
  void set_lr(double rate);
  // Shape (1,). A step reads its memory, so that a step that was captured sees a new value, too.
  Tensor lr;

 protected:
  Optimizer(const std::vector<Tensor>& tensors, double lr);
  // What a step changes besides parameters: a float32 tensor of the shape of each parameter, zeros at first.
  std::vector<Tensor> make_state(std::string_view name);
  // One number, shape (1,).
  Tensor make_state(std::string_view name, double value);
  virtual void begin_step() {}
  // What to subtract from parameter `i`.
  virtual Tensor update(size_t i, const Tensor& grad) = 0;

 private:
  friend class OptimizerGroup;
  // The errors of a step.
  void check_ready() const;

  std::vector<Tensor> params_, buffers_;
  NamedTensors state_;
};

// Several optimisers as one, each for its part of a model: Muon for matrices and AdamW for the rest, say.
// They have to outlive the group. Where one of them cannot step none does.
class OptimizerGroup {
 public:
  OptimizerGroup(std::initializer_list<std::reference_wrapper<Optimizer>> list) : list_(list) {}
  void zero_grad();
  void step(std::span<const Tensor> others = {});
  std::vector<Tensor> schedule_step();
  size_t size() const { return list_.size(); }
  Optimizer& operator[](size_t i) const { return list_[i]; }
  void each(auto&& visit) const {
    for (size_t i = 0; i < list_.size(); i++) visit(std::to_string(i), list_[i].get());
  }

 private:
  std::vector<std::reference_wrapper<Optimizer>> list_;
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
  Tensor update(size_t i, const Tensor& grad) override;
  // The learning rate of parameter `i`.
  virtual Tensor rate(size_t /*i*/, const Tensor& /*grad*/) const { return lr; }

 private:
  Options options_;
  std::vector<Tensor> momentum_;
};

// SGD with classic momentum, where each parameter scales the learning rate by
// trust·‖p‖ / (‖g‖ + weight_decay·‖p‖), or by 1 where one of the norms is 0. You, Gitman and Ginsburg, "Large
// Batch Training of Convolutional Networks", 2017.
class LARS : public SGD {
 public:
  struct Options {
    double lr = 0.001;
    double momentum = 0.9;
    double weight_decay = 1e-4;
    bool nesterov = false;
    bool classic = true;
    double trust = 0.001;
  };
  explicit LARS(const std::vector<Tensor>& tensors) : LARS(tensors, Options()) {}
  LARS(const std::vector<Tensor>& tensors, const Options& options);

 protected:
  Tensor rate(size_t i, const Tensor& grad) const override;

 private:
  double weight_decay_, trust_;
};

// b = momentum·b + g; p -= lr·(ns(nesterov ? g + momentum·b : b) + weight_decay·p), where ns brings a matrix
// close to the orthogonal one of the same singular vectors, by Newton-Schulz steps. Axes after the first
// count as one, a vector as a matrix of one column. For the hidden matrices of a network; give embeddings,
// norms and biases to AdamW. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
class Muon : public Optimizer {
 public:
  struct Options {
    double lr = 0.001;
    double momentum = 0.95;
    double weight_decay = 0;
    bool nesterov = true;
    int64_t ns_steps = 5;
    std::vector<double> ns_params = {3.4445, -4.775, 2.0315};
  };
  explicit Muon(const std::vector<Tensor>& tensors) : Muon(tensors, Options()) {}
  Muon(const std::vector<Tensor>& tensors, const Options& options);

 protected:
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
  void begin_step() override;
  Tensor update(size_t i, const Tensor& grad) override;
  // What becomes of the change of parameter `i` before the learning rate.
  virtual Tensor scaled(size_t /*i*/, const Tensor& change) const { return change; }

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

// AdamW whose change of a parameter is scaled by ‖p‖ / ‖change‖, or by 1 where one of them is 0. You et al.,
// "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", 2019.
class LAMB : public Adam {
 public:
  static constexpr AdamOptions kDefaults{.lr = 0.001, .b1 = 0.9, .b2 = 0.999, .eps = 1e-6, .weight_decay = 0};
  explicit LAMB(const std::vector<Tensor>& tensors) : Adam(tensors, kDefaults) {}
  LAMB(const std::vector<Tensor>& tensors, const AdamOptions& options) : Adam(tensors, options) {}

 protected:
  Tensor scaled(size_t i, const Tensor& change) const override;
};

}  // namespace lathe::nn
