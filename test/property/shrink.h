// Makes an expression that shows a failure small.
#pragma once
#include "uop/uop.h"

#include <functional>

namespace lathe::test {

// The smallest expression found that still fails: nodes become one of their sources, a variable or a small
// constant, constants move towards 0, boxes of variables and Ranges narrow. `fails` must hold of `u`; no step
// that makes it false is taken, and the result is one that no single step makes smaller.
UOp shrink(const UOp& u, const std::function<bool(const UOp&)>& fails);

}  // namespace lathe::test
