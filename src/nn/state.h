// The tensors of a model by name.
#pragma once
#include "tensor/layout.h"
#include "tensor/named_tensors.h"
#include "tensor/visit_tensors.h"

#include <string>

namespace lathe::nn {

using lathe::Module;
using lathe::visit_tensors;

// All tensors of a model by name, buffers such as running statistics among them.
template <class T>
NamedTensors state_dict(const T& model, const std::string& prefix = "") {
  NamedTensors out;
  visit_tensors(model, prefix, [&](const std::string& name, const Tensor& t) { out.emplace_back(name, t); });
  return out;
}

// The same without names, for an optimiser: it updates what is flagged as a parameter and realises the rest.
template <class T>
std::vector<Tensor> parameters(const T& model) {
  std::vector<Tensor> out;
  visit_tensors(model, "", [&](const std::string&, const Tensor& t) { out.push_back(t); });
  return out;
}

// Realises a model that is not trained any more, and lays the weights of its convolutions out for speed
// (pack_outputs).
template <class T>
void pack_weights(const T& model) {
  std::vector<Tensor> all = parameters(model);
  Tensor::realize(all);
  for (Tensor& t : all) t.replace(pack_outputs(t));
}

struct LoadOptions {
  bool strict =
      true;  // tensors without a value and values without a tensor are an error, else a line of the log
  bool realize = true;  // at once
};

// Gives each tensor of `state` the value of the same name, on the tensor's own device or devices; where that
// is the value's device too, both share memory. The dtype becomes that of the value. Nothing is changed
// unless everything fits: ValueError for shapes that differ (() and (1,) count as equal), else IndexError for
// names that only one side has. The error lists all of these names, up to five of a kind.
void load_state(const NamedTensors& state, const NamedTensors& values, const LoadOptions& options = {});

template <class T>
void load_state_dict(const T& model, const NamedTensors& values, const LoadOptions& options = {}) {
  load_state(state_dict(model), values, options);
}

}  // namespace lathe::nn
