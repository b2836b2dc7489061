// Kernels that compute large reductions block by block where they use them, instead of reading them from
// memory.
#pragma once
#include "schedule/passes.h"

namespace lathe {

class ChainFusion {
 public:
  // Kernel number `kernel` puts `value`, a function of `out`, into `buffer`, which nobody may need.
  void remember(const UOp& buffer, const Coords& out, const UOp& value, size_t kernel);

  // Kernel number `kernel` does `effect`, a Store, in `loops`: a form that reads fewer buffers is noted where
  // there is one (uop/chained_reduces.h) whose inner reductions are worth it.
  void consider(const UOp& effect, const std::vector<UOp>& loops, const DraftKernel::Access& written,
                size_t kernel);

  // Takes those forms by which buffers go, and leaves out the kernels that fill these.
  void settle(std::vector<DraftKernel>& kernels);

 private:
  struct Remembered {
    Coords out;
    UOp value;
    size_t kernel;
    int depth;  // how many scores are below, and it is one; 0 for what only depends on scores
  };
  struct Form {
    UOp effect;
    std::vector<UOp> loops;
    DraftKernel::Access written;
    std::vector<const Node*> dissolved;  // buffers that it does not read
    bool has_max;
  };
  UOp dissolve(const UOp& value, std::span<const UOp> loops, bool all,
               std::vector<const Node*>& dissolved) const;
  UOp cut(const UOp& value, const std::string& device);
  UOp memory_of(const UOp& reduce, const std::string& device);

  std::unordered_map<const Node*, Remembered> remembered_;  // by buffer
  std::unordered_map<size_t, std::vector<Form>> forms_;     // by kernel, the best first
  std::vector<Form> parts_;                                 // kernels that only forms need
  std::unordered_map<UOp, UOp> memory_;                     // of reductions that forms share
};

}  // namespace lathe
