// Kernels as programs, compiled once.
#pragma once
#include "codegen/lower.h"
#include "runtime/device.h"
#include "uop/uop.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lathe {

struct CompiledKernel {
  std::string name, colored_name;
  std::string actions;  // what the optimiser did
  std::unique_ptr<Program> program;
  std::vector<int> slots;              // position in bufs → Param slot
  std::vector<std::string> variables;  // position in vars → name
  int n_cores = 1;
  Estimate work;
  double compile_seconds = 0;
};

// The program of a kernel graph under a schedule, as lower() takes it: neither cached nor reported.
std::unique_ptr<CompiledKernel> try_compile(const UOp& body, Device& device,
                                            const std::vector<Action>& actions);

// The values of all knobs that lowering and code generation read, but for BEAM.
std::string lowering_knobs();

struct KernelRequest {
  UOp body;
  Device* device;
};
// The programs of kernel bodies on devices, in order; from the in-process cache where an equal body was
// compiled before under the same knobs. Equal ones are compiled once, others side by side on the thread pool.
// Throws what the first that fails throws, or Cancelled. Thread-safe.
std::vector<std::shared_ptr<const CompiledKernel>> compile_kernels(std::span<const KernelRequest> requests);

}  // namespace lathe
