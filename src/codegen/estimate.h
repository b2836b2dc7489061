// Work and memory of a kernel, for display and for choosing schedules.
#pragma once
#include "uop/uop.h"

namespace lathe {

struct Estimate {
  double flops = 0;  // arithmetic on data, index maths left out
  double bytes = 0;  // touched: loads and stores of a buffer counted apart, each at most the buffer's size
};
Estimate estimate(const UOp& body);

}  // namespace lathe
