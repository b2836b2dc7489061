#include "base/error.h"

void caller(int axis) {
#ifdef CONTROL
  lathe::index_error("axis {} is out of range", axis);
#else
  lathe::index_error("axis {:s} is out of range", axis);  // EXPECT: invalid type specifier
#endif
}
