// Runs the passes of lowering: dumps, times and verifies each.
#pragma once
#include "renderer/target.h"
#include "uop/spec.h"
#include "uop/uop.h"

#include <span>
#include <string_view>

namespace lathe {

struct Pass {
  std::string_view name;
  UOp (*run)(const UOp&, const Target&);
  SpecLevel level;  // what the result must satisfy
};

// Runs them in order. PASS_OFF leaves passes out by name, DEBUG >= 6 prints each result that changed,
// PASS_TIME=1 times, SPEC >= 1 verifies after each pass and names it in the error.
UOp run_passes(const UOp& body, const Target& target, std::span<const Pass> passes);

}  // namespace lathe
