// From a linear program to text that a compiler takes.
#pragma once
#include "renderer/target.h"
#include "uop/uop.h"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

struct Rendered {
  std::string source;
  std::string entry;  // symbol of the exported function
};

// The arguments of a kernel in calling order.
struct Signature {
  std::vector<UOp> buffers;    // Global Params by slot
  std::vector<UOp> variables;  // Alu Params by name
  UOp core_id;                 // the Special, or null
  // The Specials "gidx0" … and "lidx0" …, along x, y, z, or null: which group, and which work item of it.
  std::array<UOp, 3> groups, items;
};
// How many there are along one axis: of a Special of constant end, or null.
int64_t launch_extent(const UOp& special);
Signature signature_of(std::span<const UOp> linear);

// CPU text exports
//   void ENTRY(void* const* bufs, const int64_t* vars, int64_t core_id);
// bufs[i] is the memory of Signature::buffers[i], vars[i] the value of Signature::variables[i]. Slots that a
// program does not use take no place in bufs. Two buffers never overlap where one of them is written; each is
// aligned to its element.
// OpenCL text exports a kernel whose arguments are for each buffer its memory and where in it, in elements
// (ulong), it starts; then the variables. Where no Special "lidx…" says how many work items a group has, any
// number will do.
class Renderer {
 public:
  virtual ~Renderer() = default;
  virtual std::string_view name() const = 0;
  virtual const Target& target() const = 0;
  // `linear` is a stage 4 program (docs/ir.md); anything else is an internal error. Equal programs give equal
  // text.
  virtual Rendered render(std::string_view kernel_name, std::span<const UOp> linear) const = 0;
};

// Why no text renderer prints an op; empty where they do.
std::string_view why_not_rendered(Op op);

}  // namespace lathe
