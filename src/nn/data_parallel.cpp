#include "nn/data_parallel.h"

#include "engine/launch.h"
#include "nn/training.h"
#include "tensor/view.h"

namespace lathe::nn {
namespace {

// The memory of whole tensors, on each of their devices.
void for_memory(const std::vector<Tensor>& tensors, auto f) {
  Tensor::realize(tensors);
  for (const Tensor& t : tensors)
    if (const UOp base = view_base(t.uop()); is_in_memory(base))
      for (const UOp& buffer : storage_parts(base)) f(*memory_of(buffer), t.dtype());
}

}  // namespace

void broadcast(Collective& processes, const std::vector<Tensor>& tensors) {
  for_memory(tensors, [&](Buffer& memory, DType) { processes.broadcast(memory); });
}

Tensor flat_gradients(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> parts;
  for (const Tensor& g : gradients(tensors)) parts.push_back(g.to_float().flatten());
  if (parts.empty()) user_runtime_error("none of {} tensors is a parameter with a gradient", tensors.size());
  return Tensor::cat(parts);
}

void average(Collective& processes, const Tensor& flat) {
  for_memory({flat}, [&](Buffer& memory, DType dtype) { processes.all_reduce(memory, dtype); });
  Tensor(flat).assign(flat / processes.size()).realize();
}

void set_gradients(const std::vector<Tensor>& tensors, const Tensor& flat) {
  const std::vector<Tensor> params = with_gradient(tensors);
  int64_t at = 0;
  for (const Tensor& t : params) at += t.numel().value();
  if (!(flat.shape() == Shape{at}))
    value_error("gradients of shape {} for parameters of {} elements", flat.shape(), at);
  at = 0;
  for (Tensor t : params) {
    const int64_t n = t.numel().value();
    t.set_grad(flat.shrink({{at, at + n}}).reshape(t.shape()).cast(t.dtype()));
    at += n;
  }
}

}  // namespace lathe::nn
