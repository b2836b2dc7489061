// C for gcc ≥ 10 and clang, with vector extensions and no headers but stdint.h.
//   bool     _Bool; vectors of booleans are integer masks (0 or -1 a lane) as wide as the compared elements;
//            a byte in memory
//   vectors  power-of-two sized; other lane counts are padded with lanes that nothing reads
//
// OpenCL C 1.2 for any device: vectors of the language, no extension but cl_khr_fp64 where there is a double.
#pragma once
#include "renderer/c_dialect.h"
#include "renderer/renderer.h"

namespace lathe {

class CStyleRenderer final : public Renderer {
 public:
  explicit CStyleRenderer(Target target = c_target(), const CDialect& dialect = kCDialect)
      : target_(std::move(target)), dialect_(dialect) {}
  std::string_view name() const override { return dialect_.language; }
  const Target& target() const override { return target_; }
  Rendered render(std::string_view kernel_name, std::span<const UOp> linear) const override;

 private:
  Target target_;
  const CDialect& dialect_;
};

}  // namespace lathe
