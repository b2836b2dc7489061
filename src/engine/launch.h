// Kernels and copies that are ready to run.
#pragma once
#include "engine/compile.h"
#include "runtime/buffer.h"
#include "schedule/schedule.h"
#include "uop/variable.h"

#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace lathe {

struct Launch {
  std::shared_ptr<const CompiledKernel> kernel;  // null: a copy
  std::vector<UOp> buffers;                      // Buffers, as the program takes them. A copy: {to, from}
  size_t n_written = 1;                          // the first buffers are written
  Device* device = nullptr;
  std::span<const UOp> written() const { return std::span(buffers).first(n_written); }
  std::vector<int64_t> vars = {};  // values of the kernel's variables
};
// Compiles where needed. RuntimeError "unbound Variable NAME used by KERNEL" where a value is missing.
std::vector<Launch> make_launches(std::span<const ScheduledKernel> kernels, const VariableValues& values);
// Runs it over the memory of its buffers, which is made where there is none, and counts it.
void run_launch(const Launch& launch);
// All of them in order, with intermediates in the arenas; each is dropped as soon as it ran. Before the first
// that writes to a buffer that had memory, all others get theirs, so that errors, and cancel(), leave what
// there was before as it was.
void run_launches(std::vector<Launch> launches, std::vector<Arena> arenas = {});
// A copy, or a kernel that reports its time with DEBUG=2 and to a profile, over other memory.
void run_step(const Launch& launch, std::span<Buffer* const> memory, std::span<const int64_t> vars);

// What a Buffer node stands for; made where there is nothing yet.
std::shared_ptr<Buffer> memory_of(const UOp& buffer);
// Memory for the buffers of an arena, in its order: one piece, or one each with NO_MEMORY_PLANNER and where
// the arena would be larger than a buffer may be.
std::vector<std::shared_ptr<Buffer>> make_arena(const Arena& arena);

// Held while kernels are scheduled, recorded or run: the order of writes to memory is the order of calls.
std::unique_lock<std::mutex> lock_engine();

}  // namespace lathe
