// Infix notation of small graphs: max(a*4+b//2, 3) (declared in uop.h).
#pragma once
#include "uop/uop.h"

#include <string>

namespace lathe {

struct ExpressionLimits {
  size_t characters = 10000;
  int depth = 200;
};
// What does not fit the limits is written "...".
std::string expression(const UOp& u, const ExpressionLimits& limits);

}  // namespace lathe
