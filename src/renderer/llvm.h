// LLVM IR text for LLVM 19 (opaque pointers). Module data layout and triple are left to whoever compiles it.
//   bool    i1 in registers, i8 in memory
//   Buffer  alloca [n x T], accessed by whole vectors, which SROA turns into registers
#pragma once
#include "renderer/renderer.h"

namespace lathe {

class LlvmRenderer final : public Renderer {
 public:
  explicit LlvmRenderer(Target target = llvm_target()) : target_(std::move(target)) {}
  std::string_view name() const override { return "LLVM"; }
  const Target& target() const override { return target_; }
  Rendered render(std::string_view kernel_name, std::span<const UOp> linear) const override;

 private:
  Target target_;
};

}  // namespace lathe
