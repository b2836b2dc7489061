#pragma once
#include "runtime/interp/code.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lathe::interp {

class Code {
 public:
  Code(const std::string& name, std::span<const UOp> linear) : program_(resolve(name, linear)) {}

  // One part of the kernel. `memory` by position of the Global Params, `vars` by position of the Alu Params.
  // An access outside a buffer is an index error that names its slot; a read of scratch that was never
  // written and an ALU operation without a value (division by zero) are device errors.
  void run(std::span<const std::span<std::byte>> memory, std::span<const int64_t> vars,
           int64_t core_id) const;

 private:
  Resolved program_;
};

}  // namespace lathe::interp
