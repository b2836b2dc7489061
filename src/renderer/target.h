// What a code generator must know about the machine and the language it prints.
#pragma once
#include "uop/dtype.h"
#include "uop/op.h"

#include <cstdint>
#include <string>

namespace lathe {

struct Target {
  std::string name;  // the language: "llvm", "c"
  std::string arch;  // "x86_64", "aarch64"

  bool has_threads = true;  // Thread axes become the core_id argument
  int max_threads = 1;

  int vector_bits = 128;  // one vector register of float32
  int vector_registers = 16;
  bool has_fma = false;
  bool has_long_vectors = true;  // a vector of several registers is as fast as its parts

  int64_t l1d_bytes = 32 << 10;  // of one core
  int64_t l2_bytes = 1 << 20;    // of one core
  int64_t l3_bytes = 8 << 20;    // shared

  // ALU ops the renderer prints; codegen decomposes the others.
  OpSet native_ops;
  uint32_t dtypes = 0;  // bit i: DType i can be loaded, stored and computed with

  // For attributes of LLVM functions; empty leaves the choice to the machine that compiles the text.
  std::string cpu;
  std::string features;

  bool supports_dtype(DType d) const { return (dtypes >> static_cast<int>(d)) & 1; }
  // Lanes of one vector register.
  int lanes(DType d) const { return static_cast<int>(vector_bits / 8 / item_size(d)); }
  // All of the above as text: equal keys mean equal code.
  std::string key() const;
};

// `t` without the dtypes that the knob EMULATED_DTYPES names: narrow floats, and "long" for both 64-bit
// integers and float64. UserError for other names.
Target without_emulated(Target t);

// The machine we run on, for each language.
Target llvm_target();
Target c_target();

}  // namespace lathe
