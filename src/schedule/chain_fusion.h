// Kernels that compute large reductions block by block where they use them, instead of reading them from
// memory.
#pragma once
#include "schedule/build_kernels.h"

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
    bool is_large;  // else it only depends on what is
  };
  struct Form {
    UOp effect;
    std::vector<UOp> loops;
    DraftKernel::Access written;
    std::vector<const Node*> dissolved;  // buffers that it does not read
  };
  UOp dissolve(const UOp& value, bool all, std::vector<const Node*>& dissolved) const;

  std::unordered_map<const Node*, Remembered> remembered_;  // by buffer
  std::unordered_map<size_t, Form> forms_;                  // by kernel
};

}  // namespace lathe
