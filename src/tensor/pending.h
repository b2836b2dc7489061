// Running what is lazy.
#pragma once
#include "uop/uop.h"

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace lathe {

using MemoryNodes = std::unordered_set<const Node*>;  // Buffers

// While one is open nothing runs on this thread: values stand for arguments that are not known.
class FunctionTrace {
 public:
  explicit FunctionTrace(const std::string& name);
  ~FunctionTrace();
  FunctionTrace(const FunctionTrace&) = delete;
  FunctionTrace& operator=(const FunctionTrace&) = delete;

 private:
  const std::string* outer_;
};

// Held as long as a list of live tensors is: what another thread has dropped would live on in the list, and
// be taken for a reader of memory that the thread writes next.
std::unique_lock<std::recursive_mutex> lock_tensors();

// Makes the roots real, and before memory is written all that still reads it as it was. A recording that is
// open (engine/recording.h; its mark is a lazy number) gets the kernels.
void run(std::vector<UOp> roots);

// For kernels that no graph shows, before they run: what waits to write memory that they use or to read
// memory that they write, among the values with a lazy number in (after, until].
void run_pending(const MemoryNodes& used, const MemoryNodes& written, uint64_t after, uint64_t until);

// Views of `base`, a state of memory, become views of `after`, the next one.
void move_views(const UOp& base, const UOp& after);

// The assignments that wait below lazy values with a higher number.
std::vector<UOp> pending_writes(uint64_t after);

}  // namespace lathe
