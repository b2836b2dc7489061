// Training in several processes, each with its part of every batch.
#pragma once
#include "runtime/collective.h"
#include "tensor/tensor.h"

#include <vector>

namespace lathe::nn {

// Every process gets the values of the first, in place. Realises.
void broadcast(Collective& processes, const std::vector<Tensor>& tensors);

// The gradients of the parameters that have one, one behind the other as one float32 vector: what a captured
// function returns, so that it travels between two of them. Lazy. RuntimeError where there is none.
Tensor flat_gradients(const std::vector<Tensor>& tensors);
// The mean of the vector over all processes, in place. Realises.
void average(Collective& processes, const Tensor& flat);
// Gives these parameters the gradients that the vector holds. ValueError where it is of another length.
void set_gradients(const std::vector<Tensor>& tensors, const Tensor& flat);

}  // namespace lathe::nn
