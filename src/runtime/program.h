// A kernel that a device can run.
#pragma once
#include "uop/uop.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lathe {

class Buffer;

// What a device loads: text for devices with a renderer, the linear program itself for those without.
struct KernelSource {
  std::string entry;
  std::string source;
  std::vector<UOp> linear;  // of a kernel that the user gives as text, its Params only
  bool is_binary = false;   // the source is what the device's compiler makes of text: on a CPU an object
};

// Machine code that a host thread may call; renderer/renderer.h describes the arguments.
using HostEntry = void (*)(void* const* bufs, const int64_t* vars, int64_t core_id);

class Program {
 public:
  virtual ~Program() = default;
  // `bufs` and `vars` in the order of the kernel's Signature; every core_id in [0, n_cores) runs once.
  // Seconds taken when `wait`, else 0. Not to be called twice at a time with buffers that overlap.
  virtual double run(std::span<Buffer* const> bufs, std::span<const int64_t> vars, int n_cores,
                     bool wait) = 0;
  // For callers that launch many kernels in one parallel region; null where a kernel is no host function.
  virtual HostEntry host_entry() const { return nullptr; }
};

}  // namespace lathe
