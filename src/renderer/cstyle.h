// The C family. A dialect is a table; this one is C for gcc ≥ 10 and clang, with vector extensions and no
// headers but stdint.h.
//   bool      _Bool; vectors of booleans are integer masks (0 or -1 a lane) as wide as the compared elements;
//   a byte in memory half, bfloat16  float in registers, rounded after every operation, uint16_t in memory:
//   exact with any compiler vectors   power-of-two sized; other lane counts are padded with lanes that
//   nothing reads
#pragma once
#include "renderer/renderer.h"

namespace lathe {

// What differs between languages that share C's expressions and statements.
struct CDialect {
  std::string_view name;
  std::string_view prologue;          // first lines of a file
  std::string_view body_qualifier;    // of the function that holds the kernel
  std::string_view helper_qualifier;  // of the functions that a kernel calls
  std::string_view pointer_space;     // in front of the element type of a buffer argument
  std::string_view restrict_word;
  std::string_view barrier;
  std::string_view sqrt_float, sqrt_double, trunc_float, trunc_double;
  std::string_view infinity, nan;  // as float
  std::string_view unroll_hint;    // before loops of helpers over lanes
  bool unpacks_arguments;          // an entry function takes bufs, vars and core_id apart
};
extern const CDialect kC;

class CStyleRenderer final : public Renderer {
 public:
  explicit CStyleRenderer(const CDialect& dialect = kC, Target target = c_target())
      : dialect_(dialect), target_(std::move(target)) {}
  std::string_view name() const override { return dialect_.name; }
  const Target& target() const override { return target_; }
  Rendered render(std::string_view kernel_name, std::span<const UOp> linear) const override;

 private:
  const CDialect& dialect_;
  Target target_;
};

}  // namespace lathe
