// Kernels that the user writes.
#pragma once
#include "tensor/gradient.h"
#include "tensor/tensor.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lathe {

struct KernelOptions {
  std::string name = "custom";
  // A schedule; without one the heuristic chooses it, unless the kernel orders its own effects with After.
  std::optional<std::vector<Action>> actions = std::nullopt;
  // From one gradient for each argument that the kernel writes, in their order. What it wrote comes with its
  // new value among the arguments.
  GradientFunction gradient = nullptr;
};

// Gets a placeholder for each argument: a Param of its dtype and shape (of a device's piece where it is over
// several), (1,) for a scalar, that is indexed with one coordinate an axis. Returns an effect, Stores closed
// by End, or a Sink of several (docs/ir.md, stage 2; docs/custom_kernels.md).
using KernelFunction = std::function<UOp(const std::vector<UOp>&)>;

// A kernel in the language of the arguments' device, or what a compiler made of it. It gets all arguments, in
// order; renderer/renderer.h has the signature for CPUs.
struct KernelText {
  std::string entry;
  std::string source;
  bool is_binary = false;
  int n_cores = 1;       // how often it runs: on CPUs with core_id from 0 on, on CL as work items
  size_t n_written = 1;  // the first arguments, which it writes
};

// Runs a kernel over the memory of the arguments, lazily, and returns the arguments. What the kernel writes
// holds its new value afterwards, as after assign, and what it leaves out its old one; an argument that is no
// memory gets some, and one that is only read is computed first. UserErrors: RuntimeError where arguments are
// on different devices, weak, or written through a view that is not all of their memory in order; ValueError
// where the kernel writes nothing, or is no legal kernel.
std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelFunction& kernel,
                                  const KernelOptions& options = {});
std::vector<Tensor> custom_kernel(const std::vector<Tensor>& arguments, const KernelText& kernel,
                                  const KernelOptions& options = {});

}  // namespace lathe
