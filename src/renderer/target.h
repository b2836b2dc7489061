// What a code generator must know about the machine and the language it prints.
#pragma once
#include "uop/dtype.h"
#include "uop/op.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// Sums in each lane a group of products: bit_width(acc) / bit_width(a) of them.
struct DotInstruction {
  DType a, b, acc;
  int lanes;                   // of the sum
  std::string_view intrinsic;  // of LLVM
  std::string_view element;    // what its operands are vectors of, in LLVM
  bool adds;                   // to a first operand
};

// Of a device that runs a kernel as groups of work items; those of a group share memory and meet at barriers.
struct WorkGroupLimits {
  std::array<int64_t, 3> groups;  // most along x, y, z
  std::array<int64_t, 3> items;   // most of one group along x, y, z
  int64_t group_items;            // most of one group altogether
  int64_t local_bytes;            // memory that a group shares
};

struct Target {
  std::string name;  // the language: "llvm", "c", "opencl"
  std::string arch;  // "x86_64", "aarch64"; the name of a device that is no processor

  bool has_threads = true;  // Thread axes become the core_id argument
  int max_threads = 1;
  // Output loops become indices of groups, Local and GroupReduce axes indices of work items. Without: a
  // kernel is a function of the host.
  std::optional<WorkGroupLimits> work_groups;

  int vector_bits = 128;  // one vector register of float32
  int vector_registers = 16;
  bool has_fma = false;
  bool has_long_vectors = true;  // a vector of several registers is as fast as its parts
  int max_lanes = 128;           // of one vector value

  int64_t l1d_bytes = 32 << 10;  // of one core
  int64_t l2_bytes = 1 << 20;    // of one core
  int64_t l3_bytes = 8 << 20;    // shared

  std::vector<DotInstruction> dots;  // widest first

  // ALU ops the renderer prints; codegen decomposes the others.
  OpSet native_ops;
  uint32_t dtypes = 0;  // bit i: DType i can be loaded, stored and computed with

  // For attributes of LLVM functions; empty leaves the choice to the machine that compiles the text.
  std::string cpu;
  std::string features;

  bool supports_dtype(DType d) const { return (dtypes >> static_cast<int>(d)) & 1; }
  // Lanes of one vector register.
  int lanes(DType d) const { return static_cast<int>(vector_bits / 8 / item_size(d)); }
  // The widest dot instruction of these types, or null.
  const DotInstruction* dot(DType a, DType b, DType acc) const;
  // All of the above as text: equal keys mean equal code.
  std::string key() const;
};

// `t` without the dtypes that the knob EMULATED_DTYPES names: narrow floats, and "long" for both 64-bit
// integers and float64 (UserError for other names); and, with DOT=0, without dot instructions.
Target without_emulated(Target t);

// The machine we run on, for each language.
Target llvm_target();
// Every dot instruction there is, of any number of lanes.
std::vector<DotInstruction> all_dots();
Target c_target();
// What every OpenCL device with 64-bit floats can do; a device states its own limits.
Target opencl_target();

}  // namespace lathe
