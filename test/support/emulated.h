// Linear programs for targets that lack some of their types.
#pragma once
#include "codegen/passes.h"

#include <vector>

namespace lathe::test {

// The program with the types and casts that the target lacks in terms of others, in the same order.
inline std::vector<UOp> emulated(const std::vector<UOp>& linear, const Target& target) {
  std::vector<UOp> out = toposort(decompose_dtype(UOp::make(Op::Group, DType::Void, linear), target));
  out.pop_back();
  return out;
}

}  // namespace lathe::test
