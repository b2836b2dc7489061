// A linear program with its names resolved: sources are offsets into one table of lanes, loops are jumps.
#pragma once
#include "base/small_vec.h"
#include "uop/uop.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lathe::interp {

enum class StepKind : uint8_t {
  Variable,   // the scalar argument number `index`
  CoreId,     // the part that runs
  OpenLoop,   // zero, or on to `jump` when the loop is empty
  CloseLoop,  // count up the loop variable of the step `jump`, and back to behind it until its end
  Skip,       // to `jump` where source 0 is false
  Alu,
  Dot,
  Cast,
  Bitcast,
  Gather,  // lanes picked from the sources' lanes: Stack, lane Index
  Load,
  Store,
};

// Lanes of the value table from `at`; a scalar stands for every lane.
struct Operand {
  int32_t at = 0;
  int32_t stride = 0;
};

struct Step {
  StepKind kind;
  Op op = Op::Noop;
  DType dtype = DType::Void;
  DType from = DType::Void;  // Bitcast: type of the source; Dot: of source 1
  int32_t at = 0;            // first lane of the result
  int32_t lanes = 1;
  int32_t jump = 0;           // a step
  int32_t index = 0;          // Variable: argument; Load and Store: number of the memory
  bool is_scattered = false;  // Load, Store: one index a lane, else consecutive from source 0
  bool has_gate = false;
  // Load: index, alternative, gate. Store: index, value, gate. Gather: one a lane.
  SmallVec<Operand, 3> srcs;
};

// A Global Param or a Reg Buffer.
struct Memory {
  DType dtype;
  int64_t slot;      // the Param's slot
  int64_t elements;  // -1 where the program does not say
  bool is_scratch;
};

struct Resolved {
  std::string name;
  std::vector<Step> steps;
  std::vector<Memory> memories;  // Params in the order of arguments, then scratch
  std::vector<Scalar> values;    // the table as a run starts: constants are in place
  int n_params = 0;
  std::vector<std::string> variables;  // names, in the order of arguments
};

// An internal error where the program is not a stage 4 program.
Resolved resolve(const std::string& name, std::span<const UOp> linear);

}  // namespace lathe::interp
