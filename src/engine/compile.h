// Kernels as programs, compiled once.
#pragma once
#include "codegen/estimate.h"
#include "runtime/device.h"
#include "uop/uop.h"

#include <memory>
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

// The program for a kernel body on a device; from the in-process cache when an equal body was compiled before
// under the same knobs. Thread-safe.
std::shared_ptr<const CompiledKernel> compile_kernel(const UOp& body, Device& device);

}  // namespace lathe
