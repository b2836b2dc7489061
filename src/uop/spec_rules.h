// The rules of uop/spec.h as a table: at which levels and for which ops they hold, what holds in words, and
// the check.
#pragma once
#include "uop/spec.h"

#include <span>
#include <string_view>

namespace lathe {

struct SpecRule {
  uint8_t levels;  // bit 1 << level where it holds
  OpSet ops;
  std::string_view text;
  bool (*holds)(const UOp& u);
};

// Every rule of a level that concerns a node must hold, in this order: later checks rely on earlier ones.
std::span<const SpecRule> spec_rules();
// Ops that occur at the level.
OpSet level_ops(SpecLevel level);

// `u` without the Afters around it.
const UOp& strip_after(const UOp& u);
// A Global, Local or Reg Param or Buffer, possibly behind Afters.
bool is_memory(const UOp& u);
// An Index or Shrink that names memory, not lanes of a value; possibly behind Afters.
bool is_address(const UOp& u);
// Source `i` of `u` is a number that is known when a program is compiled: a shape, a size or a lane.
bool is_compile_time_source(const UOp& u, size_t i);

}  // namespace lathe
